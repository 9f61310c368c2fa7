// Claims due tasks: those that the lane core chooses, and those that wait for no other.
import { startClaiming } from '../../lanes/claiming.ts';
import type { Chain } from '../../lanes/lane.ts';
import type { Waiting } from '../../lanes/waiting.ts';
import type { Claim, Notes, StoredEvent, Turn } from '../../work.ts';
import { EVENT_COLUMNS, EVENT_TEXT, type Session } from '../session.ts';
import type { Lanes } from './lanes.ts';
import type { createNotes } from './notes.ts';
import { toWaiting, WAITING, type WaitingRow } from './waiting.ts';

const ALONE = `state = 'ready' and alone = 1 and isolated = 0 and not exists (select 1 from claims where task = id)`;

interface ClaimedBy {
  now: number;
  boot: number;
  watermark: bigint;
  chain: Chain;
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
  const take = db.prepare('insert into claims (task, boot, attempt, late, started_at) values (?, ?, ?, ?, ?)');
  const eventOf = db.prepare<unknown[], StoredEvent>(
    `select ${EVENT_COLUMNS}, ${EVENT_TEXT} from events e where e.seq = ?`,
  );
  const alone = db.prepare<unknown[], WaitingRow>(`
    select ${WAITING} from tasks where handler = +? and due_at <= +? and ${ALONE} and rerun = 0
      order by due_at limit +?`);
  const nextAlone = db
    .prepare<unknown[], number>(`
    select due_at from tasks where handler = +? and ${ALONE} and rerun = 0 order by due_at limit 1`)
    .pluck();
  const aloneOfReruns = db.prepare<unknown[], WaitingRow>(`
    select ${WAITING} from tasks indexed by tasks_rerun where handler = +? and due_at <= +? and ${ALONE} and rerun > 0
      order by due_at limit +?`);
  const nextAloneOfReruns = db
    .prepare<unknown[], number | null>(`
    select min(due_at) from tasks indexed by tasks_rerun where handler = +? and ${ALONE} and rerun > 0`)
    .pluck();

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
      for (const { task, chain } of taken)
        claims.push(claimOne(task, { now, boot, watermark: lanes.core.watermark(), chain, notesOf }));
    }
    const singleAt = (handler: number, rerun: boolean): number | null =>
      (rerun ? nextAloneOfReruns : nextAlone).get(handler) ?? null;
    return { claims, nextAt: claiming.end(singleAt) };
  }

  function claimOne(task: Waiting, { now, boot, watermark, chain, notesOf }: ClaimedBy): Claim {
    const { id, handler, lane, alone: isAlone, rerun, deferred: deferredMs, error } = task;
    const event = recent(task.event) ?? readEvent(task.event);
    const late = lanes.isLate(task, !task.strict && isUnplaced(event, lane));
    const attempt = task.attempts + 1;
    take.run(id, boot, attempt, late ? 1 : 0, now);
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

  return { claimUpTo, claimOne };
}
