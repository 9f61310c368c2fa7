// The work role of the store. A claim costs the same with a million waiting tasks or a long history. In SQL, `+?` tells
// SQLite that the plan does not depend on the bound value. Otherwise SQLite would prepare the statement again, at ten
// times its cost.
import type { Counts } from '../../ingest.ts';
import type {
  Claim,
  FanOutPage,
  NewTask,
  Notes,
  Settlement,
  StoredEvent,
  WorkStore,
  Turn,
  TurnResult,
} from '../../work.ts';
import { birthOf, createUndecided } from '../ingest/birth.ts';
import { gapId } from '../ingest/gaps.ts';
import { createHandlers } from './handlers.ts';
import { createAttempts } from './attempts.ts';
import { LOOKS } from '../../lanes/strict-order.ts';
import { createLanes } from './lanes.ts';
import { createRerunFeed } from '../admin/reruns.ts';
import { EVENT_COLUMNS, EVENT_TEXT, type Session, type Sync } from '../session.ts';
import { createRecentEvents } from './recent-events.ts';
import { createNotes } from './notes.ts';
import { inTransaction } from './tx.ts';
import type { Chain } from '../../lanes/lanes.ts';
import type { Waiting } from '../../lanes/waiting.ts';
import { createMarkDirty, HANDLERS, toWaiting, UNCLAIMED, WAITING, type WaitingRow } from './waiting.ts';

const ALONE = `state = 'ready' and alone = 1 and isolated = 0 and not exists (select 1 from claims where task = id)`;

interface ClaimedBy {
  now: number;
  boot: number;
  watermark: bigint;
  chain: Chain;
  notesOf: (task: number) => Notes;
}

/** Methods that call a handler's work, which may await its `tx`. */
export type Completing = 'complete' | 'setup';

