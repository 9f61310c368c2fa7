// The side of the store that `run` works with. Claiming costs the same with a million tasks waiting, and the same
// however long the history is.
// SQLite prepares a statement again, at ten times its cost, when a value is bound that its plan might depend on; `+?`
// says that this one cannot.
import type { Counts } from '../../ingest.ts';
import type {
  Claim,
  NewTask,
  Settlement,
  SqlRow,
  SqlValue,
  StoredEvent,
  WorkStore,
  Turn,
  TurnResult,
  Tx,
} from '../../work.ts';
import { birthOf, createUndecided } from '../ingest/birth.ts';
import { gapId } from '../ingest/events.ts';
import { createHandlers } from './handlers.ts';
import { createHistory } from './attempts.ts';
import { createLanes } from './lanes.ts';
import { createRerunFeed } from '../admin/reruns.ts';
import { EVENT_COLUMNS, EVENT_TEXT, type Session, type Sync } from '../session.ts';
import { createMarkDirty, HANDLERS, toWaiting, UNCLAIMED, WAITING, type Waiting, type WaitingRow } from './waiting.ts';

export function createTaskStore(session: Session): Sync<WorkStore> {
  const { db } = session;
  const lanes = createLanes(session);

  const handlerName = db.prepare<[number], string>('select name from handlers where id = ?').pluck();
  const handlerNames = new Map<number, string>();
  const unassigned = db.prepare<unknown[], StoredEvent>(
    `select ${EVENT_COLUMNS}, ${EVENT_TEXT} from events e where e.seq > +? order by e.seq limit +?`,
  );
  const between = db.prepare<unknown[], StoredEvent>(
    `select ${EVENT_COLUMNS}, ${EVENT_TEXT} from events e where e.seq > +? and e.seq <= +? order by e.seq limit +?`,
  );
  const moveOn = db.prepare(`update state set value = ? where name = 'assigned' and value = ?`);
  const insert = db.prepare(`
    insert into tasks (id, event, handler, lane, alone, cursor, state, strict, release_at, due_at, rerun, started_at, changed_at)
    values (?, ?, ?, ?, ?, ?, 'ready', ?, ?, ?, ?, ?, ?) on conflict (id) do nothing`);
  const forgetEnd = db.prepare<unknown[], { state: 'done' | 'skipped' | 'dead'; cause: number | null }>(
    `delete from tasks where id = ? and state <> 'ready' returning state, cause`,
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
    select ${WAITING} from tasks where handler = +? and due_at <= +? and state = 'ready' and alone = 1 and isolated = 0
      and not exists (select 1 from claims where task = id) order by due_at limit +?`);
  const nextAlone = db
    .prepare<unknown[], number | null>(`
    select due_at from tasks where handler = +? and state = 'ready' and alone = 1 and isolated = 0
      and not exists (select 1 from claims where task = id) order by due_at limit 1`)
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
  const history = createHistory(session);
  const undecided = createUndecided(session);
  const isErased = db.prepare<unknown[], number>('select 1 from events where seq = ? and body is null').pluck();
  let recent = createRecent();
  let erased = session.state('erased');
  let round = 0;
  let unproven = 0;

  /** A transaction that changes lanes: what is in memory of them must not outlast one that was rolled back. */
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
    const { now, settle: settlements, assign, missed, rerun, room } = given;
    const claiming = assign !== null || missed != null || rerun != null || room > 0;
    if (claiming) lanes.load(now);
    return withLanes(() => {
      if (claiming) lanes.refresh(now);
      // What has been erased must not come back, neither from memory nor by tasks that were planned before.
      const planned = erased === (erased = session.state('erased'));
      if (!planned) recent = createRecent();
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
      const moved = assign !== null && planned && moveOn.run(BigInt(assign.upTo), BigInt(assign.from)).changes === 1;
      // What it missed first: in the order of arrival, so that nothing of it is made twice.
      const behind =
        missed && planned ? makeMissed(missed, moved || assign === null, now, add) : (missed?.from ?? null);
      if (assign && moved) undecided.assign(assign);
      if (assign && moved) add('tasks.ready', makeAll(withoutMissed(assign.tasks, missed, behind), now));
      if (rerun && reruns.moveOn(rerun.page, now)) feed(rerun, now, add);
      if (claiming) unproven = lanes.prove(now);
      const { claims, nextAt } = claimUpTo(given);
      add('tasks.ready', -claims.length);
      add('tasks.running', claims.length);
      session.count(counts);
      return { claims, fenced, nextAt, unproven, behind };
    });
  }

  /** A handler's name never changes. */
  function nameOf(handler: number): string {
    const name = handlerNames.get(handler) ?? handlerName.get(handler) ?? '';
    handlerNames.set(handler, name);
    return name;
  }

  /** False when the claim no longer holds: another process has been given the task. */
  function settleOne(settlement: Settlement, now: number): boolean {
    const { claim, spent = true } = settlement;
    if (giveUp.run(claim.task, claim.attempt, claim.boot).changes === 0) return false;
    // Erased while it was at work: its error may quote what was.
    const error = settlement.error !== null && isErased.get(claim.event.seq) ? 'erased' : settlement.error;
    const late = claim.late ? 1 : 0;
    const attempts = spent ? claim.attempt : claim.attempt - 1;
    // What a drain gives back was no attempt.
    if (spent || settlement.state !== 'ready' || settlement.deferredMs)
      history.ended(claim, settlement.state, error, now);
    if (settlement.state === 'ready') {
      const { dueAt, holdMs, deferredMs = 0 } = settlement;
      const holdUntil = holdMs === null ? null : now + holdMs;
      postpone.run(error, dueAt, holdUntil, attempts, deferredMs, claim.startedAt, claim.task);
    } else end.run(settlement.state, error, attempts, late, claim.startedAt, now, claim.task);
    if (settlement.state === 'done' && claim.event.type === 'kit.gap') closeGap.run(now, claim.handler, claim.event.id);
    if (claim.lane !== null) lanes.leave(claim.lane, endOf(settlement), now);
    return true;
  }

  function freeLane(settlement: Settlement, now: number): void {
    const { lane, alone: aside } = settlement.claim;
    if (lane !== null) lanes.left(lane, endOf(settlement), aside, now);
  }

  function makeAll(tasks: NewTask[], now: number): number {
    return tasks.filter((task) => make(task, now)).length;
  }

  /** How far the handler is now; null where it has joined the others. */
  function makeMissed(
    { handler, from, upTo, joins, tasks }: NonNullable<Turn['missed']>,
    together: boolean,
    now: number,
    add: (name: keyof Counts, by: number) => void,
  ): number | null {
    const to = joins && together ? null : upTo;
    if (!registry.moveOn(handler, from, to)) return from;
    add('tasks.ready', makeAll(tasks, now));
    return to;
  }

  /** What has ended begins anew; what waits or is at work is left as it is. */
  function feed(
    { page, tasks }: NonNullable<Turn['rerun']>,
    now: number,
    add: (name: keyof Counts, by: number) => void,
  ): void {
    let made = 0;
    let gone = 0;
    for (const task of tasks) {
      // Pruned since the page was read.
      if (!isWhole.get(task.event)) {
        gone++;
        continue;
      }
      const was = forgetEnd.get(task.event * HANDLERS + task.handler);
      if (was) add(`tasks.${was.state}`, -1);
      if (was?.cause != null) history.left(was.cause, 1);
      if (make(task, now)) made++;
    }
    add('tasks.ready', made);
    reruns.count(page.id, made, tasks.length - made - gone, gone);
  }

  /** False where the handler has a task of this event. */
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
    if (!free) lanes.add({ id, event, handler, lane, alone: false, cursor, strict, releaseAt, dueAt, ...fresh });
    return true;
  }

  /** Handlers take turns, so that the backlog of one does not keep another waiting; reruns take what is left. */
  function claimUpTo({ room, handlers, limits, reruns: most = room, now, boot }: Turn) {
    const claims: Claim[] = [];
    const watermark = lanes.watermark();
    const left = new Map(limits);
    round++;
    function share(places: number, pick: (handler: number, share: number) => Waiting[]): void {
      const upTo = claims.length + places;
      for (const index of places > 0 ? handlers.keys() : []) {
        const handler = handlers[(index + round) % handlers.length] ?? 0;
        const limit = left.get(handler);
        const fair = Math.ceil((upTo - claims.length) / (handlers.length - index));
        const tasks = pick(handler, Math.min(fair, limit ?? fair));
        if (limit !== undefined) left.set(handler, limit - tasks.length);
        for (const task of tasks) claims.push(claimOne(task, now, boot, watermark));
      }
    }
    share(room, (handler, places) => {
      // Half for those in no lane, half for the lanes; what one half leaves is the other's. An odd place alternates.
      const half = Math.floor((places + (round % 2)) / 2);
      const singles = alone.all(handler, now, places);
      const heads = lanes.take(handler, now, places - Math.min(singles.length, half), false);
      return [...singles.slice(0, places - heads.length).map(toWaiting), ...heads];
    });
    const before = claims.length;
    share(Math.min(room - before, most), (handler, places) => lanes.take(handler, now, places, true));
    const free = handlers.filter((handler) => left.get(handler) !== 0);
    return { claims, nextAt: whenDue(free, claims.length - before < most) };
  }

  function claimOne(task: Waiting, now: number, boot: number, watermark: bigint): Claim {
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
    };
  }

  /** Recovered without its session, and in the lane of those: a webhook may have named the session since. */
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
      lanes.nextAt(handler, false),
      withReruns ? lanes.nextAt(handler, true) : null,
      nextAlone.get(handler) ?? null,
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
    setup: (work) => session.write(() => inTransaction(session, work)),
    unassigned(limit) {
      const from = Number(session.state('assigned'));
      const events = unassigned.all(from, limit);
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
      // What was due before the step stays due.
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
        // So that nothing of its lane is run beside it.
        if (isolated.lane !== null) markDirty(isolated.lane);
        return claimOne(toWaiting(isolated), now, boot, BigInt(session.cursorState('watermark') ?? -1));
      }),
    complete(given, now, work) {
      const settlement: Settlement = { claim: given, state: 'done', error: null };
      const held = session.write(() => {
        if (!settleOne(settlement, now)) return false;
        session.count({ 'tasks.running': -1, 'tasks.done': 1, [`attempts.done.${nameOf(given.handler)}`]: 1 });
        inTransaction(session, work);
        return true;
      });
      // Once it is certain: the work may have thrown.
      if (held) freeLane(settlement, now);
      return held;
    },
  };
}

/**
 * Events that tasks were just made of are about to be claimed: they need not be read twice. Large ones are left to the
 * file, so that this holds a few thousand of the usual size at the most; each only until the last of its tasks is claimed,
 * as what lives on for no reason is copied again and again by the collector.
 */
function createRecent() {
  const slots: ({ event: StoredEvent; tasks: number } | undefined)[] = Array.from({ length: 4_096 }, () => undefined);
  const find = (seq: number) => {
    const known = slots[seq % slots.length];
    return known?.event.seq === seq ? known : undefined;
  };
  return {
    add(event: StoredEvent): void {
      if ((event.text?.length ?? 0) > 4_096) return;
      slots[event.seq % slots.length] = { event, tasks: 0 };
    },
    /** A task was made of it. */
    await(seq: number): void {
      const known = find(seq);
      if (known) known.tasks++;
    },
    take(seq: number): StoredEvent | undefined {
      const known = find(seq);
      if (known && --known.tasks <= 0) slots[seq % slots.length] = undefined;
      return known?.event;
    },
  };
}

/** Where its handler could not join after all, the next page holds them. */
function withoutMissed(tasks: NewTask[], missed: Turn['missed'], behind: number | null): NewTask[] {
  return missed && behind !== null ? tasks.filter(({ handler }) => handler !== missed.handler) : tasks;
}

/** The cursor that has ended; null where the task waits again, or has none. */
function endOf({ claim, state }: Settlement): bigint | null {
  return state === 'ready' || claim.event.cursor === null ? null : BigInt(claim.event.cursor);
}

/** Null where it was given back. */
function verdictOf(settlement: Settlement): 'done' | 'skipped' | 'dead' | 'retry' | 'deferred' | null {
  if (settlement.state !== 'ready') return settlement.state;
  if (settlement.spent ?? true) return 'retry';
  return settlement.deferredMs ? 'deferred' : null;
}

/** A promise would write after the commit, outside of it. */
function inTransaction(session: Session, work: (tx: Tx) => unknown): void {
  const open = { yes: true };
  try {
    const made = work(txOf(session, open)) as { then?: unknown } | undefined;
    if (typeof made?.then === 'function') throw new Error('writes must be synchronous: the function must not be async');
    if (!session.db.inTransaction) throw new Error('a statement has ended the transaction');
  } finally {
    open.yes = false;
  }
}

/** As the migrations make them. */
const TABLES =
  'events|aliases|seen_by_origin|types|arrivals|conflicts|redeliveries|quarantine|gaps|handlers|lanes|dirty_lanes|tasks|claims|dead_groups|attempts|reruns|processes|alarms|samples|counters|state';
const STEERING =
  /^(\s|--[^\n]*\n|\/\*.*?\*\/)*(begin|commit|end|rollback|savepoint|release|pragma\s[^;]*[=(]|attach|detach|vacuum|reindex)/is;
/** Against slips, not against malice: a handler has the file in its hands anyway. */
const OWN = new RegExp(
  String.raw`\b(into|update|update\s+or\s+\w+|delete\s+from|(drop|alter)\s+(table|index)(\s+if\s+exists)?)\s+["'\`[]?(main\s*\.\s*)?["'\`[]?(${TABLES})\b`,
  'i',
);

function txOf({ db }: Session, open: { yes: boolean }): Tx {
  function prepare(sql: string) {
    if (!open.yes) throw new Error('this transaction has ended');
    if (STEERING.test(sql))
      throw new Error('a handler neither steers transactions nor the connection: leave this statement out');
    if (OWN.test(sql)) throw new Error('the tables of the kit are only read by handlers: write to tables of your own');
    return db.prepare<SqlValue[], SqlRow>(sql);
  }
  return {
    run: (sql, ...values) => ({ changes: prepare(sql).run(...values).changes }),
    get: (sql, ...values) => prepare(sql).get(...values),
    all: (sql, ...values) => prepare(sql).all(...values),
  };
}
