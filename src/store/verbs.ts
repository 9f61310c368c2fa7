// The verbs of `run` that are the same on both stores: who runs handlers, what a running attempt commits for its own task,
// and what handlers do with their own tables.
import { setTimeout as sleep } from 'node:timers/promises';
import type { Clock } from '../base/clock.ts';
import { checkBoot, giveBack, PASS, takeRole } from './boots.ts';
import { Counts } from './counts.ts';
import { register } from './handlers.ts';
import type { Change, Database } from './sql.ts';
import { LONGEST_STEP_MS, type Hold, type SqlRow, type SqlValue, type Tx, type Work, type WorkStore } from './work.ts';

/**
 * A transaction of the user may last only this long, because it holds up others: on SQLite every delivery. On PostgreSQL,
 * a step of `setup` that changes a large table holds up no delivery.
 */
const LIMIT_MS = { complete: 1_000, setup: 1_000, setupOnPostgres: LONGEST_STEP_MS };
/** The most names that the notes of one task may have. */
const NOTES = 32;

const HOLDS = 'select 1 as one from lanes where id = @lane and boot = @boot and claim = @claim';
// The `+ 0` keeps PostgreSQL from reading all waiting tasks of the lane.
const TASK = 'select notes from tasks where event = @event and handler = @handler and state + 0 = 0 and lane = @lane';
const NOTE = `update tasks set notes = case when (select body is null from events where seq = event) then null else @notes end
  where event = @event and handler = @handler`;
const DONE = `update tasks set state = 1, ended_at = @now, attempts = attempts + 1, error = null
  where event = @event and handler = @handler and state + 0 = 0 and lane = @lane returning cast(cursor as text) as cursor`;
const STEPS = 'select digest from setup_steps where handler = @handler order by step';
const ADD_STEP = 'insert into setup_steps values (@handler, @number, @digest, @now) on conflict do nothing';

/** The claim was lost while the user's work ran. */
const GONE = new Error('the claim is gone');

async function holds(tx: Change, { lane, boot, claim }: Hold): Promise<boolean> {
  const [, lanes] = await Promise.all([checkBoot(tx, boot), tx.all(HOLDS, { lane, boot, claim })]);
  return lanes.length > 0;
}

/** `instance`: the kit that this process belongs to. No two kits on one store have the same. */
export function createVerbs(
  db: Database,
  clock: Clock,
  instance = 'kit',
): Omit<WorkStore, 'look' | 'turn' | 'events' | 'read'> {
  return {
    begin: (role, restart) => db.write((tx) => takeRole(tx, { instance, clock }, role, restart)),
    // The boot's row stays until its role is taken, or others judge it. So its handlers are not missing in between.
    end: (boot) => db.write((tx) => giveBack(tx, boot)),
    register: (files, newest, boot) => db.write((tx) => register(tx, files, newest, boot)),
    note: (hold, task, name, json) =>
      db.write(async (tx) => {
        const answers = [
          tx.lock([hold.lane]),
          holds(tx, hold),
          tx.get<{ notes: string | null }>(TASK, { ...hold, ...task }),
        ] as const;
        const [, isHeld, known] = await Promise.all(answers);
        if (!isHeld || !known) return false;
        const all = { ...(JSON.parse(known.notes ?? '{}') as object), [name]: JSON.parse(json) as unknown };
        if (Object.keys(all).length > NOTES) throw new Error(`ctx.note: a task has at most ${NOTES} names of notes`);
        return (await tx.run(NOTE, { ...task, notes: JSON.stringify(all) })) > 0;
      }),
    async complete(hold, task, work) {
      try {
        return await db.write(async (tx) => {
          if (!(await holds(tx, hold))) return false;
          await within(tx, 'ctx.complete', LIMIT_MS.complete, work);
          // Only now, so that the lane is not locked while the user's work runs.
          const [, isHeld, ended] = await Promise.all([
            tx.lock([hold.lane]),
            holds(tx, hold),
            tx.get<{ cursor: string }>(DONE, { ...hold, ...task, now: clock.now() }),
          ]);
          if (!isHeld) throw GONE;
          if (!ended) throw new Error('ctx.complete: this task has ended already');
          await tx.last(PASS, { ...ended, ...hold });
          const counts = new Counts();
          counts.move(task.handler, 0, 1);
          await counts.write(tx);
          return true;
        }, 'once');
      } catch (error) {
        if (error === GONE) return false;
        throw error;
      }
    },
    steps: async (handler) => (await db.all<{ digest: string }>(STEPS, { handler })).map(({ digest }) => digest),
    setup: (handler, work, step) =>
      db.write(async (tx) => {
        // Instances that start together set up one after another, and each step once.
        await tx.lock('setup');
        const isDue = !step || (await tx.run(ADD_STEP, { handler, ...step, now: clock.now() })) > 0;
        if (isDue) await within(tx, 'setup', LIMIT_MS[tx.dialect === 'sqlite' ? 'setup' : 'setupOnPostgres'], work);
      }, 'once'),
  };
}

/** Runs the user's work in the open transaction. Throws if it does not end in time, or if a statement has failed. */
async function within(tx: Change, what: string, limitMs: number, work: Work): Promise<void> {
  const timer = new AbortController();
  const late = `${what} took longer than ${limitMs / 1_000} s and was rolled back: await nothing in it but its tx`;
  const seen: { failure?: unknown } = {};
  let isOpen = true;
  async function statement(sql: string, values: SqlValue[]): Promise<{ rows: SqlRow[]; changes: number }> {
    if (!isOpen) throw new Error(`${what} is over: await each call of its tx inside it`);
    return tx.user(sql, values).catch((error: unknown) => {
      seen.failure ??= error;
      throw error;
    });
  }
  const user: Tx = {
    dialect: tx.dialect,
    run: async (sql, ...values) => ({ changes: (await statement(sql, values)).changes }),
    get: async (sql, ...values) => (await statement(sql, values)).rows[0],
    all: async (sql, ...values) => (await statement(sql, values)).rows,
  };
  try {
    const limit = sleep(limitMs, undefined, { signal: timer.signal }).then(() => Promise.reject(new Error(late)));
    await Promise.race([Promise.try(work, user), limit]);
  } finally {
    timer.abort();
    isOpen = false;
  }
  if (seen.failure) throw seen.failure;
}
