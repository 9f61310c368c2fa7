// SIGKILL of main, run and keep at each system call by which they write, while events are delivered and handled.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { startKit, textOf, until } from '../harness.ts';
import { requireStrace } from './recording.ts';
import { unless, type Options, type Row } from './report.ts';
import { createSender } from './sender.ts';
import { COUNTING, look, ownStore } from './store.ts';

const CALLS = 'write,writev,pwrite64,fsync,fdatasync,ftruncate,unlink,sendto,sendmsg';
const EVENTS = 6;

export async function calls(options: Options): Promise<Row[]> {
  requireStrace();
  const rows: Row[] = [];
  for (const role of ['main', 'run/main', 'keep/main']) rows.push(await walk(role, options));
  return rows;
}

async function walk(role: string, options: Options): Promise<Row> {
  const step = options.short ? 12 : 1;
  const env = { ...ownStore(options), ORDER_WINDOW_MS: '5' };
  const kit = await startKit({ handlers: { 'counting.ts': COUNTING }, env });
  const sender = createSender(() => kit.url, 3);
  const violations: string[] = [];

  async function work(): Promise<void> {
    await Promise.all(Array.from({ length: EVENTS }, () => sender.send()));
    const isOver = async () => (await look(kit.store, [])).done >= sender.acknowledged.length;
    await until('all to be handled', isOver, 60_000);
    // Gives `keep` time to make a checkpoint and to report.
    if (role.startsWith('keep')) await until('a turn of keep', () => !isTraced(kit.pids(role)[0]) || Date.now() > ends);
  }
  let ends = Date.now() + 3_000;
  await work();
  const [first = 0] = role === 'main' ? kit.pids() : kit.pids(role);
  const listing = await attach(first, join(kit.folder, 'calls'));
  ends = Date.now() + 3_000;
  await work();
  const points = (await listing.end()).filter((_, n) => n % step === 0);
  let killed = 0;
  for (const [n, point] of points.entries()) {
    await until('the process', () => (role === 'main' ? kit.pids() : kit.pids(role)).length > 0);
    const [pid = 0] = role === 'main' ? kit.pids() : kit.pids(role);
    const tracer = await attach(pid, join(kit.folder, 'calls'), point);
    const again = tracer.closed.then((isKilled) => (isKilled && role === 'main' ? kit.start() : undefined));
    ends = Date.now() + 3_000;
    await work().catch((error: unknown) => violations.push(`${point.call} ${point.nth}: ${String(error)}`));
    await tracer.end();
    await again;
    if (await tracer.closed) killed++;
    const seen = await look(kit.store, sender.acknowledged);
    violations.push(...seen.violations.map((one) => `${point.call} ${point.nth}: ${one}`));
    if (n % 20 === 19) options.progress(`${role}: ${n + 1} of ${points.length} calls, ${violations.length} violations`);
  }
  violations.push(...unless((await kit.stop()) === 0, 'the kit did not end well'));
  const rest = `${points.length - killed} of the ${points.length} calls did not come again`;
  const seen = `${killed} kills, ${rest}; ${sender.acknowledged.length} events`;
  return { what: `SIGKILL of ${role} at system calls by which it writes`, seen, violations };
}

const isTraced = (pid = 0): boolean => !/^TracerPid:\t0$/m.test(textOf(`/proc/${pid}/status`) || 'TracerPid:\t0');

/** strace on the main thread. With a point, the process is killed when it begins that call. */
async function attach(pid: number, file: string, point?: { call: string; nth: number }) {
  const inject = point ? ['-e', `inject=${point.call}:signal=KILL:when=${point.nth}`] : [];
  const strace = spawn('strace', ['-q', '-p', String(pid), '-o', file, '-e', `trace=${CALLS}`, ...inject]);
  const closed = once(strace, 'close').then(() => textOf(file).includes('+++ killed by SIGKILL +++'));
  await until('strace', () => isTraced(pid) || strace.exitCode !== null || textOf(`/proc/${pid}/status`) === '');
  return {
    /** Whether the process was killed. */
    closed,
    /** Ends strace. Resolves with the calls of the process, in order. */
    async end(): Promise<{ call: string; nth: number }[]> {
      strace.kill();
      await closed;
      const counts = new Map<string, number>();
      return Array.from(textOf(file).matchAll(/^(\w+)\(/gm), ([, call = '']) => {
        counts.set(call, (counts.get(call) ?? 0) + 1);
        return { call, nth: counts.get(call) ?? 0 };
      });
    },
  };
}
