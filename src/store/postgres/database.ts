// PostgreSQL as the roles of the store see it: one connection, whose statements are sent without waiting for the answers
// of those before. Transactions read what others have committed before each statement (READ COMMITTED).
import { StoreError } from '../store.ts';
import type { Database, Dialect, Insert, Lock, OwnTables } from '../sql/session.ts';
import { changesOf, READS } from '../sql/work/tx.ts';
import type { SqlRow } from '../work.ts';
import type { Connection } from './connection.ts';
import { NOW, TABLES } from './connection.ts';
import { faultOf, sqlState } from './fault.ts';
import { fenceOf } from './members.ts';
import { translate, type Translated } from './translate.ts';

/** An instance may come back within this time, with handlers that the others lack. */
const MAY_RETURN_MS = 3_600_000;

export const POSTGRES: Dialect = {
  kind: 'postgres',
  max: 'greatest',
  min: 'least',
  oneOf: (parameter, type) => `= any(cast(${parameter} as ${type}[]))`,
  listOf: (parameter) => `(select unnest(cast(${parameter} as bigint[])) as value) as chosen`,
  indexedBy: () => '',
  contains: (column, parameter) => `position(cast(${parameter} as bytea) in ${column}) > 0`,
  eventsWithId: (parameter) => `select seq from events where id = ${parameter}`,
  mayReturn: `seen_at > ${NOW} - ${MAY_RETURN_MS}`,
  eventText: 'e.body as text, e.live',
};

const LOCKS: Record<Exclude<Lock, 'lead'>, string> = {
  work: `where name = 'work' for update`,
  turn: `where name = 'work' for key share`,
  door: `where name = 'door' for update`,
};
/**
 * Plans are made while a store is small, and kept. So every row is found by an index: a plan that reads a whole table
 * would become slower with each event, until the next `analyze`.
 */
const BY_INDEX = ['seqscan', 'hashjoin', 'mergejoin'].map((way) => `; set local enable_${way} = off`).join('');
/** A transaction that waits longer for its client is ended by the server, so that a stopped process holds no lock. */
const BEGIN = `begin; set local idle_in_transaction_session_timeout = '2s'; set local statement_timeout = '7s'${BY_INDEX}`;

export interface PostgresDatabase extends Database {
  atOnce: Database['write'];
}

export interface Link {
  connection: Connection;
  schema: string;
  name: string;
  instance: () => number;
}

