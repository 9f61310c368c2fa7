// First step of a turn: writes how attempts ended. A task that has ended never waits again by itself. A lane that is free
// again is due when its head is.
import { STATE, type Counts } from '../counts.ts';
import { ownLane } from '../lanes.ts';
import type { Claim, Ended, Hold, Outcome } from '../work.ts';
import type { Db } from './database.ts';
import { HEAD, type Lanes } from './lanes.ts';

type Over = Outcome & { as: 'done' | 'skipped' | 'dead' };
type Again = Outcome & { as: 'again' };

const PASSED = 'max(done_cursor, coalesce((select cursor from tasks where event = ? and handler = ?), -1))';

/** The claim still holds. Each statement checks it, because a select for it would cost as much as three of them. */
const HELD = 'id = ? and boot = ? and claim = ?';

/** Meanwhile a person may have put the task into another lane. */
const IS_HELD = `exists (select 1 from lanes where ${HELD} and id = tasks.lane)`;

/** The values of HELD. Statements that run for each task take values by position, because names cost twice as much. */
const heldBy = ({ lane, boot, claim }: Hold): number[] => [lane, boot, claim];

const statements = (db: Db) => ({
  end: db.sql(`update tasks set state = ?, ended_at = ?, attempts = attempts + 1,
      error = iif(? is null, null, iif((select body is null from events where seq = event), 'erased', ?))
    where event = ? and handler = ? and state = 0 and ${IS_HELD}`),
  again: db.sql<{ lane: number; rerun: number }>(`update tasks set due_at = ?, attempts = attempts + ?,
      failed_at = coalesce(failed_at, ?), error = iif((select body is null from events where seq = event), 'erased', ?)
    where event = ? and handler = ? and state = 0 and ${IS_HELD}
    returning tasks.lane, rerun`),
  addAttempt: db.sql(`insert into attempts
    select @event, @handler, coalesce(max(n), 0) + 1, @now,
      iif((select body is null from events where seq = @event), 'erased', @error) from attempts where event = @event and handler = @handler`),
  aside: db.sql('update tasks set lane = ?, late = 1 where event = ? and handler = ?'),
  passed: db.sql(`update lanes set done_cursor = ${PASSED} where ${HELD}`),
  free: db.sql(`update lanes set done_cursor = ${PASSED}, boot = null, claim = null, claimed_to = null,
    (due_at, suspect) = ${HEAD} where ${HELD}`),
});

export function createSettle(db: Db, lanes: Lanes) {
  const sql = statements(db);

  /** False: the task has ended already, or the claim no longer holds. */
  function finish({ event, as, error }: Over, claim: Claim, now: number, counts: Counts): boolean {
    const { handler } = claim;
    if (sql.end.run(STATE[as], now, error, error, event, handler, ...heldBy(claim)).changes === 0) return false;
    if (as === 'dead') sql.addAttempt.run({ event, handler, now, error });
    counts.add(handler, 'waiting', -1);
    counts.add(handler, as, 1);
    return true;
  }

  /** True: the task has given up its lane. */
  function fail({ event, error, dueAt, spent, aside }: Again, claim: Claim, now: number, counts: Counts): boolean {
    const { handler } = claim;
    const task = sql.again.get(dueAt, Number(spent), now, error, event, handler, ...heldBy(claim));
    if (!task) return false;
    if (spent) sql.addAttempt.run({ event, handler, now, error });
    if (spent) counts.add(handler, 'failed', 1);
    // A task of a rerun gives up its lane when it fails, so that it holds up no live work.
    if (task.lane < 0 || !(aside || task.rerun === 1)) return false;
    const own = ownLane(handler, event);
    sql.aside.run(own, event, handler);
    lanes.place(own, handler, dueAt);
    lanes.touch(own);
    return true;
  }

  function one(outcome: Outcome, claim: Claim, now: number, counts: Counts): boolean {
    if (outcome.as === 'completed') return true;
    return outcome.as === 'again' ? fail(outcome, claim, now, counts) : finish(outcome, claim, now, counts);
  }

  /** Returns how many outcomes came too late: their claim no longer held, and they changed nothing. */
  return (ended: Ended[], now: number, counts: Counts): number => {
    let fenced = 0;
    for (const { claim, outcomes, free } of ended) {
      let last: number | null = null;
      for (const outcome of outcomes) if (one(outcome, claim, now, counts)) last = outcome.event;
      const statement = free ? sql.free : sql.passed;
      if (statement.run(last, claim.handler, ...heldBy(claim)).changes === 0) fenced += outcomes.length;
      else if (free && claim.lane < 0) lanes.touch(claim.lane);
    }
    return fenced;
  };
}
