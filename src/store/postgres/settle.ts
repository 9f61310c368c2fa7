// First step of a turn: writes how attempts ended. A task that has ended never waits again by itself. A lane that is free
// again is due when its head is.
import { STATE, type Counts } from '../counts.ts';
import { ownLane } from '../lanes.ts';
import type { Claim, Ended, Outcome } from '../work.ts';
import type { Tx } from './connection.ts';
import { lockLanes, pass, PLACE, TASKS, touchLocked } from './lanes.ts';
import { idsOf, rows } from './rows.ts';

const CHANGES = rows({ bigint: 'event handler lane state dueAt spent own aside', text: 'error' });
/** The `+ 0` keeps PostgreSQL from using the index of waiting tasks. Meanwhile a person may have put one into another lane. */
const WAITS = 't.state + 0 = 0 and t.lane = v.lane';
/** A task of a rerun gives up its lane when it fails, so that it holds up no live work. */
const GOES = 'v.state = 0 and t.lane >= 0 and (v.aside = 1 or t.rerun = 1)';
const CHANGE = `update tasks t set state = v.state, attempts = t.attempts + v.spent, due_at = coalesce(v."dueAt", t.due_at),
    ended_at = case when v.state > 0 then cast(@now as bigint) end,
    failed_at = case when v.state > 0 then t.failed_at else coalesce(t.failed_at, @now) end,
    error = case when v.error is not null and (select body is null from events where seq = t.event) then 'erased' else v.error end,
    lane = case when ${GOES} then v.own else t.lane end, late = case when ${GOES} then 1 else t.late end
  from ${CHANGES.from} where t.event = v.event and t.handler = v.handler and ${WAITS}
  returning t.event, t.handler, v.lane as "from", t.lane as id, t.state, t.due_at as "dueAt", t.error,
    cast(t.cursor as text) as cursor, v.spent`;
const FAILURES = rows({ bigint: 'event handler', text: 'error' });
const ADD_ATTEMPTS = `insert into attempts select event, handler, coalesce((select max(n) from attempts a
    where a.event = v.event and a.handler = v.handler), 0) + 1, @now, error from ${FAILURES.from}`;

/** `from` is the claimed lane, `id` the one that the task is in now. */
type Changed = Record<'event' | 'handler' | 'from' | 'id' | 'state' | 'dueAt' | 'spent', number> & {
  cursor: string;
  error: string | null;
};

/** Resolves with the number of outcomes whose claim no longer held. They changed nothing. */
export async function settle(tx: Tx, ended: Ended[], now: number, counts: Counts): Promise<number> {
  const locked = await lockLanes(tx, [...new Set(ended.map(({ claim }) => claim.lane))]);
  const claims = new Set(locked.map(({ id, boot, claim }) => `${id} ${boot} ${claim}`));
  const held = ended.filter(({ claim: { lane, boot, claim } }) => claims.has(`${lane} ${boot} ${claim}`));
  const changes = held.flatMap(({ claim, outcomes }) => outcomes.flatMap((outcome) => changeOf(outcome, claim)));
  const changed = changes.length === 0 ? [] : await tx.all<Changed>(CHANGE, { ...CHANGES.of(changes), now });
  for (const { handler, state, spent } of changed) {
    if (state > 0) counts.move(handler, 0, state);
    else counts.add(handler, 'failed', spent);
  }
  const failed = changed.filter(({ state, spent }) => state === STATE.dead || (state === 0 && spent === 1));
  if (failed.length > 0) tx.last(ADD_ATTEMPTS, { ...FAILURES.of(failed), now });
  const aside = changed.filter(({ id, from }) => id !== from);
  if (aside.length > 0) tx.last(PLACE, TASKS.of(aside.map((one) => ({ ...one, lane: one.id }))));
  // A suspect that has left its lane is a suspect in its new lane, too.
  touchLocked(tx, idsOf(aside));
  const over = new Set(held.flatMap(({ claim, free }) => (free ? claim.lane : [])));
  const ends = changed.flatMap(({ id, from, state, cursor }) => (state > 0 || id !== from ? { id: from, cursor } : []));
  const begun = [...over].map((id) => ({ id, cursor: '-1' }));
  pass(tx, [...begun, ...ends.filter(({ id }) => over.has(id))], 'freed');
  const goOn = ends.filter(({ id }) => !over.has(id));
  pass(tx, goOn);
  return ended.reduce((sum, one) => sum + (held.includes(one) ? 0 : one.outcomes.length), 0);
}

/** Empty if `ctx.complete` has written the outcome already. */
function changeOf(outcome: Outcome, { handler, lane }: Claim) {
  if (outcome.as === 'completed') return [];
  const { event, error, as } = outcome;
  const { dueAt = null, spent = true, aside = false } = outcome as Partial<Outcome & { as: 'again' }>;
  return [{ event, handler, lane, state: STATE[as], error, dueAt, spent, own: ownLane(handler, event), aside }];
}
