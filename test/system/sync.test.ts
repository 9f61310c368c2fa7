// One sync of the WAL fails (F3). SQLite considers the commit done by then, so only the kit can repair the loss.
import { execFileSync, spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { afterEach, beforeEach, expect, test } from 'vitest';

// strace counts the calls of each thread separately, so all syncs must share a thread.
const env = { ...process.env, UV_THREADPOOL_SIZE: '1' };
const traces = spawnSync('strace', ['-qq', '-o', '/dev/null', 'true']).status === 0;
let folder: string;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'kit-sync-'));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

test.skipIf(!traces)('deliveries acknowledged after a failed sync survive a power loss (needs strace)', () => {
  const path = join(folder, 'events.db');
  const inject = ['-e', 'trace=fdatasync', '-e', 'inject=fdatasync:error=EIO:when=2'];
  const script = [join(import.meta.dirname, 'syncing.ts'), path];
  const args = ['-f', '-qq', '-o', '/dev/null', ...inject, process.execPath, ...script];
  expect(JSON.parse(execFileSync('strace', args, { encoding: 'utf8', env }))).toEqual([
    'new',
    'unwritable',
    'busy',

    'duplicate',
    'new',
  ]);
  const left = new Database(`${path}.left`);
  expect(left.prepare('select id from events order by seq').pluck().all()).toEqual(['evt_1', 'evt_2', 'evt_3']);
  left.close();
});