export function createWorkStore(session: Session): Sync<Omit<WorkStore, Completing>> & Pick<WorkStore, Completing> {
  const { db } = session;
  const lanes = createLanes(session);

  const handlerName = db.prepare<[number], string>('select name from handlers where id = ?').pluck();
  const handlerNames = new Map<number, string>();
  const between = db.prepare<unknown[], StoredEvent>(
    `select ${EVENT_COLUMNS}, ${EVENT_TEXT} from events e where e.seq > +? and e.seq <= +? order by e.seq limit +?`,
  );
  const moveOn = db.prepare(`update state set value = ? where name = 'fanned_out' and value = ?`);
  const insert = db.prepare(`
    insert into tasks (id, event, handler, lane, alone, cursor, state, strict, release_at, due_at, rerun, started_at, changed_at)
    values (?, ?, ?, ?, ?, ?, 'ready', ?, ?, ?, ?, ?, ?) on conflict (id) do nothing`);
  const forgetEnd = db.prepare<unknown[], { state: 'done' | 'skipped' | 'dead'; deadGroup: number | null }>(
    `delete from tasks where id = ? and state <> 'ready' returning state, dead_group as deadGroup`,
  );
  const take = db.prepare('insert into claims (task, boot, attempt, late, started_at) values (?, ?, ?, ?, ?)');
  const giveUp = db.prepare('delete from claims where task = ? and attempt = ? and boot = ?');
  const end = db.prepare(`
    update tasks set state = ?, error = ?, attempts = ?, late = ?, started_at = ?, changed_at = ?, isolated = 0 where id = ?`);
  const postpone = db.prepare(`
    update tasks set error = ?, due_at = ?, hold_until = coalesce(hold_until, ?), attempts = ?, deferred = deferred + ?,
      started_at = ?, isolated = 0 where id = ?`);
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
  const isolatedTasks = db.prepare<unknown[], WaitingRow>(`
    select ${WAITING} from tasks where state = 'ready' and isolated = 1 and due_at <= ?
      and handler in (select value from json_each(?)) and ${UNCLAIMED}
    order by due_at limit 1`);
  const shift = db.prepare(`
    update tasks set release_at = release_at + @ms, due_at = due_at + @ms, hold_until = hold_until + @ms
    where state = 'ready' and max(release_at, due_at, coalesce(hold_until, 0)) > @from`);
  const closeGap = db.prepare(`
    update gaps set closed_at = ?, closed_by = (select name from handlers where id = ?)
    where '${gapId('')}' || id = ? and closed_at is null`);
  const markDirty = createMarkDirty(session);
  const registry = createHandlers(session);
  const reruns = createRerunFeed(session);
  const isWhole = db.prepare<unknown[], number>('select 1 from events where seq = ? and body is not null').pluck();
  const attemptLog = createAttempts(session);
  const notes = createNotes(session);
  const undecided = createUndecided(session);
  // An erased event has neither body nor digest. A purged event still has its digest.
  const isErased = db
    .prepare<unknown[], number>('select 1 from events where seq = ? and body is null and digest is null')
    .pluck();
  let recent = createRecentEvents();
  let erased = session.state('erased');
  let unproven = 0;

  /** A transaction that changes lanes. After a rollback the lanes in memory are dropped. */
  function withLanes<Result>(work: () => Result): Result {
    let begun = false;
    try {
      return session.write(() => {
        begun = true;
        return work();
      });
    } catch (error) {
      if (begun) lanes.forget();
      throw error;
    }
  }

  function turn(given: Turn): TurnResult {
    const { now, settle: settlements, fanOut, missed, rerun, room } = given;
    const claiming = fanOut !== null || missed != null || rerun != null || room > 0;
    if (claiming) lanes.load(now);
    return withLanes(() => {
      if (claiming) lanes.refresh(now);
      // Erased events must not come back from memory, or from tasks that were planned before the erasure.
      const planned = erased === (erased = session.state('erased'));
      if (!planned) recent = createRecentEvents();
      const counts: Counts = {};
      const add = (name: keyof Counts, by: number): void => {
        counts[name] = (counts[name] ?? 0) + by;
      };
      let fenced = 0;
      for (const settlement of settlements) {
        if (!settleOne(settlement, now)) fenced++;
        else {
          freeLane(settlement, now);
          add('tasks.running', -1);
          add(`tasks.${settlement.state}`, 1);
          const verdict = verdictOf(settlement);
          if (verdict) add(`attempts.${verdict}.${nameOf(settlement.claim.handler)}`, 1);
        }
      }
      add('fenced', fenced);
      if (claiming) undecided.giveUp();
      const moved = fanOut !== null && planned && moveOn.run(BigInt(fanOut.upTo), BigInt(fanOut.from)).changes === 1;
      // Missed events come first, in order of arrival, so that no task is made twice.
      const behind =
        missed && planned ? makeMissed(missed, moved || fanOut === null, now, add) : (missed?.from ?? null);
      if (fanOut && moved) undecided.fanOut(fanOut);
      if (fanOut && moved) add('tasks.ready', makeAll(withoutMissed(fanOut, missed, behind), now));
      if (rerun && reruns.moveOn(rerun.page, now)) feed(rerun, now, add);
      if (claiming) unproven = lanes.advance(now);
      const { claims, nextAt } = claimUpTo(given);
      add('tasks.ready', -claims.length);
      add('tasks.running', claims.length);
      session.count(counts);
      return { claims, fenced, nextAt, unproven, behind };
    });
  }

  /** Kept in memory, because the name of a handler never changes. */
  function nameOf(handler: number): string {
    const name = handlerNames.get(handler) ?? handlerName.get(handler) ?? '';
    handlerNames.set(handler, name);
    return name;
  }

  /** False: the claim no longer holds, because another process has the task. */
  function settleOne(settlement: Settlement, now: number): boolean {
    const { claim, spent = true } = settlement;
    if (giveUp.run(claim.task, claim.attempt, claim.boot).changes === 0) return false;
    // If the event was erased while the task ran, its error is replaced, because it may quote the event.
    const error = settlement.error !== null && isErased.get(claim.event.seq) ? 'erased' : settlement.error;
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
    return true;
  }

  function freeLane(settlement: Settlement, now: number): void {
    const { lane, alone: aside } = settlement.claim;
    if (lane !== null) lanes.core.ended(lane, endOf(settlement), aside, now);
  }

  function makeAll(tasks: NewTask[], now: number): number {
    return tasks.filter((task) => make(task, now)).length;
  }

  /** Returns the number of the last event for which the handler has its tasks; null: it has caught up. */
  function makeMissed(
    { handler, from, upTo, joins, tasks, owed = [] }: NonNullable<Turn['missed']>,
    together: boolean,
    now: number,
    add: (name: keyof Counts, by: number) => void,
  ): number | null {
    const to = joins && together ? null : upTo;
    if (!registry.moveOn(handler, from, to)) return from;
    undecided.give(handler, owed);
    add('tasks.ready', makeAll(tasks, now));
    return to;
  }

  /** Makes the tasks of a page of a rerun. Ended tasks begin anew; waiting and running tasks stay as they are. */
  function feed(
    { page, tasks }: NonNullable<Turn['rerun']>,
    now: number,
    add: (name: keyof Counts, by: number) => void,
  ): void {
    let made = 0;
    let gone = 0;
    for (const task of tasks) {
      // The event was pruned, or lost its body, after the page was read.
      if (!isWhole.get(task.event)) {
        gone++;
        continue;
      }
      const was = forgetEnd.get(task.event * HANDLERS + task.handler);
      if (was) add(`tasks.${was.state}`, -1);
      if (was?.deadGroup != null) attemptLog.leaveGroup(was.deadGroup, 1);
      if (make(task, now)) made++;
    }
    add('tasks.ready', made);
    reruns.count(page.id, made, tasks.length - made - gone, gone);
  }

  /** False: the handler already has a task of this event. */
  function make(task: NewTask, now: number): boolean {
    const { event, handler, releaseAt, strict = false, rerun = 0 } = task;
    const lane = task.lane === null || task.cursor === null ? null : lanes.enter(task, task.lane, now);
    const cursor = task.cursor === null ? null : BigInt(task.cursor);
    const free = lane === null;
    const dueAt = free ? releaseAt : now;
    const id = event * HANDLERS + handler;
    const row = [id, event, handler, lane, free ? 1 : 0, cursor, strict ? 1 : 0, releaseAt, dueAt, rerun, now, now];
    if (insert.run(...row).changes === 0) return false;
    recent.await(event);
    const fresh = { holdUntil: null, rerun, isolated: false, attempts: 0, deferred: 0, error: null };
    if (!free) lanes.core.add({ id, event, handler, lane, alone: false, cursor, strict, releaseAt, dueAt, ...fresh });
    return true;
  }

  /** A lane that was chosen may turn out to wait, so others are looked at, up to a limit. */
  function claimUpTo({ room, handlers, limits, chains, reruns: most = room, now, boot }: Turn) {
    const claims: Claim[] = [];
    const left = new Map(limits);
    const notesOf = room > 0 ? notes.reader() : () => ({});
    let places = most;
    for (let looks = LOOKS, again = true; again && looks > 0 && claims.length < room;) {
      const free = room - claims.length;
      const caps = { limits: left, reruns: Math.min(places, free), chains, looks };
      const ask = { now, room: free, handlers, ...caps, singles: due };
      const wants = lanes.core.wants(ask);
      const taken = lanes.core.take(lanes.heads(wants, now), now);
      lanes.setAside(taken.aside);
      for (const { task, chain } of taken.claims) {
        claims.push(claimOne(task, { now, boot, watermark: lanes.core.watermark(), chain, notesOf }));
        if (task.rerun > 0) places--;
        const limit = left.get(task.handler);
        if (limit !== undefined) left.set(task.handler, limit - 1);
      }
      again = taken.again;
      looks -= taken.looks;
    }
    if (claims.length > 0) lanes.core.turned();
    const free = handlers.filter((handler) => left.get(handler) !== 0);
    return { claims, nextAt: whenDue(free, places > 0) };

    function due(handler: number, rerun: boolean, limit: number): Waiting[] {
      return (rerun ? aloneOfReruns : alone).all(handler, now, limit).map(toWaiting);
    }
  }

  function claimOne(task: Waiting, { now, boot, watermark, chain, notesOf }: ClaimedBy): Claim {
    const { id, handler, lane, alone: isAlone, rerun, deferred: deferredMs, error } = task;
    const event = recent.take(task.event) ?? readEvent(task.event);
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

  function whenDue(handlers: number[], withReruns: boolean): number | null {
    const times = handlers.flatMap((handler) => [
      lanes.core.nextAt(handler, false),
      nextAlone.get(handler) ?? null,
      ...(withReruns ? [lanes.core.nextAt(handler, true), nextAloneOfReruns.get(handler) ?? null] : []),
    ]);
    return times.reduce((a, b) => (a === null || (b !== null && b < a) ? b : a), null);
  }

  return {
    register: (names, files) => registry.register(names, files),
    idsOf: (names) => registry.idsOf(names),
    behind: () => registry.behind(),
    missed(after, upTo, limit) {
      const events = between.all(after, upTo, limit);
      for (const event of events) recent.add(event);
      return events;
    },
    owed: (handler, limit) => undecided.owed(handler, limit),
    setup: (work) => session.writeAsync(() => inTransaction(session, work)),
    pending(limit) {
      const from = Number(session.state('fanned_out'));
      const events = between.all(from, Number.MAX_SAFE_INTEGER, limit);
      for (const event of events) recent.add(event);
      const birth = birthOf(session);
      return {
        from,
        watermark: session.cursorState('watermark'),
        birth,
        events,
        decided: undecided.decided(birth, limit),
      };
    },
    rerun(handlers, limit) {
      const page = reruns.next(handlers, limit);
      for (const event of page?.events ?? []) recent.add(event);
      return page;
    },
    turn,
    clockStepped(ms, now) {
      // Tasks that were due before the step stay due.
      session.write(() => shift.run({ ms, from: Math.min(now, now - ms) }));
      lanes.forget();
    },
    seenAt() {
      const at = session.state('run_seen');
      return at === null ? null : Number(at);
    },
    claimIsolated: (now, boot, handlers) =>
      session.write(() => {
        const isolated = isolatedTasks.get(now, JSON.stringify(handlers));
        if (!isolated) return undefined;
        session.count({ 'tasks.ready': -1, 'tasks.running': 1 });
        // Marks the lane dirty, so that the run process runs no other task of it at the same time.
        if (isolated.lane !== null) markDirty(isolated.lane);
        const watermark = BigInt(session.cursorState('watermark') ?? -1);
        return claimOne(toWaiting(isolated), {
          now,
          boot,
          watermark,
          chain: { recalled: false },
          notesOf: notes.reader(),
        });
      }),
    noteTask: notes.noteTask,
    read: notes.read,
    async complete(given, now, work) {
      const settlement: Settlement = { claim: given, state: 'done', error: null };
      const held = await session.writeAsync(async () => {
        if (!settleOne(settlement, now)) return false;
        session.count({ 'tasks.running': -1, 'tasks.done': 1, [`attempts.done.${nameOf(given.handler)}`]: 1 });
        await inTransaction(session, work);
        return true;
      });
      // The lane changes in memory only after the commit, because `work` may throw.
      if (held) freeLane(settlement, now);
      return held;
    },
  };
}

/** If the handler could not join after all, the next page brings its tasks. Decided events come in no page. */
function withoutMissed({ tasks, decided = [] }: FanOutPage, missed: Turn['missed'], behind: number | null): NewTask[] {
  if (!missed || behind === null) return tasks;
  const kept = new Set(decided);
  return tasks.filter(({ handler, event }) => handler !== missed.handler || kept.has(event));
}

/** The cursor of the task if it has ended; null: the task waits again, or has no cursor. */
function endOf({ claim, state }: Settlement): bigint | null {
  return state === 'ready' || claim.event.cursor === null ? null : BigInt(claim.event.cursor);
}

/** Null: the attempt was interrupted and does not count. */
function verdictOf(settlement: Settlement): 'done' | 'skipped' | 'dead' | 'retry' | 'deferred' | null {
  if (settlement.state !== 'ready') return settlement.state;
  if (settlement.spent ?? true) return 'retry';
  return settlement.deferredMs ? 'deferred' : null;
}
