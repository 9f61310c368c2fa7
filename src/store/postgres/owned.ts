// What a running attempt commits for its own task, and what handlers do with their own tables.
import { setTimeout as sleep } from 'node:timers/promises';
import type { Clock } from '../../base/clock.ts';
import type { Hold, SqlRow, SqlValue, Tx as UserTx, Work, WorkStore } from '../work.ts';
import type { Boots } from './boots.ts';
import { ANY_PLAN, lockKey, type Connections, type Tx } from './connection.ts';
import { Counts } from './counts.ts';
import { settle } from './settle.ts';

/** A transaction of the user's holds rows that others want; a step of `setup` may change a large table. */
const LIMIT_MS = { complete: 1_000, setup: 600_000 };
/** Names of a task's notes. */
const NOTES = 32;
type Owned = Pick<WorkStore, 'note' | 'complete' | 'read' | 'steps' | 'setup'>;

/** The claim was lost while the user's work ran. */
const GONE = new Error('the claim is gone');

export function createOwned(db: Connections, clock: Clock, boots: Boots): Owned {
  async function holds(tx: Tx, { lane, boot, claim }: Hold): Promise<boolean> {
    const text = 'select 1 from lanes where id = @lane and boot = @boot and claim = @claim';
    const [, row] = await Promise.all([boots.check(tx, boot), tx.get(text, { lane, boot, claim })]);
    return row !== undefined;
  }

  return {
    note: (hold, task, name, json) => db.write(async (tx) => (await holds(tx, hold)) && setNote(tx, task, name, json)),
    complete: (hold, { event, handler }, work) =>
      db
        .write(
          async (tx) => {
            if (!(await holds(tx, hold))) return false;
            await within(tx, 'ctx.complete', LIMIT_MS.complete, work);
            const counts = new Counts();
            const claim = { ...hold, handler, tasks: [] };
            const outcomes = [{ event, as: 'done' as const, error: null }];
            // Only now, so that the lane is not locked while the user's work runs.
            if ((await settle(tx, [{ claim, outcomes, free: false }], clock.now(), counts)) > 0) throw GONE;
            if (counts.isEmpty) throw new Error('ctx.complete: this task has ended already');
            counts.write(tx);
            return true;
          },
          // The user's work is not called twice.
          { tries: 1 },
        )
        .catch((error: unknown) => {
          if (error === GONE) return false;
          throw error;
        }),
    read: (sql, values) =>
      db.read(async (tx) => (await tx.query({ text: sql, values, queryMode: 'extended' })).rows as SqlRow[], ANY_PLAN),
    steps: async (handler) => {
      const text = 'select digest from setup_steps where handler = @handler order by step';
      return (await db.all<{ digest: string }>(text, { handler })).map(({ digest }) => digest);
    },
    setup: (handler, work, step) =>
      db.write(
        async (tx) => {
          // Instances that start together set up one after another, and each step once.
          const lock = `set local lock_timeout = 0; select pg_advisory_xact_lock(${lockKey(db, 'setup')}, 0)`;
          await tx.query({ text: lock, query_timeout: LIMIT_MS.setup });
          if (step && (await addStep(tx, handler, step, clock.now())) === 0) return;
          await within(tx, 'setup', LIMIT_MS.setup, work);
        },
        { tries: 1 },
      ),
  };
}

const addStep = (tx: Tx, handler: string, step: { number: number; digest: string }, now: number): Promise<number> =>
  tx.run('insert into setup_steps values (@handler, @number, @digest, @now) on conflict do nothing', {
    handler,
    ...step,
    now,
  });

/** False: the task does not wait. */
async function setNote(tx: Tx, task: { event: number; handler: number }, name: string, json: string): Promise<boolean> {
  const row = await tx.get<{ notes: string | null }>(
    'select notes from tasks where event = @event and handler = @handler and state = 0 for update',
    task,
  );
  if (!row) return false;
  const all = { ...(JSON.parse(row.notes ?? '{}') as object), [name]: JSON.parse(json) as unknown };
  if (Object.keys(all).length > NOTES) throw new Error(`ctx.note: a task has at most ${NOTES} names of notes`);
  await tx.run(
    `update tasks set notes = case when (select body is not null from events where seq = event) then @notes end
    where event = @event and handler = @handler`,
    { ...task, notes: JSON.stringify(all) },
  );
  return true;
}

/** Runs the user's work in the open transaction. Throws if it does not end in time, or if a statement has failed. */
async function within(tx: Tx, what: string, limitMs: number, work: Work): Promise<void> {
  const timer = new AbortController();
  const late = `${what} took longer than ${limitMs / 1_000} s and was rolled back: await nothing in it but its tx`;
  await tx.query(`set local statement_timeout = ${limitMs}`);
  const { user, close, failure } = createTx(tx, what, limitMs);
  try {
    const limit = sleep(limitMs, undefined, { signal: timer.signal }).then(() => Promise.reject(new Error(late)));
    await Promise.race([Promise.try(work, user), limit]);
  } finally {
    timer.abort();
    close();
  }
  const failed = failure();
  if (failed) throw failed;
}

function createTx(tx: Tx, what: string, limitMs: number): { user: UserTx; close: () => void; failure: () => unknown } {
  let failed: unknown;
  let isOpen = true;
  async function statement(text: string, values: SqlValue[]): Promise<{ rows: SqlRow[]; changes: number }> {
    if (!isOpen) throw new Error(`${what} is over: await each call of its tx inside it`);
    try {
      const { rows, rowCount } = await tx.query({ text, values, queryMode: 'extended', query_timeout: limitMs });
      if (!tx.isOpen()) throw new Error(`${what}: its statements must not end the transaction`);
      return { rows: rows as SqlRow[], changes: rowCount ?? 0 };
    } catch (error) {
      failed ??= error;
      throw error;
    }
  }
  const user: UserTx = {
    dialect: 'postgres',
    run: async (sql, ...values) => ({ changes: (await statement(sql, values)).changes }),
    get: async (sql, ...values) => (await statement(sql, values)).rows[0],
    all: async (sql, ...values) => (await statement(sql, values)).rows,
  };
  return { user, close: () => void (isOpen = false), failure: () => failed };
}
