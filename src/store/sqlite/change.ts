// SQL that PostgreSQL knows too, on SQLite. Each text is prepared once.
import type { Change, Database, Sql, Values } from '../sql.ts';
import type { SqlRow, SqlValue } from '../work.ts';
import type { Db } from './database.ts';
import { createLanes } from './lanes.ts';
import { createState } from './state.ts';

/** `reading`: a second connection for reads, so that no read waits for a write. */
export function databaseOf(db: Db, reading: Db = db): Database {
  const state = createState(db);
  const lanes = createLanes(db, state);
  const outside = sqlOf(reading);
  const inside = sqlOf(db);
  const change: Change = {
    ...inside,
    last: (...args) => inside.run(...args),
    // One transaction writes at a time.
    lock: async () => {},
    touch: async (list) => new Set(list).forEach((lane) => lanes.touch(lane)),
    count: async (counts) => state.count(counts),
    set: async (name, value) => state.set(name, value),
    async user(sql, values) {
      const result = statementOf(db, sql, values);
      if (!db.raw.inTransaction) throw new Error('the statements of a tx must not end its transaction');
      return result;
    },
  };
  return {
    dialect: 'sqlite',
    all: <Row>(...args: Parameters<Sql['all']>) => reading.read(() => outside.all<Row>(...args)),
    get: <Row>(...args: Parameters<Sql['get']>) => reading.read(() => outside.get<Row>(...args)),
    run: (...args) => db.write(() => change.run(...args)),
    write: (work) => db.write(() => work(change)),
    read: (work) => reading.read(() => work(outside)),
  };
}

function sqlOf(db: Db): Sql {
  const known = new Map<string, { statement: ReturnType<typeof db.sql>; names: string[] }>();
  async function call<Result>(how: 'all' | 'get' | 'run', text: string, values: Values = {}): Promise<Result> {
    const names = () => [...text.matchAll(/@(\w+)/g)].map(([, name = '']) => name);
    const found = known.get(text) ?? { statement: db.sql(text), names: names() };
    known.set(text, found);
    return found.statement[how](Object.fromEntries(found.names.map((name) => [name, values[name] ?? null]))) as Result;
  }
  return {
    dialect: 'sqlite',
    all: (text, values) => call('all', text, values),
    get: (text, values) => call('get', text, values),
    run: async (text, values) => (await call<{ changes: number }>('run', text, values)).changes,
  };
}

/** A statement of the user. */
export function statementOf({ raw }: Pick<Db, 'raw'>, sql: string, values: SqlValue[]) {
  const statement = raw.prepare(sql).safeIntegers();
  if (!statement.reader) return { rows: [], changes: statement.run(...values.map(bound)).changes };
  const rows = (statement.all(...values.map(bound)) as SqlRow[]).map(plain);
  return { rows, changes: rows.length };
}

/** Whole numbers are given as bigints, because SQLite would store a JavaScript number as a real. */
const bound = (value: SqlValue): SqlValue => (Number.isSafeInteger(value) ? BigInt(value as number) : value);

function plain(row: SqlRow): SqlRow {
  const short = (value: SqlValue): SqlValue =>
    typeof value === 'bigint' && Number.isSafeInteger(Number(value)) ? Number(value) : value;
  return Object.fromEntries(Object.entries(row).map(([name, value]) => [name, short(value)]));
}
