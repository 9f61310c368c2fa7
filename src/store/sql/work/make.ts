// Makes the tasks of new events, of events that a handler missed, and of reruns.
import { addTo, type Counts } from '../../state.ts';
import type { Waiting } from '../../lanes/waiting.ts';
import type { FanOutPage, NewTask, Turn } from '../../work.ts';
import type { createUndecided } from '../ingest/birth.ts';
import type { Session } from '../session.ts';
import { createAttempts } from './attempts.ts';
import type { createHandlers } from './handlers.ts';
import type { Lanes } from './lanes.ts';
import type { createRerunFeed } from './reruns.ts';
import { HANDLERS } from './waiting.ts';

export interface Makers {
  lanes: Lanes;
  registry: ReturnType<typeof createHandlers>;
  reruns: ReturnType<typeof createRerunFeed>;
  undecided: ReturnType<typeof createUndecided>;
  /** Called when an event has a task, which will need the event. */
  onTask: (event: number) => void;
}

export function createMake(session: Session, { lanes, registry, reruns, undecided, onTask }: Makers) {
  const { oneOf } = session.dialect;
  const insert = session.insertAll({
    into: 'tasks',
    columns: {
      ...{ id: 'bigint', event: 'bigint', handler: 'bigint', lane: 'bigint', alone: 'bigint', cursor: 'bigint' },
      ...{ state: 'text', strict: 'bigint', release_at: 'bigint', due_at: 'bigint', rerun: 'bigint' },
      ...{ started_at: 'bigint', changed_at: 'bigint' },
    },
    conflict: 'on conflict (id) do nothing',
  });
  const known = session.value<number>(`select id from tasks where id ${oneOf('?', 'bigint')}`);
  const forgetEnded = session.statement<{ state: 'done' | 'skipped' | 'dead'; deadGroup: number | null }>(
    `delete from tasks where id ${oneOf('?', 'bigint')} and state <> 'ready' returning state, dead_group as "deadGroup"`,
  );
  const whole = session.value<number>(`select seq from events where seq ${oneOf('?', 'bigint')} and body is not null`);
  const attemptLog = createAttempts(session);

  /** Makes tasks, leaving out those that the handler already has. Returns how many are new. */
  async function makeAll(tasks: NewTask[], now: number, counts: Counts): Promise<number> {
    if (tasks.length === 0) return 0;
    const there = new Set(await known.all(tasks.map(idOf)));
    const fresh = tasks.filter((task) => !there.has(idOf(task)));
    return makeThese([...new Map(fresh.map((task) => [idOf(task), task])).values()], now, counts);
  }

  /** Makes the tasks of new events. Events that were decided late may already have tasks. */
  async function makeNew({ tasks, decided = [] }: FanOutPage, now: number, counts: Counts): Promise<void> {
    const late = new Set(decided);
    const fresh = tasks.filter(({ event }) => !late.has(event));
    const others = tasks.filter(({ event }) => late.has(event));
    if ((await makeThese(fresh, now, counts)) !== fresh.length) throw new Error('a new event already has a task');
    await makeAll(others, now, counts);
  }

  async function makeMissed(
    { handler, from, upTo, joins, tasks, owed = [] }: NonNullable<Turn['missed']>,
    together: boolean,
    now: number,
    counts: Counts,
  ): Promise<number | null> {
    const to = joins && together ? null : upTo;
    if (!(await registry.moveOn(handler, from, to))) return from;
    await undecided.give(handler, owed);
    await makeAll(tasks, now, counts);
    return to;
  }

  /** Makes the tasks of a page of a rerun. Ended tasks begin anew; waiting and running tasks stay as they are. */
  async function feed({ page, tasks }: NonNullable<Turn['rerun']>, now: number, counts: Counts): Promise<void> {
    // An event may have been pruned, or have lost its body, after the page was read.
    const there = new Set(await whole.all(tasks.map(({ event }) => event)));
    const rest = tasks.filter(({ event }) => there.has(event));
    for (const { state, deadGroup } of await forgetEnded.all(rest.map(idOf))) {
      addTo(counts, `tasks.${state}`, -1);
      if (deadGroup !== null) await attemptLog.leaveGroup(deadGroup, 1);
    }
    const made = await makeAll(rest, now, counts);
    await reruns.count(page.id, made, rest.length - made, tasks.length - rest.length);
  }

  /** Either all of these tasks are new, or none is. Returns how many. */
  async function makeThese(tasks: NewTask[], now: number, counts: Counts): Promise<number> {
    if (tasks.length === 0) return 0;
    const nameOf = await registry.namesOf(tasks.map(({ handler }) => handler));
    await lanes.enter(tasks, now);
    const waiting = tasks.map((task) => toWaiting(task, now));
    const written = await insert(
      waiting.map(({ id, event, handler, lane, alone, cursor, strict, releaseAt, dueAt, rerun }) => {
        const place = [id, event, handler, lane, alone ? 1 : 0, cursor];
        return [...place, 'ready', strict ? 1 : 0, releaseAt, dueAt, rerun, now, now];
      }),
    );
    for (const task of written > 0 ? waiting : []) {
      addTo(counts, 'tasks.ready', 1);
      addTo(counts, `waiting.${nameOf(task.handler)}`, 1);
      onTask(task.event);
      if (!task.alone) lanes.core.add(task);
    }
    return written;
  }

  function toWaiting(task: NewTask, now: number): Waiting {
    const { event, handler, releaseAt, strict = false, rerun = 0 } = task;
    const lane = task.lane === null || task.cursor === null ? null : lanes.idOf(task);
    const cursor = task.cursor === null ? null : BigInt(task.cursor);
    const alone = lane === null;
    const untried = { holdUntil: null, isolated: false, attempts: 0, deferred: 0, error: null };
    const times = { releaseAt, dueAt: alone ? releaseAt : now };
    return { id: idOf(task), event, handler, lane, alone, cursor, strict, ...times, rerun, ...untried };
  }

  return { makeNew, makeMissed, feed };
}

function idOf({ event, handler }: NewTask): number {
  return event * HANDLERS + handler;
}
