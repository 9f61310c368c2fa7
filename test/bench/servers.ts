// Starts the servers that are measured, each in processes of its own. Reads the processor time and memory of a server
// and its child processes from the kernel.
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

export const SECRET = `whsec_${Buffer.from('the secret of the benchmark').toString('base64')}`;
const PORT = 4101;
export const OPS_PORT = 4102;
/** The kernel counts processor time in hundredths of a second. */
const TICK_MS = 10;

export interface Server {
  port: number;
  /** From the start to readiness, milliseconds. */
  startMs: number;
  /** Processor time so far, milliseconds. */
  cpuMs(): number;
  /** Proportional set size, MB: shared memory is divided among its processes. */
  memoryMb(): number;
  /**
   * The number of events handled so far. Infinity for the servers in rivals/, because their work ends with the answer.
   */
  handled(): Promise<number>;
  pid: number;
  stop(): Promise<void>;
}

/** `place`: a folder, or the address of a database. */
export async function startRival(
  name: 'front' | 'koa' | 'rows' | 'express' | 'inserts',
  place: string,
): Promise<Server> {
  const remote = name === 'inserts';
  if (!remote) mkdirSync(place, { recursive: true });
  const server = launch([`test/bench/rivals/${name}.ts`], { DATABASE: remote ? place : join(place, 'rows.db') });
  return { ...(await whenReady(server, `http://127.0.0.1:${PORT}/`)), handled: () => Promise.resolve(Infinity) };
}

export interface KitOptions {
  folder: string;
  order?: 'arrival' | 'window';
  /** Words before the command, such as `strace …`. */
  prefix?: string[];
  env?: Record<string, string>;
  /** Each attempt takes this long. Default: 0. */
  slowMs?: number;
  /** Each attempt inserts a row with `ctx.complete`. */
  completes?: boolean;
}

/** Starts the kit with a handler that records how long after its release each task began; see `lagsOf`. */
export async function startKit({
  folder,
  order = 'window',
  slowMs = 0,
  completes = false,
  prefix = [],
  env = {},
}: KitOptions): Promise<Server> {
  const handlers = join(folder, 'handlers');
  mkdirSync(handlers, { recursive: true });
  writeFileSync(join(handlers, 'noting.js'), handlerOf({ order, slowMs, completes, file: join(folder, 'lags.json') }));
  const server = launch(
    // The option that `npm start` sets.
    ['--max-semi-space-size=16', 'src/base/node/launch.js', 'src/main.ts'],
    {
      OPS_PORT: String(OPS_PORT),
      HANDLERS_DIR: handlers,
      DATABASE_URL: `sqlite:${folder}/events.db`,
      ORDER_WINDOW_MS: String(WINDOW_MS),
      ...env,
    },
    prefix,
  );
  const ready = await whenReady(server, `http://127.0.0.1:${PORT}/readyz`);
  return {
    ...ready,
    async handled() {
      // The ops port opens a moment after the port for deliveries.
      for (;;) {
        const status = await fetch(`http://127.0.0.1:${OPS_PORT}/api/status`).catch(() => undefined);
        if (!status) await sleep(10);
        else return ((await status.json()) as { tasks: { done: number } }).tasks.done;
      }
    },
  };
}

const WINDOW_MS = 250;

function handlerOf(options: Required<Pick<KitOptions, 'order' | 'slowMs' | 'completes'>> & { file: string }): string {
  const { order, slowMs, completes, file } = options;
  const held = order === 'window' ? WINDOW_MS : 0;
  return `import { writeFileSync } from 'node:fs';
const lags = [];
process.on('exit', () => lags.length && writeFileSync(${JSON.stringify(file)}, JSON.stringify(lags)));
export default { on: '*', order: '${order}', lane: 'conversation',
  ${completes ? `setup: (tx) => tx.run('create table if not exists noted (key text)'),` : ''}
  handle({ receivedAt, key }, ctx) {
    lags.push(Date.now() - Date.parse(receivedAt) - ${held});
    ${completes ? `return ctx.complete((tx) => tx.run('insert into noted values (?)', key));` : ''}
    ${slowMs > 0 ? `return new Promise((done) => setTimeout(done, ${slowMs}));` : ''}
  } };
`;
}

/**
 * Milliseconds from release to the start of the handler, without the first `skip` tasks. The handler writes them
 * when the kit stops.
 */
export function lagsOf(folder: string, skip: number): { p50: number; p99: number } {
  const file = join(folder, 'lags.json');
  const lags = existsSync(file) ? (JSON.parse(readFileSync(file, 'utf8')) as number[]).slice(skip) : [];
  lags.sort((a, b) => a - b);
  return { p50: lags[Math.floor(lags.length / 2)] ?? NaN, p99: lags[Math.floor(lags.length * 0.99)] ?? NaN };
}

function launch(args: string[], env: Record<string, string>, prefix: string[] = []): ChildProcess {
  const [command = '', ...rest] = [...prefix, process.execPath, ...args];
  const common = { PATH: process.env['PATH'], PORT: String(PORT), WEBHOOK_SECRET: SECRET, LOG_LEVEL: 'error' };
  const server = spawn(command, rest, { env: { ...common, ...env }, stdio: ['ignore', 'inherit', 'inherit'] });
  const end = (): void => void server.kill('SIGKILL');
  process.once('exit', end);
  server.once('exit', () => process.off('exit', end));
  return server;
}

async function whenReady(server: ChildProcess, url: string): Promise<Omit<Server, 'handled'>> {
  const started = performance.now();
  while (
    !(await fetch(url).then(
      ({ status }) => status !== 503,
      () => false,
    ))
  ) {
    if (server.exitCode !== null) throw new Error(`${server.spawnargs.join(' ')} ended with ${server.exitCode}`);
    await sleep(5);
  }
  const pid = server.pid ?? 0;
  return {
    port: PORT,
    pid,
    startMs: performance.now() - started,
    cpuMs: () => cpuMsOf(pid),
    memoryMb: () => sum(family(pid), memoryOf),
    async stop() {
      // strace does not pass signals on, so the signal goes to the process that it traces.
      const traced = server.spawnfile === process.execPath ? undefined : family(pid)[1];
      process.kill(traced ?? pid);
      if (server.exitCode === null) await once(server, 'exit');
    },
  };
}

/** Processor time so far, with that of all descendants. */
export const cpuMsOf = (pid: number): number => sum(family(pid), cpuOf);

function sum(pids: number[], of: (pid: number) => number): number {
  return pids.reduce((total, pid) => total + of(pid), 0);
}

/** A process and all its descendants. */
function family(root: number): number[] {
  const all = readdirSync('/proc').filter((name) => /^\d+$/.test(name));
  const children = all.map(Number).filter((pid) => Number(statOf(pid)[1]) === root);
  return [root, ...children.flatMap(family)];
}

/** The fields after the command's name: state, parent and so on (proc_pid_stat(5)). */
function statOf(pid: number): string[] {
  const stat = readOf(pid, 'stat');
  return stat.slice(stat.lastIndexOf(')') + 2).split(' ');
}

function cpuOf(pid: number): number {
  const stat = statOf(pid);
  return (Number(stat[11] ?? 0) + Number(stat[12] ?? 0)) * TICK_MS;
}

function memoryOf(pid: number): number {
  return Number(/^Pss:\s+(\d+)/m.exec(readOf(pid, 'smaps_rollup'))?.[1] ?? 0) / 1024;
}

/** Empty if the process has ended meanwhile. */
function readOf(pid: number, file: string): string {
  try {
    return readFileSync(`/proc/${pid}/${file}`, 'utf8');
  } catch {
    return '';
  }
}
