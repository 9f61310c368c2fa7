// Debian's strace: kills a process at one of its system calls, lists those that it makes, and records a whole run with
// all that was written.
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { until } from '../../system/kit.ts';
import { MissingTool } from '../report.ts';

/** Those that change something outside of the process. */
const CALLS = 'write,writev,pwrite64,pwritev,fsync,fdatasync,ftruncate,unlink,rename,sendto,sendmsg';
/** The largest write of SQLite is a page. */
const LONGEST = 4_096;

/** The n-th call of a kind; strace counts each kind by itself. */
export interface Point {
  call: string;
  nth: number;
}

export interface Tracer {
  /** Its process has ended, or was never there. */
  ended: () => boolean;
  /** It ended by a kill. */
  killed: () => boolean;
  /** What the process called, in its order; complete once it has ended. */
  calls: () => Point[];
}

/**
 * Traces the main thread of a process that runs already, and kills it as it enters the call at that point. What is synced
 * by a thread of its own is left to power.ts: to who is killed, a sync makes no difference.
 */
export async function attach(pid: number, point?: Point): Promise<Tracer> {
  const lines = join(tmpdir(), `kit-strace-${process.pid}-${pid}.txt`);
  const inject = point ? ['-e', `inject=${point.call}:signal=KILL:when=${point.nth}`] : [];
  const strace = spawn('strace', ['-q', '-p', String(pid), '-o', lines, '-e', `trace=${CALLS}`, ...inject], {
    stdio: 'ignore',
  });
  let over = false;
  let told = '';
  const closed = once(strace, 'close').then(() => {
    told = read(lines);
    rmSync(lines, { force: true });
    return (over = true);
  });
  while (tracerOf(pid) !== String(strace.pid)) if (over || (await Promise.race([closed, sleep(1)]))) break;
  return {
    ended: () => over,
    killed: () => told.includes('+++ killed by SIGKILL +++'),
    calls() {
      const seen = new Map<string, number>();
      const names = told.matchAll(/^(\w+)\(/gm);
      return Array.from(names, ([, call = '']) => {
        const nth = (seen.get(call) ?? 0) + 1;
        seen.set(call, nth);
        return { call, nth };
      });
    },
  };
}

/** The words to put before a command, so that everything that it writes to files and sockets is recorded. */
export function recorder(lines: string): string[] {
  return ['strace', '-qq', '-f', '-y', '-xx', '-s', String(LONGEST), '-o', lines, '-e', `trace=${CALLS},read`];
}

/** The child of a process that runs such a file, as soon as there is one. */
export async function childOf(pid: number, file: string): Promise<number> {
  let found: string | undefined;
  await until(() => {
    const children = read(`/proc/${pid}/task/${pid}/children`).split(' ').filter(Boolean);
    found = children.find((child) => read(`/proc/${child}/cmdline`).split('\0').at(-2)?.endsWith(file));
    return found !== undefined;
  });
  return Number(found);
}

/** Throws MissingTool where strace is not there, or may not do what it must. */
export async function requireStrace(): Promise<void> {
  if (spawnSync('strace', ['-V']).status !== 0)
    throw new MissingTool('strace is missing: apt-get install strace (Debian, Ubuntu), then again');
  const idle = spawn('sleep', ['60']);
  const tracer = await attach(idle.pid ?? 0);
  const works = !tracer.ended();
  idle.kill('SIGKILL');
  await until(tracer.ended);
  if (works) return;
  throw new MissingTool(
    'strace may not attach to a process here: sysctl kernel.yama.ptrace_scope=0, and in a container --cap-add SYS_PTRACE',
  );
}

function tracerOf(pid: number): string | undefined {
  return /^TracerPid:\t(\d+)/m.exec(read(`/proc/${pid}/status`))?.[1];
}

/** What has ended meanwhile has nothing to say. */
function read(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return '';
  }
}
