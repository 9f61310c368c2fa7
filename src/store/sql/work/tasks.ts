// The work role of the store. A claim costs the same with a million waiting tasks or a long history. In SQL, `+?` tells
// SQLite that the plan does not depend on the bound value. Otherwise SQLite would prepare the statement again, at ten
// times its cost.
import { addTo } from '../../state.ts';
import { withoutMissed } from '../../missed.ts';
import type { Settlement, SetupStep, StoredEvent, WorkStore, Turn, TurnResult } from '../../work.ts';
import { birthOf, createUndecided } from '../ingest/birth.ts';
import { createHandlers } from './handlers.ts';
import { createClaim } from './claim.ts';
import { createLanes } from './lanes.ts';
import { createMake } from './make.ts';
import { createSettle } from './settle.ts';
import { createRerunFeed } from './reruns.ts';
import { EVENT_COLUMNS, toStored, together, type EventRow, type Lock, type Session } from '../session.ts';
import { createRecentEvents } from './recent-events.ts';
import { createNotes } from './notes.ts';
import { inTransaction, selected } from './tx.ts';
import { createMarkDirty, isolatedOf, toWaiting, WAITING, type WaitingRow } from './waiting.ts';

// oxlint-disable-next-line max-lines-per-function -- one statement each, beside the method that runs it
export function createWorkStore(session: Session): WorkStore {
  const { oneOf, eventText } = session.dialect;
  const lanes = createLanes(session);

  const between = session.statement<EventRow>(
    `select ${EVENT_COLUMNS}, ${eventText} from events e where e.seq > +? and e.seq <= +? order by e.seq limit +?`,
  );
  const moveOn = session.statement(
    `update state set value = ? where name = 'fanned_out' and cast(value as bigint) = cast(? as bigint)`,
  );
  const isolatedTasks = session.statement<WaitingRow>(`
    select ${WAITING} from tasks where ${isolatedOf(oneOf('?', 'bigint'))} order by due_at limit 1`);
  const shift = session.statement(`
    update tasks set release_at = release_at + @ms, due_at = due_at + @ms, hold_until = hold_until + @ms
    where state = 'ready' and (release_at > @from or due_at > @from or hold_until > @from)`);
  const unknownClaims = session.value<number>(
    `delete from claims where boot = @boot and not (task ${oneOf('@known', 'bigint')}) returning task`,
  );
  const steps = session.statement<SetupStep>('select handler, step, digest from setup_steps order by handler, step');
  const remember = session.statement(
    'insert into setup_steps values (@handler, @step, @digest, @now) on conflict (handler, step) do nothing',
  );
  const markDirty = createMarkDirty(session);
  const registry = createHandlers(session);
  const reruns = createRerunFeed(session);
  const undecided = createUndecided(session);
  const notes = createNotes(session, (sql, values) => selected(session.own, sql, values));
  let recent = createRecentEvents();
  const { countsFor, settleAll, settleOne, freeLane } = createSettle(session, lanes, registry);
  const onTask = (event: number): void => recent.await(event);
  const { makeNew, makeMissed, feed } = createMake(session, { lanes, registry, reruns, undecided, onTask });
  const { claimUpTo, claimAll } = createClaim(session, { lanes, notes, recent: (event) => recent.take(event) });
  /** Undefined: not read yet. */
  let erased: number | undefined;
  let unproven = 0;
  /** The tasks that this process has claimed and not settled. */
  const known = new Set<number>();
  /** The connection may have ended while a turn was committed, so its claims may be in the store. */
  let doubtful = false;

  /** A transaction that changes lanes. After a rollback the lanes in memory are dropped. */
  async function withLanes<Result>(work: () => Promise<Result>, ...locks: Lock[]): Promise<Result> {
    let begun = false;
    try {
      return await session.write(
        async () => {
          begun = true;
          return work();
        },
        ...locks,
      );
    } catch (error) {
      if (begun) lanes.forget();
      doubtful = true;
      throw error;
    }
  }

  /** Gives back claims of this process that it does not know. */
  async function dropDoubtful(boot: number): Promise<void> {
    if (!doubtful) return;
    const dropped = await unknownClaims.all({ boot, known: [...known] });
    await session.count({ 'tasks.running': -dropped.length, 'tasks.ready': dropped.length });
    doubtful = false;
  }

  async function eventsBetween(after: number, upTo: number, limit: number): Promise<StoredEvent[]> {
    erased ??= Number(await session.state('erased'));
    const events = (await between.all(after, upTo, limit)).map(toStored);
    for (const event of events) recent.add(event);
    return events;
  }

  async function turn(asked: Turn): Promise<TurnResult> {
    const { now, settle: settlements, fanOut, missed, rerun, room } = asked;
    const claiming = fanOut !== null || missed != null || rerun != null || room > 0;
    if (claiming) await lanes.load(now);
    const result = await withLanes(
      async () => {
        const [erasures, handlers] = await together(
          session.state('erased'),
          registry.unpaused(asked.handlers),
          claiming ? lanes.refresh(now) : lanes.settles(),
          claiming && dropDoubtful(asked.boot),
        );
        // Erased events must not come back from memory, or from tasks that were planned before the erasure.
        const before = erased;
        const after = Number(erasures);
        erased = after;
        const planned = before === undefined || before === after;
        if (!planned) recent = createRecentEvents();
        const [settled, moved] = await together(
          settleAll(settlements, now),
          fanOut !== null && planned && moveOn.run(BigInt(fanOut.upTo), BigInt(fanOut.from)).then((rows) => rows === 1),
          claiming && undecided.giveUp(),
        );
        for (const settlement of settled) freeLane(settlement, now);
        const counts = await countsFor(settled);
        const fenced = settlements.length - settled.length;
        addTo(counts, 'fenced', fenced);
        // Missed events come first, in order of arrival, so that no task is made twice.
        const behind =
          missed && planned ? await makeMissed(missed, moved || fanOut === null, now, counts) : (missed?.from ?? null);
        if (fanOut && moved) {
          const fresh = { ...fanOut, tasks: withoutMissed(fanOut, missed, behind) };
          await together(makeNew(fresh, now, counts), undecided.fanOut(fanOut));
        }
        if (rerun && (await reruns.moveOn(rerun.page, now))) await feed(rerun, now, counts);
        if (claiming) unproven = await lanes.advance(now);
        const { claims, nextAt } = await claimUpTo({ ...asked, handlers });
        addTo(counts, 'tasks.ready', -claims.length);
        addTo(counts, 'tasks.running', claims.length);
        await session.count(counts);
        return { claims, fenced, nextAt, unproven, behind };
      },
      ...(claiming ? (['turn', 'lead'] as const) : (['turn'] as const)),
    );
    for (const { claim } of settlements) known.delete(claim.task);
    for (const { task } of result.claims) known.add(task);
    return result;
  }

  return {
    register: (names, files) => registry.register(names, files),
    idsOf: (names) => registry.idsOf(names),
    behind: () => registry.behind(),
    missed: eventsBetween,
    owed: (handler, limit) => undecided.owed(handler, limit),
    setup: (work, step) =>
      session.write(async () => {
        if (!step || (await remember.run(step)) === 1) await inTransaction(session, work);
      }, 'work'),
    steps: () => steps.all(),
    async pending(limit) {
      const [birth, fannedOut, watermark] = await together(
        birthOf(session),
        session.state('fanned_out'),
        session.cursorState('watermark'),
      );
      const from = Number(fannedOut);
      const [events, decided] = await together(
        eventsBetween(from, Number.MAX_SAFE_INTEGER, limit),
        undecided.decided(birth, limit),
      );
      return { from, watermark, birth, events, decided };
    },
    async rerun(handlers, limit) {
      const page = await reruns.next(handlers, limit);
      for (const event of page?.events ?? []) recent.add(event);
      return page;
    },
    turn,
    async clockStepped(ms, now) {
      // Tasks that were due before the step stay due.
      await session.write(() => shift.run({ ms, from: Math.min(now, now - ms) }), 'work');
      lanes.forget();
    },
    async seenAt() {
      const at = await session.state('run_seen');
      return at === null ? null : Number(at);
    },
    claimIsolated: (now, boot, handlers) =>
      session.write(
        async () => {
          const isolated = await isolatedTasks.get(now, await registry.unpaused(handlers));
          if (!isolated) return undefined;
          await session.count({ 'tasks.ready': -1, 'tasks.running': 1 });
          // Marks the lane dirty, so that the run process runs no other task of it at the same time.
          if (isolated.lane !== null) await markDirty([isolated.lane]);
          const watermark = BigInt((await session.cursorState('watermark')) ?? -1);
          const taken = [{ task: toWaiting(isolated), chain: { recalled: false } }];
          return (await claimAll(taken, { now, boot, watermark }))[0];
        },
        'work',
        'lead',
      ),
    noteTask: notes.noteTask,
    read: notes.read,
    async complete(given, now, work) {
      const settlement: Settlement = { claim: given, state: 'done', error: null };
      const held = await session.write(async () => {
        const [settled] = await together(settleOne(settlement, now), lanes.settles());
        if (!settled) return false;
        await together(session.count(await countsFor([settlement])), inTransaction(session, work));
        return true;
      }, 'turn');
      // The lane changes in memory only after the commit, because `work` may throw.
      if (held) freeLane(settlement, now);
      known.delete(given.task);
      return held;
    },
  };
}
