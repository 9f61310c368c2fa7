// Uses strace to kill a process at one of its system calls, to list its calls, or to record everything that a run
// writes.
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { until } from '../../system/kit.ts';
import { MissingTool } from '../report.ts';

/** System calls that change something outside the process. */
const CALLS = 'write,writev,pwrite64,pwritev,fsync,fdatasync,ftruncate,unlink,rename,sendto,sendmsg';
/** strace records this many bytes of a call: a page, which is SQLite's largest write. */
const LONGEST = 4_096;

/** The n-th system call with this name. strace counts each name separately. */
export interface Point {
  call: string;
  nth: number;
}

export interface Tracer {
  /** Whether the traced process has ended, or did not exist. */
  ended: () => boolean;
  /** Whether the process ended by SIGKILL. */
  killed: () => boolean;
  /** The calls of the process in order. Complete when it has ended. */
  calls: () => Point[];
}

/**
 * Traces the main thread of a running process, and kills the process when it enters the call at `point`. Syncs run in
 * other threads and are not traced, because a kill loses no written data. power.ts tests syncs.
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

/** The command prefix with which strace records all writes to files and sockets. */
export function recorder(lines: string): string[] {
  return ['strace', '-qq', '-f', '-y', '-xx', '-s', String(LONGEST), '-o', lines, '-e', `trace=${CALLS},read`];
}

/** The child process that runs this file, as soon as it exists. */
export async function childOf(pid: number, file: string): Promise<number> {
  let found: string | undefined;
  await until(() => {
    const children = read(`/proc/${pid}/task/${pid}/children`).split(' ').filter(Boolean);
    found = children.find((child) => read(`/proc/${child}/cmdline`).split('\0').at(-2)?.endsWith(file));
    return found !== undefined;
  });
  return Number(found);
}

/** Throws MissingTool if strace is missing or may not attach to processes. */
export async function requireStrace(): Promise<void> {
  if (spawnSync('strace', ['-V']).status !== 0)
    throw new MissingTool('strace is missing: apt-get install strace (Debian, Ubuntu)');
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

/** Empty if the process has ended meanwhile. */
function read(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return '';
  }
}
