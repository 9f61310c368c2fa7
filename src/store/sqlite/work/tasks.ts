// The work role of the store. A claim costs the same with a million waiting tasks or a long history. In SQL, `+?` tells
// SQLite that the plan does not depend on the bound value. Otherwise SQLite would prepare the statement again, at ten
// times its cost.
import type { Counts } from '../../state.ts';
import { countsOf } from '../../settlement.ts';
import { withoutMissed } from '../../missed.ts';
import type { Settlement, StoredEvent, WorkStore, Turn, TurnResult } from '../../work.ts';
import { birthOf, createUndecided } from '../ingest/birth.ts';
import { createHandlers } from './handlers.ts';
import { createClaim } from './claim.ts';
import { createLanes } from './lanes.ts';
import { createMake } from './make.ts';
import { createSettle } from './settle.ts';
import { createRerunFeed } from './reruns.ts';
import { EVENT_COLUMNS, EVENT_TEXT, type Session, type Sync } from '../session.ts';
import { createRecentEvents } from './recent-events.ts';
import { createNotes } from './notes.ts';
import { inTransaction } from './tx.ts';
import { createMarkDirty, toWaiting, NEXT, WAITING, type WaitingRow } from './waiting.ts';

/** Methods that call a handler's work, which may await its `tx`. */
export type Completing = 'complete' | 'setup';

export function createWorkStore(session: Session): Sync<Omit<WorkStore, Completing>> & Pick<WorkStore, Completing> {
  const { db } = session;
  const lanes = createLanes(session);

  const between = db.prepare<unknown[], StoredEvent>(
    `select ${EVENT_COLUMNS}, ${EVENT_TEXT} from events e where e.seq > +? and e.seq <= +? order by e.seq limit +?`,
  );
  const moveOn = db.prepare(`update state set value = ? where name = 'fanned_out' and value = ?`);
  const isolatedTasks = db.prepare<unknown[], WaitingRow>(`
    select ${WAITING} from tasks where state = 'ready' and isolated = 1 and due_at <= ?
      and handler in (select value from json_each(?)) and ${NEXT}
    order by due_at limit 1`);
  const shift = db.prepare(`
    update tasks set release_at = release_at + @ms, due_at = due_at + @ms, hold_until = hold_until + @ms
    where state = 'ready' and max(release_at, due_at, coalesce(hold_until, 0)) > @from`);
  const markDirty = createMarkDirty(session);
  const registry = createHandlers(session);
  const reruns = createRerunFeed(session);
  const undecided = createUndecided(session);
  const notes = createNotes(session);
  let recent = createRecentEvents();
  const { nameOf, settleAll, settleOne, freeLane } = createSettle(session, lanes);
  const onTask = (event: number): void => recent.await(event);
  const { makeNew, makeMissed, feed } = createMake(session, { lanes, registry, reruns, undecided, onTask });
  const { claimUpTo, claimAll } = createClaim(session, { lanes, notes, recent: (event) => recent.take(event) });
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

  function turn(asked: Turn): TurnResult {
    const { now, settle: settlements, fanOut, missed, rerun, room } = asked;
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
      const settled = settleAll(settlements, now);
      for (const settlement of settled) freeLane(settlement, now);
      session.count(countsOf(settled, nameOf));
      const fenced = settlements.length - settled.length;
      add('fenced', fenced);
      if (claiming) undecided.giveUp();
      const moved = fanOut !== null && planned && moveOn.run(BigInt(fanOut.upTo), BigInt(fanOut.from)).changes === 1;
      // Missed events come first, in order of arrival, so that no task is made twice.
      const behind =
        missed && planned ? makeMissed(missed, moved || fanOut === null, now, add) : (missed?.from ?? null);
      if (fanOut && moved) undecided.fanOut(fanOut);
      if (fanOut && moved)
        add('tasks.ready', makeNew({ ...fanOut, tasks: withoutMissed(fanOut, missed, behind) }, now));
      if (rerun && reruns.moveOn(rerun.page, now)) feed(rerun, now, add);
      if (claiming) unproven = lanes.advance(now);
      const { claims, nextAt } = claimUpTo(asked);
      add('tasks.ready', -claims.length);
      add('tasks.running', claims.length);
      session.count(counts);
      return { claims, fenced, nextAt, unproven, behind };
    });
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
    setup: (work) => session.writeAsync(() => inTransaction(db, work)),
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
        const taken = [{ task: toWaiting(isolated), chain: { recalled: false } }];
        return claimAll(taken, { now, boot, watermark, notesOf: notes.reader() })[0];
      }),
    noteTask: notes.noteTask,
    read: notes.read,
    async complete(given, now, work) {
      const settlement: Settlement = { claim: given, state: 'done', error: null };
      const held = await session.writeAsync(async () => {
        if (!settleOne(settlement, now)) return false;
        session.count(countsOf([settlement], nameOf));
        await inTransaction(db, work);
        return true;
      });
      // The lane changes in memory only after the commit, because `work` may throw.
      if (held) freeLane(settlement, now);
      return held;
    },
  };
}
