// Writes how attempts ended: the state of the task, the attempt's record, and the progress of its lane.
import { endOf } from '../../settlement.ts';
import type { Settlement } from '../../work.ts';
import { gapId } from '../../gap-event.ts';
import type { Session } from '../session.ts';
import { createAttempts } from './attempts.ts';
import type { Lanes } from './lanes.ts';

export function createSettle(session: Session, lanes: Lanes) {
  const { db } = session;
  const handlerName = session.value<string, [number]>('select name from handlers where id = ?');
  const handlerNames = new Map<number, string>();
  const giveUp = db.prepare('delete from claims where task = ? and attempt = ? and boot = ?');
  const giveUpAll = session.value<number>(`
    delete from claims where task in (select value from json_each(?)) and attempt = 1 and boot = ? returning task`);
  const endAll = db.prepare(`
    update tasks set state = 'done', error = null, attempts = 1, late = ?, started_at = ?, changed_at = ?, isolated = 0
    where id in (select value from json_each(?))`);
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
  const isErased = session.value<number>('select 1 from events where seq = ? and body is null and digest is null');

  /** Kept in memory, because the name of a handler never changes. */
  function nameOf(handler: number): string {
    const name = handlerNames.get(handler) ?? handlerName.get(handler) ?? '';
    handlerNames.set(handler, name);
    return name;
  }

  /** Returns the settlements whose claims hold, in the same order. */
  function settleAll(given: Settlement[], now: number): Settlement[] {
    const settled: Settlement[] = [];
    let done: Settlement[] = [];
    for (const one of given) {
      if (isPlain(one)) {
        done.push(one);
        continue;
      }
      settled.push(...settleDone(done, now));
      done = [];
      const settlement = settleOne(one, now);
      if (settlement) settled.push(settlement);
    }
    return [...settled, ...settleDone(done, now)];
  }

  /** Most tasks are done at their first attempt: few statements settle them all. */
  function settleDone(given: Settlement[], now: number): Settlement[] {
    const held = new Set<number>();
    const alike = Map.groupBy(given, ({ claim }) => `${claim.boot} ${claim.late} ${claim.startedAt}`);
    for (const group of alike.values()) {
      const { boot, late, startedAt } = group[0]?.claim ?? {};
      const tasks = giveUpAll.all(JSON.stringify(group.map(({ claim }) => claim.task)), boot);
      endAll.run(late ? 1 : 0, startedAt, now, JSON.stringify(tasks));
      for (const task of tasks) held.add(task);
    }
    // `delete`: of two settlements of one claim, the second does not hold.
    const settled = given.filter(({ claim }) => held.delete(claim.task));
    lanes.saveFinished(settled, now);
    return settled;
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
    lanes.saveFinished([settlement], now);
    return settlement;
  }

  function freeLane(settlement: Settlement, now: number): void {
    const { lane, alone: aside } = settlement.claim;
    if (lane !== null) lanes.core.ended(lane, endOf(settlement), aside, now);
  }

  return { nameOf, settleAll, settleOne, freeLane };
}

/** The task is done at its first attempt, and its end concerns no other row. */
function isPlain({ claim, state, spent = true }: Settlement): boolean {
  return state === 'done' && spent && claim.attempt === 1 && claim.event.type !== 'kit.gap';
}

/** The event was erased after its task was claimed. Its error may quote the event, and it cannot be tried again. */
function afterErasure(settlement: Settlement): Settlement {
  const { claim, state, spent = true } = settlement;
  if (state === 'ready') return { claim, state: 'skipped', error: 'erased', spent };
  return settlement.error === null ? settlement : { ...settlement, error: 'erased' };
}
