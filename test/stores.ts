// The two kinds of stores as tests open them. The tests of the project `postgres` run on PostgreSQL, all others on SQLite.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import Database from 'better-sqlite3';
import { openPostgres } from '../src/store/postgres/open.ts';
import { translate } from '../src/store/postgres/translate.ts';
import type { OpenOptions } from '../src/store/site.ts';
import { openSqlite } from '../src/store/sqlite/open.ts';
import type { Store } from '../src/store/store.ts';
import { query } from './postgres/blocking.ts';
import { schemaOf } from './postgres/pool.ts';
import { addressIn } from './postgres/server.ts';

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

export const postgres: Kind = {
  name: 'postgres',
  open(path, options) {
    if (path !== ':memory:') return openPostgres(addressIn(schemaOf(path)), options);
    const own = join(mkdtempSync(join(tmpdir(), 'kit-memory-')), 'events.db');
    const store = postgres.open(own, options);
    const close = (): void => {
      store.close();
      rmSync(dirname(own), { recursive: true });
    };
    return { ...store, close };
  },
  queries(path) {
    const schema = schemaOf(path);
    return {
      query: <Row>(sql: string, ...values: unknown[]) => query(schema, translate(sql, schema).text, values) as Row[],
      exec: (sql) => void query(schema, sql),
      refuse(table, when) {
        query(
          schema,
          `create function refuse() returns trigger language plpgsql as $$ begin raise 'test'; end $$;
           create trigger refuse before insert on ${table} for each row when (${when}) execute function refuse()`,
        );
        return () => void query(schema, 'drop function refuse cascade');
      },
      close() {},
    };
  },
};

export const storeKind = process.env['TEST_STORE'] === 'postgres' ? postgres : sqlite;
export const onPostgres = storeKind === postgres;
