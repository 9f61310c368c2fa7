// For tests: a real store file, a clock that the test sets, and a log whose lines the test reads.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { pino, type Logger } from 'pino';
import type { Clock } from '../src/base/clock.ts';
import { openSqlite } from '../src/store/sqlite/open.ts';
import type { Store } from '../src/store/store.ts';

export const START = Date.UTC(2026, 0, 1, 12);

export interface TestClock extends Clock {
  /** The wall clock, Unix milliseconds. Setting this field moves the monotonic clock as well. */
  time: number;
  /** Sets the wall clock forward or back by `ms`. The monotonic clock stays. */
  step: (ms: number) => void;
}

export function createClock(): TestClock {
  let stepped = 0;
  const clock = {
    time: START,
    now: () => clock.time,
    monotonic: () => clock.time - stepped,
    step(ms: number) {
      clock.time += ms;
      stepped += ms;
    },
  };
  return clock;
}

export interface TestLog {
  log: Logger;
  /** All log lines so far. */
  text: () => string;
}

export function createTestLog(): TestLog {
  let written = '';
  return { log: pino({ level: 'trace' }, { write: (line: string) => void (written += line) }), text: () => written };
}

export interface StoreFile {
  path: string;
  store: Store;
  /** Queries the file over a connection of its own. */
  query: <Row>(sql: string, ...values: unknown[]) => Row[];
  exec: (sql: string) => void;
  remove: () => void;
}

export function createStoreFile(): StoreFile {
  const folder = mkdtempSync(join(tmpdir(), 'kit-keep-'));
  const path = join(folder, 'events.db');
  const store = openSqlite(path, { owner: true });
  const db = new Database(path);
  return {
    path,
    store,
    query: <Row>(sql: string, ...values: unknown[]) => db.prepare(sql).all(...values) as Row[],
    exec: (sql) => void db.exec(sql),
    remove() {
      db.close();
      store.close();
      rmSync(folder, { recursive: true });
    },
  };
}
