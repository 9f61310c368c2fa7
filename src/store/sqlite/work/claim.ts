// Claims due tasks: those that the lane core chooses, and those that wait for no other.
import { startClaiming } from '../../lanes/claiming.ts';
import type { Taken } from '../../lanes/lane.ts';
import type { Claim, Notes, StoredEvent, Turn } from '../../work.ts';
import { createBulkInsert } from '../bulk.ts';
import { EVENT_COLUMNS, EVENT_TEXT, type Session } from '../session.ts';
import type { Lanes } from './lanes.ts';
import type { createNotes } from './notes.ts';
import { toWaiting, WAITING, type WaitingRow } from './waiting.ts';

const ALONE = `state = 'ready' and alone = 1 and isolated = 0 and not exists (select 1 from claims where task = id)`;

interface ClaimedBy {
  now: number;
  boot: number;
  watermark: bigint;
  notesOf: (task: number) => Notes;
}

export interface Claimers {
  lanes: Lanes;
  notes: ReturnType<typeof createNotes>;
  /** The event, if it is still in memory since its tasks were made. */
  recent: (event: number) => StoredEvent | undefined;
}

export function createClaim(session: Session, { lanes, notes, recent }: Claimers) {
  const { db } = session;
  const take = createBulkInsert(db, {
    into: 'insert into claims (task, boot, attempt, late, started_at)',
    row: '(?, ?, ?, ?, ?)',
  });
  const eventOf = db.prepare<unknown[], StoredEvent>(
    `select ${EVENT_COLUMNS}, ${EVENT_TEXT} from events e where e.seq = ?`,
  );
  const alone = db.prepare<unknown[], WaitingRow>(`
    select ${WAITING} from tasks where handler = +? and due_at <= +? and ${ALONE} and rerun = 0
      order by due_at limit +?`);
  const nextAlone = session.value<number>(`
    select due_at from tasks where handler = +? and ${ALONE} and rerun = 0 order by due_at limit 1`);
  const aloneOfReruns = db.prepare<unknown[], WaitingRow>(`
    select ${WAITING} from tasks indexed by tasks_rerun where handler = +? and due_at <= +? and ${ALONE} and rerun > 0
      order by due_at limit +?`);
  const nextAloneOfReruns = session.value<number | null>(`
    select min(due_at) from tasks indexed by tasks_rerun where handler = +? and ${ALONE} and rerun > 0`);

  function claimUpTo(turn: Turn) {
    const { room, now, boot } = turn;
    const claims: Claim[] = [];
    const notesOf = room > 0 ? notes.reader() : () => ({});
    const claiming = startClaiming(lanes.core, turn);
    while (claiming.goesOn()) {
      const wants = claiming.wants((handler, rerun, limit) =>
        (rerun ? aloneOfReruns : alone).all(handler, now, limit).map(toWaiting),
      );
      const { claims: taken, aside } = claiming.take(lanes.heads(wants, now));
      lanes.setAside(aside);
      const by = { now, boot, watermark: lanes.core.watermark(), notesOf };
      for (const group of groupsOf(taken)) claims.push(...claimAll(group, by));
    }
    const singleAt = (handler: number, rerun: boolean): number | null =>
      (rerun ? nextAloneOfReruns : nextAlone).get(handler) ?? null;
    return { claims, nextAt: claiming.end(singleAt) };
  }

  function claimAll(taken: Taken['claims'], by: ClaimedBy): Claim[] {
    const claims = taken.map((one) => claimOf(one, by));
    take(claims.map(({ task, boot, attempt, late, startedAt }) => [task, boot, attempt, late ? 1 : 0, startedAt]));
    return claims;
  }

  function claimOf({ task, chain }: Taken['claims'][number], { now, boot, watermark, notesOf }: ClaimedBy): Claim {
    const { id, handler, lane, alone: isAlone, rerun, deferred: deferredMs, error } = task;
    const event = recent(task.event) ?? readEvent(task.event);
    const late = lanes.isLate(task, !task.strict && isUnplaced(event, lane));
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
      notes: notesOf(id),
    };
  }

  /**
   * True if replay or stream brought the event without a session. Then its lane is one for events without a session,
   * although a webhook may have named the session since.
   */
  function isUnplaced({ origin }: StoredEvent, lane: number | null): boolean {
    return lane !== null && (origin === 'replay' || origin === 'stream') && lanes.hasNoSession(lane);
  }

  function readEvent(seq: number): StoredEvent {
    const event = eventOf.get(seq);
    if (!event) throw new Error(`event ${seq} is gone, and its tasks are not`);
    return event;
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
