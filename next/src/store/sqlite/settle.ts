// First step of a turn: how attempts ended. A task that ended never waits again by itself; a lane that is free again is due
// when its head is.
import type { Ended, Hold, Outcome } from '../work.ts';
import type { Counters } from './counters.ts';
import type { Db } from './database.ts';
import { HEAD, type Lanes } from './lanes.ts';

const STATE = { done: 1, skipped: 2, dead: 3 } as const;
type Over = Outcome & { as: keyof typeof STATE };
type Again = Outcome & { as: 'again' };

const PASSED = 'max(done_cursor, coalesce((select cursor from tasks where event = @last and handler = @handler), -1))';

const statements = (db: Db) => ({
  held: db.value<number>('select 1 from lanes where id = ? and boot = ? and claim = ?'),
  end: db.sql(`update tasks set state = ?, ended_at = ?, attempts = attempts + 1, error = ?
    where event = ? and handler = ? and state = 0`),
  again: db.sql<{ lane: number; rerun: number }>(`update tasks set due_at = @dueAt, attempts = attempts + @spent,
      failed_at = coalesce(failed_at, @now), error = @error
    where event = @event and handler = @handler and state = 0 returning lane, rerun`),
  addAttempt: db.sql(`insert into attempts
    select @event, @handler, coalesce(max(n), 0) + 1, @now, @error from attempts where event = @event and handler = @handler`),
  aside: db.sql('update tasks set lane = ?, late = 1 where event = ? and handler = ?'),
  passed: db.sql(`update lanes set done_cursor = ${PASSED} where id = @lane`),
  free: db.sql(`update lanes set done_cursor = ${PASSED}, boot = null, claim = null, claimed_to = null,
    (due_at, suspect) = ${HEAD} where id = @lane`),
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

  /** Returns how many outcomes came too late: their claim no longer held. */
  all(ended: Ended[], now: number, counters: Counters): number {
    let fenced = 0;
    for (const { claim, outcomes, free } of ended) {
      const { lane, handler } = claim;
      if (!this.holds(claim)) {
        fenced += outcomes.length;
        continue;
      }
      let last: number | null = null;
      for (const outcome of outcomes) if (this.#one(outcome, handler, now, counters)) last = outcome.event;
      if (free) {
        this.#sql.free.run({ lane, handler, last });
        if (lane < 0) this.#lanes.touch(lane);
      } else if (last !== null) this.passed(lane, handler, last);
    }
    return fenced;
  }

  /** The lane's later tasks with a lower cursor than this are late. */
  passed(lane: number, handler: number, last: number): void {
    this.#sql.passed.run({ lane, handler, last });
  }

  /** False: it has ended already. */
  finish({ event, as, error }: Over, handler: number, now: number, counters: Counters): boolean {
    if (this.#sql.end.run(STATE[as], now, error, event, handler).changes === 0) return false;
    if (as === 'dead') this.#sql.addAttempt.run({ event, handler, now, error });
    counters.add(handler, 'waiting', -1);
    counters.add(handler, as, 1);
    return true;
  }

  /** True: the task no longer holds its lane. */
  #one(outcome: Outcome, handler: number, now: number, counters: Counters): boolean {
    if (outcome.as === 'completed') return true;
    if (outcome.as === 'again') return this.#fail(outcome, handler, now, counters);
    return this.finish(outcome, handler, now, counters);
  }

  #fail(outcome: Again, handler: number, now: number, counters: Counters): boolean {
    const { event, error, dueAt, spent } = outcome;
    const task = this.#sql.again.get({ event, handler, dueAt, error, now, spent: Number(spent) });
    if (!task) return false;
    if (spent) this.#sql.addAttempt.run({ event, handler, now, error });
    if (spent) counters.add(handler, 'failed', 1);
    // A task of a rerun holds up no live work.
    if (task.lane < 0 || !(outcome.aside || task.rerun === 1)) return false;
    const own = this.#lanes.own(handler, event);
    this.#sql.aside.run(own, event, handler);
    if (!this.#lanes.place(own, handler, dueAt)) this.#lanes.touch(own);
    return true;
  }
}
