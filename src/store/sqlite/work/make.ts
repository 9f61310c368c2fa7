// Makes the tasks of new events, of events that a handler missed, and of reruns.
import type { Counts } from '../../state.ts';
import type { Waiting } from '../../lanes/waiting.ts';
import type { FanOutPage, NewTask, Turn } from '../../work.ts';
import { createBulkInsert } from '../bulk.ts';
import { createUndecided } from '../ingest/birth.ts';
import type { Session } from '../session.ts';
import { createAttempts } from './attempts.ts';
import { createHandlers } from './handlers.ts';
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
  const { db } = session;
  const insert = createBulkInsert(db, {
    into: 'insert into tasks (id, event, handler, lane, alone, cursor, state, strict, release_at, due_at, rerun, started_at, changed_at)',
    row: `(?, ?, ?, ?, ?, ?, 'ready', ?, ?, ?, ?, ?, ?)`,
    conflict: 'on conflict (id) do nothing',
  });
  const forgetEnd = db.prepare<unknown[], { state: 'done' | 'skipped' | 'dead'; deadGroup: number | null }>(
    `delete from tasks where id = ? and state <> 'ready' returning state, dead_group as deadGroup`,
  );
  const isWhole = session.value<number>('select 1 from events where seq = ? and body is not null');
  const attemptLog = createAttempts(session);

  /** Makes tasks, one by one because a handler may already have a task of the event. Returns how many are new. */
  function makeAll(tasks: NewTask[], now: number): number {
    return tasks.filter((task) => makeThese([task], now) === 1).length;
  }

  /** Makes the tasks of new events. Events that were decided late may already have tasks. */
  function makeNew({ tasks, decided = [] }: FanOutPage, now: number): number {
    const late = new Set(decided);
    const fresh = tasks.filter(({ event }) => !late.has(event));
    const others = tasks.filter(({ event }) => late.has(event));
    if (makeThese(fresh, now) !== fresh.length) throw new Error('a new event already has a task');
    return fresh.length + makeAll(others, now);
  }

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
      made += makeThese([task], now);
    }
    add('tasks.ready', made);
    reruns.count(page.id, made, tasks.length - made - gone, gone);
  }

  /** Either all of these tasks are new, or none is. Returns how many. */
  function makeThese(tasks: NewTask[], now: number): number {
    const waiting = tasks.map((task) => toWaiting(task, now));
    const written = insert(
      waiting.map(({ id, event, handler, lane, alone, cursor, strict, releaseAt, dueAt, rerun }) => {
        const flags = [alone ? 1 : 0, cursor, strict ? 1 : 0];
        return [id, event, handler, lane, ...flags, releaseAt, dueAt, rerun, now, now];
      }),
    );
    for (const task of written > 0 ? waiting : []) {
      onTask(task.event);
      if (!task.alone) lanes.core.add(task);
    }
    return written;
  }

  function toWaiting(task: NewTask, now: number): Waiting {
    const { event, handler, releaseAt, strict = false, rerun = 0 } = task;
    const lane = task.lane === null || task.cursor === null ? null : lanes.enter(task, task.lane, now);
    const cursor = task.cursor === null ? null : BigInt(task.cursor);
    const alone = lane === null;
    const untried = { holdUntil: null, isolated: false, attempts: 0, deferred: 0, error: null };
    const times = { releaseAt, dueAt: alone ? releaseAt : now };
    return { id: event * HANDLERS + handler, event, handler, lane, alone, cursor, strict, ...times, rerun, ...untried };
  }

  return { makeNew, makeMissed, feed };
}
