// The store on SQLite. The main process takes the file: it locks out other kits, and notices if the file is replaced.
// Other processes only open it.
import Database from 'better-sqlite3';
import { existsSync, mkdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import { dirname } from 'node:path';
import { systemClock, type Clock } from '../../base/clock.ts';
import { describe, orUndefined } from '../../base/errors.ts';
import { StoreError, type Store } from '../store.ts';
import { createVerbs } from '../verbs.ts';
import { databaseOf, statementOf } from './change.ts';
import { BLOCKING_MS, Db, type DatabaseOptions } from './database.ts';
import { createIngest } from './ingest.ts';
import { createTurns } from './turn.ts';
import type { WorkStore } from '../work.ts';

/** `pragma user_version` of a store that this kit has made. */
export const SCHEMA = 1;

/** Milliseconds until a write throws `busy`. `receive` then tries again, and limits how long deliveries wait. */
const BUSY_MS = 100;

/** Opens a store, and creates it if there is none. */
export function openSqlite(file: string, options: DatabaseOptions & { clock?: Clock } = {}): Store & { db: Db } {
  const { clock = systemClock } = options;
  const db = new Db(file, options);
  create(db);
  db.raw.pragma(`busy_timeout = ${BLOCKING_MS}`);
  let reader: Db | undefined;
  const work: WorkStore = {
    ...createVerbs(databaseOf(db), clock),
    ...createTurns(db, clock),
    read: async (sql, values) => statementOf((reader ??= new Db(file, { readonly: true })), sql, values).rows,
  };
  return { db, ingest: createIngest(db, clock), work, close: () => db.close() };
}

function create(db: Db): void {
  const version = Number(db.raw.pragma('user_version', { simple: true }));
  if (version > SCHEMA)
    throw new StoreError('newer', `a newer kit has changed the store to schema ${version}: start that kit`);
  if (version === SCHEMA || db.raw.readonly) return;
  if (db.value<number>('select count(*) from sqlite_schema').get() !== 0)
    throw new StoreError('damaged', `${db.raw.name} is the database of another program: see DATABASE_URL`);
  const schema = readFileSync(new URL('schema.sql', import.meta.url), 'utf8');
  db.raw.exec(`begin immediate; ${schema}; pragma user_version = ${SCHEMA}; commit`);
}

export type Taken = ReturnType<typeof takeStore>;

/** Throws StoreError, with a message for people. */
export function takeStore(file: string) {
  if (!existsSync(file) && existsSync(`${file}-wal`) && statSync(`${file}-wal`).size > 0)
    throw new StoreError('damaged', `${file} is missing, but ${file}-wal is there: put the file back`);
  if (existsSync(`${file}-restoring`))
    throw new StoreError('damaged', `a restore of ${file} was interrupted: run npx kit restore again`);
  const lock = lockBeside(file);
  const open = () => openSqlite(file, { busyMs: BUSY_MS });
  let current = open();
  const ingest: Store['ingest'] = { accept: (batch) => current.ingest.accept(batch) };
  const { ino, dev } = statSync(file);
  return {
    store: { ingest },
    /** The `seq` of the newest event. */
    newest: async () => current.db.value<number>('select coalesce(max(seq), 0) from events').get() ?? 0,
    /** Whether the file is still the one that was opened. */
    check(): 'ok' | 'replaced' {
      const now = statSync(file, { throwIfNoEntry: false });
      return now?.ino === ino && now.dev === dev ? 'ok' : 'replaced';
    },
    /** When the disk is full: deletes the ballast beside the store. */
    makeRoom: () => rmSync(`${file}-ballast`, { force: true }),
    /** Opens the file anew after a disk fault, because the connection may hold pages that were never written. */
    reopen(): void {
      const before = current;
      const fresh = orUndefined(open);
      if (!fresh) return;
      current = fresh;
      // Closed last: otherwise a new file in the place of ours could get the same inode, and `check` would take it for ours.
      before.close();
    },
    async release(): Promise<void> {
      current.close();
      lock.close();
    },
  };
}

/** The lock is an open transaction on a file beside the store. The system ends it even if the process is killed. */
export function lockBeside(file: string): Database.Database {
  try {
    mkdirSync(dirname(file), { recursive: true });
    const lock = new Database(`${file}-lock`, { timeout: 0 });
    lock.exec('begin exclusive');
    return lock;
  } catch (error) {
    if ((error as { code?: string }).code === 'SQLITE_BUSY')
      throw new StoreError('owned', `${file} is in use by another kit: stop that one first`, error);
    const { message } = describe(error);
    throw new StoreError('io', `${file} cannot be opened (${message}): see its owner and its disk`, error);
  }
}
