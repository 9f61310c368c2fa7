// The kind of store that tests open: SQLite, or the one whose file TEST_STORE names, see test/postgres/kind.ts.
import Database from 'better-sqlite3';
import type { OpenOptions } from '../src/store/site.ts';
import { openSqlite } from '../src/store/sqlite/open.ts';
import type { Store } from '../src/store/store.ts';

export interface Queries {
  /** Placeholders are `?`. */
  query: <Row>(sql: string, ...values: unknown[]) => Row[];
  exec: (sql: string) => void;
  /** Makes the store refuse new rows of a table for which this holds, until the returned function is called. */
  refuse: (table: string, when: string) => () => void;
  close: () => void;
}

export interface Kind {
  name: 'sqlite' | 'postgres';
  /** The same path is the same store, as long as its folder exists. `:memory:` is a store of its own. */
  open: (path: string, options?: OpenOptions) => Store;
  /** Queries the store over a connection of its own. */
  queries: (path: string) => Queries;
}

export const sqlite: Kind = {
  name: 'sqlite',
  open: openSqlite,
  queries(path) {
    const db = new Database(path, { timeout: 0 });
    return {
      query: <Row>(sql: string, ...values: unknown[]) => db.prepare(sql).all(...values) as Row[],
      exec: (sql) => void db.exec(sql),
      refuse(table, when) {
        db.exec(`create trigger refuse before insert on ${table} when ${when} begin select raise(abort, 'test'); end`);
        return () => void db.exec('drop trigger refuse');
      },
      close: () => void db.close(),
    };
  },
};

const other = process.env['TEST_STORE'];
export const storeKind = other ? ((await import(other)) as { kind: Kind }).kind : sqlite;
export const onPostgres = storeKind.name === 'postgres';
