// The store for people and upkeep: it runs SQL that SQLite and PostgreSQL both know.
import { systemClock, type Clock } from '../../base/clock.ts';
import { databaseOf } from '../../store/sqlite/change.ts';
import type { Config } from '../../config.ts';
import { BLOCKING_MS, Db } from '../../store/sqlite/database.ts';
import { openSqlite } from '../../store/sqlite/open.ts';
import type { Store } from '../../store/store.ts';
import type { Database } from '../../store/sql.ts';

export interface PeopleStore extends Database {
  clock: Clock;
  /**
   * Copies the WAL into the store. `restart` and `truncate` wait briefly for writers and readers. Resolves with the used
   * bytes of the WAL file, which may be larger. Null: a writer or reader was in the way.
   */
  checkpoint: (how: 'passive' | 'restart' | 'truncate') => Promise<number | null>;
  /** True: of all instances on the store, this one does what only one may do. */
  leads: () => Promise<boolean>;
}

/** `restart` and `truncate` wait this long for writers and readers. */
const CHECKPOINT_MS = 100;
/** One page in the WAL, with its header. */
const FRAME_BYTES = 4_096 + 24;

/** On SQLite. `reading`: a second connection for reads, so that no read waits for a write. */
export function openForPeople(db: Db, reading: Db = db, clock: Clock = systemClock): PeopleStore {
  return {
    ...databaseOf(db, reading),
    clock,
    leads: async () => true,
    checkpoint: (how) =>
      db.query(() => {
        db.raw.pragma(`busy_timeout = ${CHECKPOINT_MS}`);
        const [result] = db.raw.pragma(`wal_checkpoint(${how})`) as { busy: number; log: number }[];
        db.raw.pragma(`busy_timeout = ${BLOCKING_MS}`);
        return result?.busy === 0 ? result.log * FRAME_BYTES : null;
      }),
  };
}

/** Opens the store of DATABASE_URL. `reader`: on SQLite, reads have a connection of their own. */
export async function openStore(
  { storePath: path, DATABASE_URL: url }: Pick<Config, 'storePath' | 'DATABASE_URL'>,
  { reader = false, ...options }: { reader?: boolean; busyMs?: number; instance?: string } = {},
): Promise<{ store: Store; db: PeopleStore }> {
  if (path === null) {
    const { openPostgres } = await import('../../store/postgres/open.ts');
    const store = await openPostgres(url, options);
    return { store, db: store.db };
  }
  const store = openSqlite(path, options);
  return { store, db: openForPeople(store.db, reader ? new Db(path, { readonly: true }) : store.db) };
}

/** Stores a value under this name, for other processes to read. */
export const tell = (db: Database, name: string, value: unknown): Promise<void> =>
  db.write((tx) => tx.set(name, value));
