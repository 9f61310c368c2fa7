// `npm run dev` as a process, in a folder of its own.
import { spawn, type ChildProcess } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { freePort, until } from './kit.ts';

export interface DevKit {
  folder: string;
  child: ChildProcess;
  /** What it has printed. */
  output: () => string;
  /** Writes a handler. */
  save(name: string, source: string): void;
  /** Waits for output that appears after this call. */
  says(words: string | RegExp): Promise<void>;
  /** The address of its page. */
  page(): Promise<string>;
  stop(): Promise<void>;
  /** Starts it again in the same folder. */
  restart(args?: string[]): Promise<void>;
  remove(): Promise<void>;
}

export async function startDev(
  files: Record<string, string>,
  args: string[] = [],
  env: Record<string, string> = {},
): Promise<DevKit> {
  const folder = mkdtempSync(join(tmpdir(), 'kit-dev-test-'));
  for (const name of ['handlers', 'temp']) mkdirSync(join(folder, name));
  // Other tests start kits at the same time.
  const ports = { PORT: String(await freePort()), OPS_PORT: String(await freePort()) };
  let output = '';
  const kit: DevKit = {
    folder,
    child: undefined as unknown as ChildProcess,
    output: () => output,
    save: (name, source) => writeFileSync(join(folder, 'handlers', name), source),
    async says(words) {
      const from = output.length;
      await until(() => output.slice(from).search(words) >= 0);
    },
    async page() {
      const address = (): string | undefined => /^page +(http\S+)/m.exec(output)?.[1];
      await until(() => address() !== undefined && output.includes('Ctrl-C ends it'));
      return address() ?? '';
    },
    async stop() {
      kit.child.kill('SIGTERM');
      await until(() => kit.child.exitCode !== null || kit.child.signalCode !== null);
    },
    async restart(more = args) {
      await kit.stop();
      begin(more);
    },
    async remove() {
      await kit.stop();
      rmSync(folder, { recursive: true, force: true, maxRetries: 10 });
    },
  };
  for (const [name, source] of Object.entries(files)) kit.save(name, source);
  begin(args);
  return kit;

  function begin(with_: string[]): void {
    output = '';
    const places = { HANDLERS_DIR: join(folder, 'handlers'), TMPDIR: join(folder, 'temp') };
    kit.child = spawn(process.execPath, [resolve('src/tools/dev/main.ts'), ...with_], {
      cwd: folder,
      env: { PATH: process.env['PATH'], ...places, ...ports, ...env },
    });
    for (const stream of [kit.child.stdout, kit.child.stderr])
      stream?.on('data', (chunk: Buffer) => (output += chunk.toString()));
  }
}
