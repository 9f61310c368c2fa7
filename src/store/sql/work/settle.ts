// Writes how attempts ended: the state of the task, the attempt's record, and the progress of its lane.
import { countsOf, endOf } from '../../settlement.ts';
import type { Counts } from '../../state.ts';
import type { Settlement } from '../../work.ts';
import { gapId } from '../../gap-event.ts';
import { together, type Session } from '../session.ts';
import { createAttempts } from './attempts.ts';
import type { createHandlers } from './handlers.ts';
import type { Lanes } from './lanes.ts';

export function createSettle(session: Session, lanes: Lanes, registry: ReturnType<typeof createHandlers>) {
  const { oneOf } = session.dialect;
  const giveUp = session.statement('delete from claims where task = ? and attempt = ? and boot = ?');
  const giveUpAll = session.value<number>(
    `delete from claims where task ${oneOf('?', 'bigint')} and attempt = 1 and boot = ? returning task`,
  );
  const endAll = session.statement(`
    update tasks set state = 'done', error = null, attempts = 1, late = ?, started_at = ?, changed_at = ?, isolated = 0
    where id ${oneOf('?', 'bigint')}`);
  const end = session.statement(`
    update tasks set state = ?, error = ?, attempts = ?, late = ?, started_at = ?, changed_at = ?, isolated = 0 where id = ?`);
  const postpone = session.statement(`
    update tasks set error = ?, due_at = ?, hold_until = coalesce(hold_until, ?), attempts = ?, deferred = deferred + ?,
      started_at = ?, isolated = 0 where id = ?`);
  const closeGap = session.statement(`
    update gaps set closed_at = ?, closed_by = (select name from handlers where id = ?)
    where '${gapId('')}' || id = ? and closed_at is null`);
  const attemptLog = createAttempts(session);
  // An erased event has neither body nor digest. A purged event still has its digest.
  const isErased = session.value<number>('select 1 from events where seq = ? and body is null and digest is null');

  /** What the settlements change in the counters. */
  async function countsFor(settled: Settlement[]): Promise<Counts> {
    return countsOf(settled, await registry.namesOf(settled.map(({ claim }) => claim.handler)));
  }

  /** Returns the settlements whose claims hold, in the same order. */
  async function settleAll(given: Settlement[], now: number): Promise<Settlement[]> {
    const settled: Settlement[] = [];
    let done: Settlement[] = [];
    for (const one of given) {
      if (isPlain(one)) {
        done.push(one);
        continue;
      }
      settled.push(...(await settleDone(done, now)));
      done = [];
      const settlement = await settleOne(one, now);
      if (settlement) settled.push(settlement);
    }
    return [...settled, ...(await settleDone(done, now))];
  }

  /** Most tasks are done at their first attempt: few statements settle them all. */
  async function settleDone(given: Settlement[], now: number): Promise<Settlement[]> {
    const alike = [...Map.groupBy(given, ({ claim }) => `${claim.boot} ${claim.late} ${claim.startedAt}`).values()];
    const idsOf = (group: Settlement[]): number[] => group.map(({ claim }) => claim.task);
    const tasks = await together(...alike.map((group) => giveUpAll.all(idsOf(group), group[0]?.claim.boot)));
    // `delete`: of two settlements of one claim, the second does not hold.
    const held = new Set(tasks.flat());
    const settled = given.filter(({ claim }) => held.delete(claim.task));
    await together(
      ...alike.map(([first], n) => endAll.run(first?.claim.late ? 1 : 0, first?.claim.startedAt, now, tasks[n])),
      lanes.saveFinished(settled, now),
    );
    return settled;
  }

  /** Undefined: the claim no longer holds, because another process has the task. */
  async function settleOne(given: Settlement, now: number): Promise<Settlement | undefined> {
    const { task, attempt, boot } = given.claim;
    if ((await giveUp.run(task, attempt, boot)) === 0) return undefined;
    const isGone = given.state !== 'done' && (await isErased.get(given.claim.event.seq)) !== undefined;
    const settlement = isGone ? afterErasure(given) : given;
    const { claim, spent = true, error } = settlement;
    const late = claim.late ? 1 : 0;
    const attempts = spent ? claim.attempt : claim.attempt - 1;
    const { state } = settlement;
    await together(
      // An attempt that a stop of the process interrupted gets no entry, because it does not count.
      (spent || state !== 'ready' || settlement.deferredMs) && attemptLog.ended(claim, state, error, now),
      state === 'ready'
        ? putOff(settlement, attempts, now)
        : end.run(state, error, attempts, late, claim.startedAt, now, claim.task),
      state === 'done' && claim.event.type === 'kit.gap' && closeGap.run(now, claim.handler, claim.event.id),
      lanes.saveFinished([settlement], now),
    );
    return settlement;
  }

  async function putOff(given: Extract<Settlement, { state: 'ready' }>, attempts: number, now: number): Promise<void> {
    const { claim, error, dueAt, holdMs, deferredMs = 0 } = given;
    const holdUntil = holdMs === null ? null : now + holdMs;
    await postpone.run(error, dueAt, holdUntil, attempts, deferredMs, claim.startedAt, claim.task);
  }

  function freeLane(settlement: Settlement, now: number): void {
    const { lane, alone: aside } = settlement.claim;
    if (lane !== null) lanes.core.ended(lane, endOf(settlement), aside, now);
  }

  return { countsFor, settleAll, settleOne, freeLane };
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
