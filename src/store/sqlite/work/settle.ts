// Writes how attempts ended: the state of the task, the attempt's record, and the progress of its lane.
import { endOf } from '../../settlement.ts';
import type { Settlement } from '../../work.ts';
import { gapId } from '../../gap-event.ts';
import type { Session } from '../session.ts';
import { createAttempts } from './attempts.ts';
import type { Lanes } from './lanes.ts';

export function createSettle(session: Session, lanes: Lanes) {
  const { db } = session;
  const handlerName = db.prepare<[number], string>('select name from handlers where id = ?').pluck();
  const handlerNames = new Map<number, string>();
  const giveUp = db.prepare('delete from claims where task = ? and attempt = ? and boot = ?');
  const end = db.prepare(`
    update tasks set state = ?, error = ?, attempts = ?, late = ?, started_at = ?, changed_at = ?, isolated = 0 where id = ?`);
  const postpone = db.prepare(`
    update tasks set error = ?, due_at = ?, hold_until = coalesce(hold_until, ?), attempts = ?, deferred = deferred + ?,
      started_at = ?, isolated = 0 where id = ?`);
  const closeGap = db.prepare(`
    update gaps set closed_at = ?, closed_by = (select name from handlers where id = ?)
    where '${gapId('')}' || id = ? and closed_at is null`);
  const attemptLog = createAttempts(session);
  // An erased event has neither body nor digest. A purged event still has its digest.
  const isErased = db
    .prepare<unknown[], number>('select 1 from events where seq = ? and body is null and digest is null')
    .pluck();

  /** Kept in memory, because the name of a handler never changes. */
  function nameOf(handler: number): string {
    const name = handlerNames.get(handler) ?? handlerName.get(handler) ?? '';
    handlerNames.set(handler, name);
    return name;
  }

  /** Undefined: the claim no longer holds, because another process has the task. */
  function settleOne(given: Settlement, now: number): Settlement | undefined {
    const { task, attempt, boot } = given.claim;
    if (giveUp.run(task, attempt, boot).changes === 0) return undefined;
    const settlement = given.state === 'done' || !isErased.get(given.claim.event.seq) ? given : afterErasure(given);
    const { claim, spent = true, error } = settlement;
    const late = claim.late ? 1 : 0;
    const attempts = spent ? claim.attempt : claim.attempt - 1;
    // An attempt that a stop of the process interrupted gets no entry, because it does not count.
    if (spent || settlement.state !== 'ready' || settlement.deferredMs)
      attemptLog.ended(claim, settlement.state, error, now);
    if (settlement.state === 'ready') {
      const { dueAt, holdMs, deferredMs = 0 } = settlement;
      const holdUntil = holdMs === null ? null : now + holdMs;
      postpone.run(error, dueAt, holdUntil, attempts, deferredMs, claim.startedAt, claim.task);
    } else end.run(settlement.state, error, attempts, late, claim.startedAt, now, claim.task);
    if (settlement.state === 'done' && claim.event.type === 'kit.gap') closeGap.run(now, claim.handler, claim.event.id);
    if (claim.lane !== null) lanes.saveFinished(claim.lane, endOf(settlement), now);
    return settlement;
  }

  function freeLane(settlement: Settlement, now: number): void {
    const { lane, alone: aside } = settlement.claim;
    if (lane !== null) lanes.core.ended(lane, endOf(settlement), aside, now);
  }

  return { nameOf, settleOne, freeLane };
}

/** The event was erased after its task was claimed. Its error may quote the event, and it cannot be tried again. */
function afterErasure(settlement: Settlement): Settlement {
  const { claim, state, spent = true } = settlement;
  if (state === 'ready') return { claim, state: 'skipped', error: 'erased', spent };
  return settlement.error === null ? settlement : { ...settlement, error: 'erased' };
}
