// A kit of its own for the demo and for `npm run dev`: the main process as `npm start` runs it, on free ports of this
// machine, and on a store that no other kit has made. It reads no .env, because that belongs to the real kit.
import Database from 'better-sqlite3';
import { fork, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync } from 'node:fs';
import { createServer, type AddressInfo } from 'node:net';
import { dirname } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { orUndefined } from '../base/errors.ts';
import type { Env } from '../config.ts';

const MAIN = fileURLToPath(new URL('../main.ts', import.meta.url));
/** `pragma application_id` of a store that a sandbox has made. */
const MARK = 0x6b_69_74_64;
/** A read that fails is tried again after this time, and at most this many times in all. */
const [AGAIN_MS, TRIES] = [100, 30];

export interface SandboxOptions {
  /** A folder without a .env. */
  cwd: string;
  store: string;
  token?: string;
  onLine: (line: string) => void;
  /** Called when the kit has ended without a call of `stop`. */
  onEnd?: (code: number | null) => void;
}

/** Throws if the store exists, but no sandbox has made it. */
export async function createSandbox({ cwd, store, token, onLine, onEnd }: SandboxOptions) {
  takeStore(store);
  const [port, opsPort] = [await freePort(), await freePort()];
  const opsUrl = `http://127.0.0.1:${opsPort}`;
  const ports = { HOST: '127.0.0.1', PORT: String(port), OPS_PORT: String(opsPort) };
  const own = { ...ports, DATABASE_URL: `sqlite:${store}`, OPS_TOKEN: token };
  let main: ChildProcess | undefined;
  let takesSignals = false;
  let isStopping = false;
  let closed: Promise<unknown> = Promise.resolve();

  function kill(): void {
    const group = main?.pid;
    if (group !== undefined) orUndefined(() => process.kill(-group, 'SIGKILL'));
  }

  function hear(line: string): void {
    takesSignals ||= line.includes('"ready for deliveries"');
    onLine(line);
  }

  /** Waits for `close`. It comes when the main process and its children have ended, because all hold the same pipes. */
  async function end(child: ChildProcess): Promise<void> {
    const [code] = (await once(child, 'close')) as [number | null];
    [main, takesSignals] = [undefined, false];
    if (!isStopping) onEnd?.(code);
  }

  process.once('exit', kill);
  return {
    url: `http://127.0.0.1:${port}/webhooks`,
    opsUrl,
    isRunning: () => main !== undefined,
    start(env: Env, args: string[] = []): void {
      // In a process group of its own, so that Ctrl-C reaches only the caller. When the caller is gone, the channel closes,
      // and the kit ends.
      const apart = { cwd, env: { ...env, ...own }, detached: true, silent: true };
      const child = fork(MAIN, args, { ...apart, execArgv: ['--max-semi-space-size=8'] });
      main = child;
      for (const input of [child.stdout, child.stderr]) if (input) createInterface({ input }).on('line', hear);
      closed = end(child);
    },
    /** Reloads the handlers. False: the kit is not ready for that. */
    reload: (): boolean => takesSignals && main?.kill('SIGHUP') === true,
    read: createReader(opsUrl, token),
    /** Stops the kit. Processes that have not ended within the limit are killed. */
    async stop(limitMs: number): Promise<void> {
      isStopping = true;
      main?.kill('SIGTERM');
      await Promise.race([closed, sleep(limitMs, undefined, { ref: false })]);
      kill();
      await closed;
      isStopping = false;
    },
  };
}

/** Reads the result of an operation. Tries for about 3 s, because the ops port opens a moment after the public one. */
function createReader(opsUrl: string, token: string | undefined) {
  const headers = token === undefined ? {} : { authorization: `Bearer ${token}` };
  return async (name: string, args: Record<string, string> = {}): Promise<unknown> => {
    const address = `${opsUrl}/api/${name}?${new URLSearchParams(args).toString()}`;
    for (let left = TRIES; left > 0; left--) {
      const answer = await fetch(address, { headers }).catch(() => undefined);
      if (answer?.ok) return answer.json();
      await sleep(AGAIN_MS);
    }
    throw new Error('the kit does not answer');
  };
}

/** Makes the store if there is none. Throws if another kit has made it. */
function takeStore(file: string): void {
  const isNew = !existsSync(file);
  mkdirSync(dirname(file), { recursive: true });
  const db = new Database(file, { readonly: !isNew });
  if (isNew) db.pragma(`application_id = ${MARK}`);
  const isOurs = db.pragma('application_id', { simple: true }) === MARK;
  db.close();
  if (!isOurs) throw new Error(`${file} is the store of another kit, and is left unchanged: choose another file`);
}

/** The first free port of this machine, from `from` on. 0: the system chooses. */
export async function freePort(from = 0): Promise<number> {
  const server = createServer().listen(from, '127.0.0.1');
  const isFree = await once(server, 'listening').then(
    () => true,
    () => false,
  );
  if (!isFree) return freePort(from + 1);
  const { port } = server.address() as AddressInfo;
  await new Promise((closed) => server.close(closed));
  return port;
}
