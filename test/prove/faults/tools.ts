// Tools that produce faults from outside the kit: failing system calls (strace), a small disk, a limit of open files,
// and a lock on the store. A tool throws Lacking if the machine does not have what it needs.
import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { until } from '../../system/kit.ts';
import { Lacking } from './scene.ts';

/**
 * Makes system calls of a running process fail, by strace rules such as `pwrite64:error=EIO`. Resolves to a function
 * that ends the failures.
 */
export async function failing(pid: number | undefined, ...rules: string[]): Promise<() => Promise<void>> {
  if (spawnSync('strace', ['-qq', '-o', '/dev/null', 'true']).status !== 0)
    throw new Lacking('strace (Debian: strace)');
  const names = rules.map((rule) => rule.split(':')[0]).join();
  const inject = rules.flatMap((rule) => ['-e', `inject=${rule}`]);
  const options = ['-qq', '-f', '-o', '/dev/null', '-e', `trace=${names}`, ...inject, '-p', String(pid)];
  const strace = spawn('strace', options, { stdio: 'ignore' });
  await until(() => tracerOf(pid) !== 0);
  return async () => {
    if (strace.exitCode !== null || strace.signalCode !== null) return;
    strace.kill('SIGTERM');
    await once(strace, 'close');
  };
}

function tracerOf(pid: number | undefined): number {
  return Number(/TracerPid:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]);
}

export interface Disk {
  folder: string;
  remount(how: 'ro' | 'rw'): void;
  remove(): void;
}

/** Mounts a tmpfs of this size. Throws Lacking without the right to mount. */
export function smallDisk(megabytes: number): Disk {
  const folder = mkdtempSync(join(tmpdir(), 'kit-disk-'));
  try {
    execFileSync('mount', ['-t', 'tmpfs', '-o', `size=${megabytes}m`, 'tmpfs', folder], { stdio: 'ignore' });
  } catch {
    rmSync(folder, { recursive: true });
    throw new Lacking('the right to mount a tmpfs (root)');
  }
  const unmount = (): void => void execFileSync('umount', ['-l', folder], { stdio: 'ignore' });
  // Unmounts first, because other exit listeners remove the folder around the mount.
  process.prependOnceListener('exit', unmount);
  return {
    folder,
    remount: (how) => void execFileSync('mount', ['-o', `remount,${how}`, folder], { stdio: 'ignore' }),
    remove() {
      process.off('exit', unmount);
      unmount();
      rmSync(folder, { recursive: true });
    },
  };
}

/** Takes the write lock of a store. Returns a function that releases the lock. */
export function lockOf(path: string): () => void {
  const db = new Database(path, { timeout: 5_000 });
  db.exec('begin immediate');
  return () => {
    db.exec('commit');
    db.close();
  };
}

/** Sets how many files a running process may have open. */
export function limitFiles(pid: number | undefined, most: number): void {
  const { status, error, stderr } = spawnSync('prlimit', ['--pid', String(pid), `--nofile=${most}:`]);
  if (error) throw new Lacking('prlimit (Debian: util-linux)');
  if (status !== 0) throw new Error(`prlimit: ${stderr.toString()}`);
}

const HALF_HOUR_MS = 1_800_000;

/** Runs existing tests that produce a fault. Returns how many passed, failed and were skipped. */
export function tested(
  file: string,
  project: 'unit' | 'system' | 'postgres-system',
  name = '',
  env: Record<string, string> = {},
) {
  const folder = mkdtempSync(join(tmpdir(), 'kit-tested-'));
  const told = join(folder, 'told.json');
  const args = [
    'run',
    '--configLoader',
    'runner',
    '--project',
    project,
    file,
    '--reporter=json',
    // A proof waits for progress. On a busy machine everything takes longer.
    `--testTimeout=${HALF_HOUR_MS}`,
    `--outputFile=${told}`,
  ];
  const { PATH, HOME, TMPDIR } = process.env;
  spawnSync(process.execPath, ['node_modules/vitest/vitest.mjs', ...args, ...(name ? ['-t', name] : [])], {
    env: { PATH, HOME, TMPDIR, ...env },
  });
  const { numPassedTests, numFailedTests, numPendingTests } = JSON.parse(readFileSync(told, 'utf8')) as {
    numPassedTests: number;
    numFailedTests: number;
    numPendingTests: number;
  };
  rmSync(folder, { recursive: true });
  return { passed: numPassedTests, failed: numFailedTests, left: numPendingTests };
}