// oxlint-disable-next-line max-lines-per-function -- the functions share the depth of the transaction
export function createDatabase({ connection, schema, name: path, instance }: Link): PostgresDatabase {
  /** The number of open transactions: one, and savepoints in it. */
  let depth = 0;
  let statements = 0;

  function prepared<Row>(sql: string, rowMode?: 'array') {
    const { text, names }: Translated = translate(sql, schema, TABLES);
    const more = { name: `kit${++statements}`, ...(rowMode && { rowMode }) };
    async function run(given: unknown[]) {
      const values = names ? names.map((name) => (given[0] as Record<string, unknown>)[name]) : given;
      return connection.query(text, values.map(bound), more);
    }
    const row = (one: unknown): Row => (rowMode ? (one as Row[])[0] : one) as Row;
    return {
      all: async (...values: unknown[]) => (await run(values)).rows.map(row),
      get: async (...values: unknown[]) => {
        const [first] = (await run(values)).rows as unknown[];
        return first === undefined ? undefined : row(first);
      },
      run: async (...values: unknown[]) => (await run(values)).rowCount ?? 0,
    };
  }

  const leading = prepared('select 1 from lead where instance = ? for key share');
  const living = prepared<number>('select instance from instances where lost_at is null', 'array');

  async function write<Result>(work: () => Promise<Result>, ...locks: Lock[]): Promise<Result> {
    if (depth > 0) return writePart(work);
    const begun = connection.query(beginOf(locks));
    begun.catch(() => {});
    depth = 1;
    try {
      const result = await work();
      await begun;
      requireCommit(await connection.query('commit'));
      return result;
    } catch (error) {
      await connection.query('rollback');
      // If the locks were refused, the later statements failed for that reason alone.
      await begun;
      throw error;
    } finally {
      depth = 0;
    }
  }

  /** A transaction that is committed before its results are known. The work sends all its statements at once. */
  async function atOnce<Result>(work: () => Promise<Result>, ...locks: Lock[]): Promise<Result> {
    const begun = connection.query(beginOf(locks));
    begun.catch(() => {});
    depth = 1;
    try {
      const result = work();
      result.catch(() => {});
      const committed = connection.query('commit');
      committed.catch(() => {});
      await begun;
      const value = await result;
      requireCommit(await committed);
      return value;
    } finally {
      depth = 0;
    }
  }

  function beginOf(locks: Lock[]): string {
    const takes = locks.map((lock) => {
      if (lock === 'lead') return instance() === 0 ? '' : fenceOf(schema, instance());
      return `; select 1 from ${schema}.locks ${LOCKS[lock]}`;
    });
    return `${BEGIN}; set local synchronous_commit = '${connection.sync()}'${takes.join('')}`;
  }

  /** A failed transaction ends with ROLLBACK, without an error. */
  function requireCommit({ command }: { command: string }): void {
    if (command !== 'COMMIT')
      throw new StoreError(
        'unwritable',
        `${path} did not commit a transaction: see the log of the server; it will be tried again`,
      );
  }

  async function writePart<Result>(work: () => Promise<Result>): Promise<Result> {
    const part = `part${depth++}`;
    await connection.query(`savepoint ${part}`);
    try {
      const result = await work();
      await connection.query(`release ${part}`);
      return result;
    } catch (error) {
      await connection.query(`rollback to ${part}; release ${part}`);
      throw error;
    } finally {
      depth--;
    }
  }

  return {
    path,
    instance,
    leads: async () => instance() === 0 || (await leading.get(instance())) !== undefined,
    living: () => living.all(),
    dialect: POSTGRES,
    statement: <Row>(sql: string) => prepared<Row>(sql),
    value: <Result>(sql: string) => prepared<Result>(sql, 'array'),
    insertAll({ into, columns, conflict = '' }: Insert) {
      const names = Object.keys(columns);
      const lists = Object.values(columns).map((type) => `cast(? as ${type}[])`);
      const insert = prepared(
        `insert into ${into} (${names.join()}) select * from unnest(${lists.join()}) ${conflict}`,
      );
      return async (rows) =>
        rows.length === 0 ? 0 : insert.run(...names.map((_, column) => rows.map((row) => row[column])));
    },
    write,
    atOnce,
    inTransaction: () => depth > 0,
    own: ownTablesOf(connection, schema),
    faultOf: (error) => faultOf(error, path),
    codeOf: (error) =>
      sqlState(error) ?? (error instanceof Error && /^\w{1,40}$/.test(error.name) ? error.name : 'unknown'),
  };
}

function ownTablesOf(connection: Connection, schema: string): OwnTables {
  const own = changesOf(`${schema}\\s*\\.\\s*\\w+`);
  const names = [...TABLES];
  const unnamed = changesOf(`(${names.join('|')})\\b(?!\\s*\\.)`);
  const types = { getTypeParser: parserOf };
  const query = (sql: string, values: unknown[]) =>
    connection.query(translate(sql, schema).text, values.map(bound), { types, queryMode: 'extended' });
  return {
    kind: 'postgres',
    run: async (sql, values) => (await query(sql, values)).rowCount ?? 0,
    all: async (sql, values) => (await query(sql, values)).rows as SqlRow[],
    async select(sql, values) {
      const begun = connection.query('begin transaction read only');
      const rows = query(sql, values);
      const ended = connection.query('rollback');
      try {
        await begun;
        return (await rows).rows as SqlRow[];
      } catch (error) {
        if (sqlState(error) === '25006') throw new Error(READS, { cause: error });
        throw error;
      } finally {
        await ended;
      }
    },
    isKits: (sql) => own.test(sql) || (connection.inside() && unnamed.test(sql)),
    names: [],
    tick: () => new Promise(setImmediate),
    idle: { most: 3, after: 2 },
  };
}

/** Handlers get numbers where these are exact, bytes, and 0 and 1 for booleans. Everything else is text. */
function parserOf(oid: number): (text: string) => unknown {
  if (oid === 20) return BigInt;
  if (oid === 1700) return (text) => (String(Number(text)) === text ? Number(text) : text);
  if (oid === 21 || oid === 23 || oid === 700 || oid === 701) return Number;
  if (oid === 16) return (text) => (text === 't' ? 1 : 0);
  if (oid === 17) return (text) => Buffer.from(text.slice(2), 'hex');
  return (text) => text;
}

/** PostgreSQL's texts hold no NUL, and its integers no infinity. */
function bound(value: unknown): unknown {
  if (value === Infinity) return Number.MAX_SAFE_INTEGER;
  if (typeof value === 'string') return value.includes('\0') ? value.replaceAll('\0', '\uFFFD') : value;
  if (Array.isArray(value)) return value.map(bound);
  return value ?? null;
}
