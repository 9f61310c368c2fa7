// Claims due tasks: those that the lane core chooses, and those that wait for no other.
import { startClaiming } from '../../lanes/claiming.ts';
import type { Taken } from '../../lanes/lane.ts';
import type { Claim, StoredEvent, Turn } from '../../work.ts';
import { EVENT_COLUMNS, toStored, type EventRow, type Session } from '../session.ts';
import type { Lanes } from './lanes.ts';
import type { createNotes } from './notes.ts';
import { toWaiting, WAITING, type WaitingRow } from './waiting.ts';

const FREE = `state = 'ready' and isolated = 0 and not exists (select 1 from claims where task = id)`;
const ALONE = `handler = +? and alone = 1 and rerun = 0 and ${FREE}`;
/** `+` makes PostgreSQL find the few tasks of reruns, and not read all that wait for the handler. */
const ALONE_OF_RERUNS = `+handler = +? and +alone = 1 and rerun > 0 and ${FREE}`;

type ClaimedBy = Pick<Turn, 'now' | 'boot'> & { watermark: bigint };

export interface Claimers {
  lanes: Lanes;
  notes: ReturnType<typeof createNotes>;
  /** The event, if it is still in memory since its tasks were made. */
  recent: (event: number) => StoredEvent | undefined;
}

// oxlint-disable-next-line max-lines-per-function -- one statement each, beside the function that runs it
export function createClaim(session: Session, { lanes, notes, recent }: Claimers) {
  const { indexedBy, oneOf } = session.dialect;
  const take = session.insertAll({
    into: 'claims',
    columns: { task: 'bigint', boot: 'bigint', attempt: 'bigint', late: 'bigint', started_at: 'bigint' },
  });
  const eventsOf = session.statement<EventRow>(
    `select ${EVENT_COLUMNS}, ${session.dialect.eventText} from events e where e.seq ${oneOf('?', 'bigint')}`,
  );
  const alone = session.statement<WaitingRow>(`
    select ${WAITING} from tasks where ${ALONE} and due_at <= +? order by due_at limit +?`);
  const nextAlone = session.value<number>(`
    select due_at from tasks where ${ALONE} order by due_at limit 1`);
  const aloneOfReruns = session.statement<WaitingRow>(`
    select ${WAITING} from tasks ${indexedBy('tasks_rerun')} where ${ALONE_OF_RERUNS} and due_at <= +?
      order by due_at limit +?`);
  const nextAloneOfReruns = session.value<number | null>(`
    select min(due_at) from tasks ${indexedBy('tasks_rerun')} where ${ALONE_OF_RERUNS}`);

  async function claimUpTo(turn: Turn) {
    const { room, now, boot, handlers } = turn;
    const claims: Claim[] = [];
    const claiming = startClaiming(lanes.core, turn);
    // The lane core chooses without waiting, so what it may ask for is read before.
    while (claiming.goesOn()) {
      const singles = await singlesOf(turn, room - claims.length);
      const wants = claiming.wants((handler, rerun, limit) => singles(handler, rerun).slice(0, limit));
      const { claims: taken, aside } = claiming.take(await lanes.heads(wants, now));
      await lanes.setAside(aside);
      for (const group of groupsOf(taken))
        claims.push(...(await claimAll(group, { now, boot, watermark: lanes.core.strictOrder.watermark() })));
    }
    const times = await Promise.all(
      handlers.flatMap((handler) => [nextAlone.get(handler), nextAloneOfReruns.get(handler)]),
    );
    const singleAt = (handler: number, rerun: boolean): number | null =>
      times[2 * handlers.indexOf(handler) + (rerun ? 1 : 0)] ?? null;
    return { claims, nextAt: claiming.end(singleAt) };
  }

  /** Due tasks that wait for no other, by handler, the oldest first. */
  async function singlesOf({ handlers, now }: Turn, room: number) {
    const lists = await Promise.all(
      handlers.flatMap((handler) => [alone.all(handler, now, room), aloneOfReruns.all(handler, now, room)]),
    );
    return (handler: number, rerun: boolean) =>
      (lists[2 * handlers.indexOf(handler) + (rerun ? 1 : 0)] ?? []).map(toWaiting);
  }

  async function claimAll(taken: Taken['claims'], by: ClaimedBy): Promise<Claim[]> {
    if (taken.length === 0) return [];
    const events = new Map(taken.flatMap(({ task }) => recent(task.event) ?? []).map((event) => [event.seq, event]));
    const unread = taken.flatMap(({ task }) => (events.has(task.event) ? [] : [task.event]));
    if (unread.length > 0)
      for (const row of await eventsOf.all([...new Set(unread)])) events.set(row.seq, toStored(row));
    const noted = await notes.readOf(taken.map(({ task }) => task.id));
    const claims = await Promise.all(
      taken.map(async (one) => ({ ...(await claimOf(one, events, by)), notes: noted.get(one.task.id) ?? {} })),
    );
    await take(
      claims.map(({ task, boot, attempt, late, startedAt }) => [task, boot, attempt, late ? 1 : 0, startedAt]),
    );
    return claims;
  }

  async function claimOf(
    { task, chain }: Taken['claims'][number],
    events: Map<number, StoredEvent>,
    { now, boot, watermark }: ClaimedBy,
  ): Promise<Omit<Claim, 'notes'>> {
    const { id, handler, lane, alone: isAlone, rerun, deferred: deferredMs, error } = task;
    const event = events.get(task.event);
    if (!event) throw new Error(`event ${task.event} is gone, and its tasks are not`);
    const late = await lanes.isLate(task, !task.strict && (await isUnplaced(event, lane)));
    const attempt = task.attempts + 1;
    return {
      task: id,
      handler,
      event,
      lane,
      alone: isAlone,
      rerun,
      attempt,
      boot,
      late,
      unproven: task.strict && task.cursor !== null && task.cursor > watermark,
      startedAt: now,
      deferredMs,
      error,
      chain,
    };
  }

  /**
   * True if replay or stream brought the event without a session. Then its lane is one for events without a session,
   * although a webhook may have named the session since.
   */
  async function isUnplaced({ origin }: StoredEvent, lane: number | null): Promise<boolean> {
    return lane !== null && (origin === 'replay' || origin === 'stream') && lanes.hasNoSession(lane);
  }

  return { claimUpTo, claimAll };
}

/**
 * Claims that are written together. A task that stepped aside is late if its lane has run ahead, so the claims before it
 * are written first.
 */
function groupsOf(taken: Taken['claims']): Taken['claims'][] {
  const groups: Taken['claims'][] = [];
  let open: Taken['claims'] | undefined;
  for (const one of taken) {
    const aside = one.task.alone && one.task.lane !== null;
    if (open && !aside) open.push(one);
    else groups.push((open = [one]));
    if (aside) open = undefined;
  }
  return groups;
}
