// Starts an edition as a user would, by its `npm start`: real processes on free ports, with a folder of its own. Needs
// Linux, because it finds processes in /proc.
import { spawn, type ChildProcess } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { systemClock as clock } from '../src/base/clock.ts';
import { orUndefined } from '../src/base/errors.ts';
import { freePort } from '../src/tools/sandbox.ts';
import { signedHeaders } from '../src/service/sign.ts';

export const SECRET = 'whsec_of_the_tests';
/** FIRST: a checkout of the first edition, for `npm run bench` beside it. */
export const ROOTS = { second: join(import.meta.dirname, '..'), first: process.env['FIRST'] ?? '' };
const LIMIT_MS = 30_000;

export interface KitOptions {
  edition?: keyof typeof ROOTS;
  /** Source by file name. It may import '#kit', and `process.env.FOLDER` is the folder of this kit. */
  handlers?: Record<string, string>;
  env?: Record<string, string>;
  /** Holds the store, `events.db`. Default: a new one, which is removed at the end. */
  folder?: string;
  /** Comes before the command. */
  under?: string[];
}

/** The part of GET /api/status that both editions have. */
export interface Status {
  events: number;
  duplicates: number;
  tasks: Record<'waiting' | 'running' | 'done' | 'skipped' | 'dead', number>;
  handlers: { name: string }[];
  alarms: { name: string }[];
}

export type Kit = Awaited<ReturnType<typeof startKit>>;

/** Resolves when `GET /readyz` is 200. */
export async function startKit({ edition = 'second', handlers = {}, env = {}, ...options }: KitOptions = {}) {
  const folder = options.folder ?? mkdtempSync(join(tmpdir(), 'kit-test-'));
  const root = ROOTS[edition];
  const [port, opsPort] = [await freePort(), await freePort()];
  const [base, opsUrl] = [`http://127.0.0.1:${port}`, `http://127.0.0.1:${opsPort}`];
  mkdirSync(join(folder, 'handlers'), { recursive: true });
  for (const [name, source] of Object.entries(handlers))
    writeFileSync(join(folder, 'handlers', name), source.replaceAll(`'#kit'`, `'${join(root, 'src/kit.ts')}'`));
  const common = { PATH: process.env['PATH'], LOG_LEVEL: 'warn', WEBHOOK_SECRET: SECRET, HOST: '127.0.0.1' };
  const places = { HANDLERS_DIR: join(folder, 'handlers'), DATABASE_URL: `sqlite:${join(folder, 'events.db')}` };
  const all = { ...common, ...places, FOLDER: folder, PORT: String(port), OPS_PORT: String(opsPort), ...env };
  let main: ChildProcess | undefined;
  let output = '';

  /** Starts it, also again after it has ended. Resolves with the milliseconds until it is ready. */
  async function start(more: Record<string, string> = {}): Promise<number> {
    const began = clock.monotonic();
    // A group of its own, so that all its processes can be killed at once.
    const [command = '', ...args] = [...(options.under ?? []), ...startOf(root)];
    const child = spawn(command, args, { cwd: folder, detached: true, env: { ...all, ...more } });
    main = child;
    for (const stream of [child.stdout, child.stderr]) stream.on('data', (part: Buffer) => (output += part.toString()));
    await until('the kit to be ready', async () => {
      if (child.exitCode !== null) throw new Error(`the kit ended with ${child.exitCode}:\n${output}`);
      return (await fetch(`${base}/readyz`).catch(() => undefined))?.ok === true;
    });
    return clock.monotonic() - began;
  }

  function killGroup(): void {
    const group = main?.pid;
    // It throws if no process of the group is left.
    if (group !== undefined) orUndefined(() => process.kill(-group, 'SIGKILL'));
  }

  function clear(): void {
    killGroup();
    if (options.folder === undefined) rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
  }

  process.once('exit', clear);
  return {
    startMs: await start(),
    url: `${base}/webhooks`,
    opsUrl,
    folder,
    /** Its DATABASE_URL. */
    store: all.DATABASE_URL,
    start,
    /** Of its processes, the main one first; of those whose command line holds this, for example `run/main`. */
    pids: (what = ''): number[] =>
      family(main?.pid ?? 0).filter((pid) => textOf(`/proc/${pid}/cmdline`).includes(what)),
    /** What it has logged. */
    output: () => output,
    async status(): Promise<Status> {
      let answer: Response | undefined;
      // The ops port opens a moment after the other.
      await until('the status', async () => !!(answer = await fetch(`${opsUrl}/api/status`).catch(() => undefined)));
      return (await answer?.json()) as Status;
    },
    /** The lines that handlers have written to the file `lines` in the folder. */
    lines: (): string[] => textOf(join(folder, 'lines')).split('\n').slice(0, -1),
    /** SIGKILL for all its processes. */
    async kill(): Promise<void> {
      killGroup();
      await until('the kit to end', () => main?.signalCode !== null);
    },
    /** SIGTERM. Resolves with the exit code. */
    async stop(): Promise<number | null> {
      main?.kill('SIGTERM');
      await until('the kit to end', () => main?.exitCode !== null || main.signalCode !== null);
      clear();
      process.off('exit', clear);
      return main?.exitCode ?? null;
    },
  };
}

export async function until(what: string, isSo: () => boolean | Promise<boolean>, limitMs = LIMIT_MS): Promise<void> {
  for (const began = clock.monotonic(); !(await isSo()); await sleep(10))
    if (clock.monotonic() - began > limitMs) throw new Error(`waited ${limitMs / 1_000} s in vain for ${what}`);
}

/** Signs an event and delivers it. Resolves with the status of the answer. */
export async function deliver(url: string, event: Record<string, unknown>): Promise<number> {
  const { id = randomUUID(), type = 'MessageReceived', data = {} } = event;
  const body = Buffer.from(JSON.stringify({ cursor: null, ...event, id, type, data: { [String(type)]: data } }));
  const about = { type: String(type), id: String(id), deliveryId: randomUUID(), attempt: 1 };
  const timestampSeconds = Math.floor(clock.now() / 1_000);
  const headers = signedHeaders({ ...about, body, secrets: [SECRET], timestampSeconds });
  return (await fetch(url, { method: 'POST', body, headers, signal: AbortSignal.timeout(30_000) })).status;
}

/** `npm start` with absolute paths: the working folder is another, so that no `.env` is read. */
function startOf(root: string): string[] {
  const { scripts } = JSON.parse(textOf(join(root, 'package.json'))) as { scripts: { start: string } };
  const words = scripts.start.split(' ').slice(1);
  return words.map((word) => (existsSync(join(root, word)) ? join(root, word) : word));
}

/** A process and its descendants. */
function family(root: number): number[] {
  const parentOf = (pid: string): number => Number(textOf(`/proc/${pid}/stat`).split(') ').at(-1)?.split(' ')[1]);
  const children = readdirSync('/proc').filter((name) => /^\d+$/.test(name) && parentOf(name) === root);
  return [root, ...children.flatMap((pid) => family(Number(pid)))];
}

/** Empty if there is no such file, or its process has ended meanwhile. */
export function textOf(path: string): string {
  return orUndefined(() => readFileSync(path, 'utf8')) ?? '';
}
