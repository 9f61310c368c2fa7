// What a running attempt commits for its own task, and what handlers do with their own tables.
import { setTimeout as sleep } from 'node:timers/promises';
import type { Clock } from '../../base/clock.ts';
import type { Hold, SqlRow, SqlValue, Tx, Work, WorkStore } from '../work.ts';
import type { Boots } from './boots.ts';
import type { createCounters } from './counters.ts';
import { Db } from './database.ts';
import type { Settle } from './settle.ts';

/** A transaction of the user holds up every delivery, so it may last only this long. */
const LIMIT_MS = 1_000;
/** The most names that the notes of one task may have. */
const NOTES = 32;

export interface OwnedParts {
  file: string;
  clock: Clock;
  boots: Boots;
  counters: ReturnType<typeof createCounters>;
  settle: Settle;
}

type Owned = Pick<WorkStore, 'note' | 'complete' | 'read' | 'steps' | 'setup'>;

export function createOwned(db: Db, { file, clock, boots, counters: createCounts, settle }: OwnedParts): Owned {
  const notes = db.value<string | null>('select notes from tasks where event = ? and handler = ? and state = 0');
  const setNotes = db.sql(`update tasks set notes = iif((select body is null from events where seq = event), null, ?)
    where event = ? and handler = ?`);
  const steps = db.value<string>('select digest from setup_steps where handler = ? order by step');
  const addStep = db.sql('insert into setup_steps values (?, ?, ?, ?)');
  let reader: Db | undefined;

  function holds(hold: Hold): boolean {
    boots.check(hold.boot);
    return settle.holds(hold);
  }

  return {
    note: (hold, { event, handler }, name, json) =>
      db.write(() => {
        const known = holds(hold) ? notes.get(event, handler) : undefined;
        if (known === undefined) return false;
        const all = {
          ...(JSON.parse(known ?? '{}') as Record<string, unknown>),
          [name]: JSON.parse(json) as unknown,
        };
        if (Object.keys(all).length > NOTES) throw new Error(`ctx.note: a task has at most ${NOTES} names of notes`);
        return setNotes.run(JSON.stringify(all), event, handler).changes > 0;
      }),
    complete: (hold, { event, handler }, work) =>
      db.write(async () => {
        if (!holds(hold)) return false;
        await within(db, 'ctx.complete', work);
        const counts = createCounts();
        const isOver = settle.finish({ event, as: 'done', error: null }, hold, handler, clock.now(), counts);
        if (!isOver) throw new Error('ctx.complete: this task has ended already');
        settle.passed(hold, handler, event);
        counts.write();
        return true;
      }),
    async read(sql, values) {
      reader ??= new Db(file, { readonly: true });
      return rowsOf(reader, sql, values);
    },
    steps: (handler) => db.read(() => steps.all(handler)),
    setup: (handler, work, step) =>
      db.write(async () => {
        await within(db, 'setup', work);
        if (step) addStep.run(handler, step.number, step.digest, clock.now());
      }),
  };
}

/** Runs the user's work in the open transaction. Throws if it does not end in time, or if a statement has failed. */
async function within(db: Db, what: string, work: Work): Promise<void> {
  const timer = new AbortController();
  const late = `${what} took longer than ${LIMIT_MS / 1_000} s and was rolled back: await nothing in it but its tx`;
  const { tx, close, failure } = createTx(db, what);
  try {
    const limit = sleep(LIMIT_MS, undefined, { signal: timer.signal }).then(() => Promise.reject(new Error(late)));
    await Promise.race([Promise.try(work, tx), limit]);
  } finally {
    timer.abort();
    close();
  }
  const failed = failure();
  if (failed) throw failed;
}

function createTx(db: Db, what: string): { tx: Tx; close: () => void; failure: () => Error | undefined } {
  let failed: Error | undefined;
  let isOpen = true;
  async function statement<Result>(run: () => Result): Promise<Result> {
    if (!isOpen) throw new Error(`${what} is over: await each call of its tx inside it`);
    try {
      const result = run();
      if (!db.raw.inTransaction) throw new Error(`${what}: its statements must not end the transaction`);
      return result;
    } catch (error) {
      failed ??= error as Error;
      throw error;
    }
  }
  const tx: Tx = {
    dialect: 'sqlite',
    run: (sql, ...values) => statement(() => ({ changes: db.raw.prepare(sql).run(...values.map(bound)).changes })),
    get: (sql, ...values) => statement(() => rowsOf(db, sql, values)[0]),
    all: (sql, ...values) => statement(() => rowsOf(db, sql, values)),
  };
  return { tx, close: () => void (isOpen = false), failure: () => failed };
}

export function rowsOf(db: Pick<Db, 'raw'>, sql: string, values: SqlValue[]): SqlRow[] {
  const rows = db.raw
    .prepare(sql)
    .safeIntegers()
    .all(...values.map(bound)) as SqlRow[];
  return rows.map((row) => Object.fromEntries(Object.entries(row).map(([name, value]) => [name, plain(value)])));
}

/** Whole numbers are given as bigints, because SQLite would store a JavaScript number as a real. */
const bound = (value: SqlValue): SqlValue => (Number.isSafeInteger(value) ? BigInt(value as number) : value);
const plain = (value: SqlValue): SqlValue =>
  typeof value === 'bigint' && Number.isSafeInteger(Number(value)) ? Number(value) : value;
