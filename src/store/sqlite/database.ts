// SQLite as the roles of the store see it. Every statement runs at once: a transaction ends before the next timer or I/O
// of this process.
import Database from 'better-sqlite3';
import type { Database as AnyDatabase, Dialect, OwnTables } from '../sql/session.ts';
import { changesOf, READS } from '../sql/work/tx.ts';
import type { SqlRow, SqlValue } from '../work.ts';
import { createBulkInsert } from './bulk.ts';
import { NAMES, type Connection } from './connection.ts';
import { faultOf } from './fault.ts';
import { IN_A_PART } from './ingest/ids.ts';

export const SQLITE: Dialect = {
  kind: 'sqlite',
  max: 'max',
  min: 'min',
  oneOf: (parameter) => `in (select value from json_each(${parameter}))`,
  listOf: (parameter) => `(select value from json_each(${parameter})) as chosen`,
  indexedBy: (index) => `indexed by ${index}`,
  contains: (column, parameter) => `instr(${column}, ${parameter})`,
  eventsWithId: (parameter) => `select event from latest_ids where id = ${parameter}
    union all select event from ids where segment in (select segment from id_segments) and ${IN_A_PART} and id = ${parameter}`,
  mayReturn: '0 = 1',
  eventText: 'cast(e.body as text) as text, e.live',
};

export function createDatabase(db: Connection, path: string): AnyDatabase {
  const [begin, commit, rollback] = [db.prepare('begin immediate'), db.prepare('commit'), db.prepare('rollback')];
  const savepoint = [db.prepare('savepoint part'), db.prepare('release part'), db.prepare('rollback to part')] as const;

  function prepared<Row>(statement: Database.Statement<unknown[], Row>) {
    return {
      all: async (...values: unknown[]) => statement.all(...values.map(bound)),
      get: async (...values: unknown[]) => statement.get(...values.map(bound)),
      run: async (...values: unknown[]) => statement.run(...values.map(bound)).changes,
    };
  }

  async function write<Result>(work: () => Promise<Result>): Promise<Result> {
    if (db.inTransaction) return writePart(work);
    begin.run();
    try {
      const result = await work();
      commit.run();
      return result;
    } finally {
      if (db.inTransaction) rollback.run();
    }
  }

  async function writePart<Result>(work: () => Promise<Result>): Promise<Result> {
    const [start, release, undo] = savepoint;
    start.run();
    try {
      const result = await work();
      release.run();
      return result;
    } catch (error) {
      // Some errors of SQLite undo more than the savepoint.
      if (db.inTransaction) {
        undo.run();
        release.run();
      }
      throw error;
    }
  }

  return {
    path,
    instance: () => 0,
    leads: async () => true,
    living: async () => [],
    dialect: SQLITE,
    statement: <Row>(sql: string) => prepared(db.prepare<unknown[], Row>(sql)),
    value: <Result>(sql: string) => prepared(db.prepare<unknown[], Result>(sql).pluck()),
    insertAll: (insert) => createBulkInsert(db, insert),
    write,
    inTransaction: () => db.inTransaction,
    own: ownTablesOf(db),
    faultOf: (error) => faultOf(error, path),
    codeOf(error) {
      if (error instanceof Database.SqliteError) return error.code;
      return error instanceof Error && /^\w{1,40}$/.test(error.name) ? error.name : 'unknown';
    },
  };
}

const OWN = changesOf(`(\\w+\\s*\\.\\s*)?(${NAMES.join('|')})`);

function ownTablesOf(db: Connection): OwnTables {
  const prepare = (sql: string) => db.prepare<SqlValue[], SqlRow>(sql).safeIntegers();
  return {
    kind: 'sqlite',
    run: async (sql, values) => prepare(sql).run(...values).changes,
    all: async (sql, values) => prepare(sql).all(...values),
    async select(sql, values) {
      const statement = prepare(sql);
      if (!statement.reader || !statement.readonly) throw new Error(READS);
      return statement.all(...values);
    },
    isKits: (sql) => OWN.test(sql),
    names: NAMES,
    // Microtasks alone may pass: a timer or I/O of this process would run while its connection is in the transaction.
    tick: () => Promise.resolve(),
    idle: { most: 1_000, after: 50 },
  };
}

/** Lists are JSON. */
function bound(value: unknown): unknown {
  if (Array.isArray(value)) return JSON.stringify(value);
  if (value === null || typeof value !== 'object' || value instanceof Uint8Array) return value;
  return Object.fromEntries(
    Object.entries(value).map(([name, one]) => [name, Array.isArray(one) ? JSON.stringify(one) : one]),
  );
}
