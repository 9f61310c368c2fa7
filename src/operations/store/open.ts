// The store for people and upkeep: it runs SQL that SQLite and PostgreSQL both know, here on SQLite.
import { systemClock, type Clock } from '../../base/clock.ts';
import { BLOCKING_MS, type Db } from '../../store/sqlite/database.ts';
import { createLanes } from '../../store/sqlite/lanes.ts';
import { createState } from '../../store/sqlite/state.ts';
import type { Change, Database, Sql, Values } from '../../store/sql.ts';

export interface PeopleStore extends Database {
  clock: Clock;
  /**
   * Copies the WAL into the store. `restart` and `truncate` wait briefly for writers and readers. Resolves with the used
   * bytes of the WAL file, which may be larger. Null: a writer or reader was in the way.
   */
  checkpoint: (how: 'passive' | 'restart' | 'truncate') => Promise<number | null>;
}

/** `restart` and `truncate` wait this long for writers and readers. */
const CHECKPOINT_MS = 100;
/** One page in the WAL, with its header. */
const FRAME_BYTES = 4_096 + 24;

/** `reading`: a second connection for reads, so that no read waits for a write. */
export function openForPeople(db: Db, reading: Db = db, clock: Clock = systemClock): PeopleStore {
  const change = changeOf(db);
  const outside = sqlOf(reading);
  return {
    dialect: 'sqlite',
    clock,
    all: <Row>(...args: Parameters<Sql['all']>) => reading.read(() => outside.all<Row>(...args)),
    get: <Row>(...args: Parameters<Sql['get']>) => reading.read(() => outside.get<Row>(...args)),
    run: (...args) => db.write(() => change.run(...args)),
    write: (work) => db.write(() => work(change)),
    read: (work) => reading.read(() => work(outside)),
    checkpoint: (how) =>
      db.query(() => {
        db.raw.pragma(`busy_timeout = ${CHECKPOINT_MS}`);
        const [result] = db.raw.pragma(`wal_checkpoint(${how})`) as { busy: number; log: number }[];
        db.raw.pragma(`busy_timeout = ${BLOCKING_MS}`);
        return result?.busy === 0 ? result.log * FRAME_BYTES : null;
      }),
  };
}

/** Stores a value under this name, for other processes to read. */
export const tell = (db: Database, name: string, value: unknown): Promise<void> =>
  db.write((tx) => tx.set(name, value));

function changeOf(db: Db): Change {
  const state = createState(db);
  const lanes = createLanes(db, state);
  return {
    ...sqlOf(db),
    touch: async (list) => new Set(list).forEach((lane) => lanes.touch(lane)),
    count: async (counts) => state.count(counts),
    set: async (name, value) => state.set(name, value),
  };
}

/** Prepares each SQL text once. */
function sqlOf(db: Db): Sql {
  const known = new Map<string, { statement: ReturnType<typeof db.sql>; names: string[] }>();
  function prepared(text: string, values: Values = {}) {
    const names = () => [...text.matchAll(/@(\w+)/g)].map(([, name = '']) => name);
    const found = known.get(text) ?? { statement: db.sql(text), names: names() };
    known.set(text, found);
    const bound = Object.fromEntries(found.names.map((name) => [name, values[name] ?? null]));
    return { statement: found.statement, bound };
  }
  return {
    dialect: 'sqlite',
    async all<Row>(...args: Parameters<Sql['all']>) {
      const { statement, bound } = prepared(...args);
      return statement.all(bound) as Row[];
    },
    async get<Row>(...args: Parameters<Sql['get']>) {
      const { statement, bound } = prepared(...args);
      return statement.get(bound) as Row | undefined;
    },
    async run(...args) {
      const { statement, bound } = prepared(...args);
      return statement.run(bound).changes;
    },
  };
}
