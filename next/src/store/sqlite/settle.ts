// First step of a turn: how attempts ended. A task that ended never waits again by itself; a lane that is free again is due
// when its head is.
import type { Claim, Ended, Hold, Outcome } from '../work.ts';
import type { Counters } from './counters.ts';
import type { Db } from './database.ts';
import { HEAD, type Lanes } from './lanes.ts';

const STATE = { done: 1, skipped: 2, dead: 3 } as const;
type Over = Outcome & { as: keyof typeof STATE };
type Again = Outcome & { as: 'again' };

const PASSED = 'max(done_cursor, coalesce((select cursor from tasks where event = @last and handler = @handler), -1))';

/** The claim still holds. Written into each statement, because a select of its own costs as much as three of them. */
const HELD = 'id = @lane and boot = @boot and claim = @claim';

const statements = (db: Db) => ({
  held: db.value<number>('select 1 from lanes where id = ? and boot = ? and claim = ?'),
  end: db.sql(`update tasks set state = @state, ended_at = @now, attempts = attempts + 1, error = @error
    where event = @event and handler = @handler and state = 0 and exists (select 1 from lanes where ${HELD})`),
  again: db.sql<{ lane: number; rerun: number }>(`update tasks set due_at = @dueAt, attempts = attempts + @spent,
      failed_at = coalesce(failed_at, @now), error = @error
    where event = @event and handler = @handler and state = 0 and exists (select 1 from lanes where ${HELD})
    returning tasks.lane, rerun`),
  addAttempt: db.sql(`insert into attempts
    select @event, @handler, coalesce(max(n), 0) + 1, @now, @error from attempts where event = @event and handler = @handler`),
  aside: db.sql('update tasks set lane = ?, late = 1 where event = ? and handler = ?'),
  passed: db.sql(`update lanes set done_cursor = ${PASSED} where ${HELD}`),
  free: db.sql(`update lanes set done_cursor = ${PASSED}, boot = null, claim = null, claimed_to = null,
    (due_at, suspect) = ${HEAD} where ${HELD}`),
});

export class Settle {
  readonly #lanes: Lanes;
  readonly #sql: ReturnType<typeof statements>;

  constructor(db: Db, lanes: Lanes) {
    this.#lanes = lanes;
    this.#sql = statements(db);
  }

  holds({ lane, boot, claim }: Hold): boolean {
    return this.#sql.held.get(lane, boot, claim) !== undefined;
  }

  /** Returns how many outcomes came too late: their claim no longer held, and they changed nothing. */
  all(ended: Ended[], now: number, counters: Counters): number {
    let fenced = 0;
    for (const { claim, outcomes, free } of ended) {
      let last: number | null = null;
      for (const outcome of outcomes) if (this.#one(outcome, claim, now, counters)) last = outcome.event;
      const { lane, handler, boot, claim: number } = claim;
      const statement = free ? this.#sql.free : this.#sql.passed;
      if (statement.run({ lane, handler, boot, claim: number, last }).changes === 0) fenced += outcomes.length;
      else if (free && lane < 0) this.#lanes.touch(lane);
    }
    return fenced;
  }

  /** The lane's later tasks with a lower cursor than this are late. */
  passed({ lane, boot, claim }: Hold, handler: number, last: number): void {
    this.#sql.passed.run({ lane, boot, claim, handler, last });
  }

  /** False: it has ended already, or the claim no longer holds. */
  finish({ event, as, error }: Over, hold: Hold, handler: number, now: number, counters: Counters): boolean {
    const { lane, boot, claim } = hold;
    const row = { state: STATE[as], now, error, event, handler, lane, boot, claim };
    if (this.#sql.end.run(row).changes === 0) return false;
    if (as === 'dead') this.#sql.addAttempt.run({ event, handler, now, error });
    counters.add(handler, 'waiting', -1);
    counters.add(handler, as, 1);
    return true;
  }

  /** True: the task no longer holds its lane. */
  #one(outcome: Outcome, claim: Claim, now: number, counters: Counters): boolean {
    if (outcome.as === 'completed') return true;
    if (outcome.as === 'again') return this.#fail(outcome, claim, now, counters);
    return this.finish(outcome, claim, claim.handler, now, counters);
  }

  #fail(outcome: Again, { lane, boot, claim, handler }: Claim, now: number, counters: Counters): boolean {
    const { event, error, dueAt, spent } = outcome;
    const row = { event, handler, dueAt, error, now, spent: Number(spent), lane, boot, claim };
    const task = this.#sql.again.get(row);
    if (!task) return false;
    if (spent) this.#sql.addAttempt.run({ event, handler, now, error });
    if (spent) counters.add(handler, 'failed', 1);
    // A task of a rerun holds up no live work.
    if (task.lane < 0 || !(outcome.aside || task.rerun === 1)) return false;
    const own = this.#lanes.own(handler, event);
    this.#sql.aside.run(own, event, handler);
    this.#lanes.place(own, handler, dueAt);
    this.#lanes.touch(own);
    return true;
  }
}
