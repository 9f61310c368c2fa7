// The lanes: which task is next in each, and when to look again. The run process keeps them in memory, so a task costs
// few writes however many wait. The file keeps what must survive: the tasks, and how far each lane has finished. Other
// processes note the lanes that they change in `dirty_lanes`, and the run process reads those again.
import { randomUUID } from 'node:crypto';
import TinyQueue from 'tinyqueue';
import type { NewTask } from '../../work.ts';
import { createStrictOrder, LOOKS, type StrictLane } from './strict-order.ts';
import type { Session } from '../session.ts';
import { createMarkDirty, toWaiting, WAITING, type Waiting, type WaitingRow } from './waiting.ts';

/** Maximum number of idle lanes in memory, kept so that new tasks find their lane by its name. */
const IDLE = 20_000;
/** A task that waits longer than this leaves memory and is read again when it is due. */
const SOON_MS = 60_000;

interface Lane extends StrictLane {
  key: string;
  handler: number;
  /** The id of the rerun that the lane belongs to. 0: the lane is for events as they arrive. */
  rerun: number;
  /** Tasks at or below this cursor are released, unless they are strict. */
  released: bigint;
  /** The highest cursor of a finished task. Tasks below it are late. */
  finished: bigint;
  /** The cursor of the running task. Null: no task of the lane runs. */
  working: bigint | null;
  /** The waiting task with the lowest cursor. If it is null and `more` is true, it must be read from the file. */
  head: Waiting | null;
  /** More tasks may wait in the file. */
  more: boolean;
  /** When to look at the lane again. Null: a task runs, nothing waits, or the watermark must rise first. */
  at: number | null;
}

/** A lane to look at, and when. The entry is stale if `lane.at` is another time by now. */
interface Entry {
  at: number;
  lane: Lane;
}
type Queue = TinyQueue<Entry>;

export interface Lanes {
  /**
   * Reads all lanes into memory, if this was not done or another process has worked with the lanes since. Call it
   * outside a transaction, because it takes a while.
   */
  load(now: number): void;
  /** Reads lanes that other processes have changed. */
  refresh(now: number): void;
  /** The id of the task's lane; a new lane is created. */
  enter(task: NewTask, name: string, now: number): number;
  /** Adds a task that was inserted into the file. */
  add(task: Waiting): void;
  /** Writes to the file that an attempt in the lane ended. `finished`: the task's cursor; null: it waits again. */
  saveFinished(lane: number, finished: bigint | null, now: number): void;
  /** Notes in memory what `saveFinished` writes. `aside`: the task had stepped aside, so the lane may run another. */
  markFinished(lane: number, finished: bigint | null, aside: boolean, now: number): void;
  /** Takes tasks that may run now: if `reruns`, those of reruns, else the others. Their lanes count as running. */
  take(handler: number, now: number, limit: number, reruns: boolean): Waiting[];
  /**
   * True if a task of the lane with a higher cursor has ended, or runs because this task kept failing and let it pass.
   * `anywhere`: this task may be in the wrong lane, so an end in any lane of its handler counts. Reruns are left out.
   */
  isLate(task: Waiting, anywhere: boolean): boolean;
  /** True for the lanes of events without a session (an account's number): one per conversation, one for the rest. */
  hasNoSession(lane: number): boolean;
  nextAt(handler: number, reruns: boolean): number | null;
  /** Follows the watermark and returns how many strict tasks still wait for it. */
  advance(now: number): number;
  /** The newest watermark for which every event below it has its tasks. */
  watermark(): bigint;
  /** Drops all lanes from memory. Call it after a rollback. */
  forget(): void;
}

export function createLanes(session: Session): Lanes {
  const { db } = session;
  const me = randomUUID();
  const enter = db.prepare<unknown[], LaneRow & { id: number }>(`
    insert into lanes (handler, name, rerun, used_at) values (?, ?, ?, ?)
    on conflict (name, handler, rerun) do update set used_at = excluded.used_at
    returning id, ${LANE}`);
  const finish = db.prepare('update lanes set finished = max(finished, ?), used_at = ? where id = ?');
  const laneOf = db.prepare<unknown[], LaneRow & { handler: number; name: string; rerun: number }>(
    `select handler, name, rerun, ${LANE} from lanes where id = ?`,
  );
  const inLane = `state = 'ready' and alone = 0`;
  const restore = db.prepare(`
    insert into lanes (id, handler, name, used_at)
    select lane, handler, 'restored ' || lane, @now from tasks where lane = @id and ${inLane} limit 1`);
  // The query skips from lane to lane: it takes as many steps as lanes, however many tasks wait in each.
  const waitingLanes = db
    .prepare<[], number>(`
    with recursive waiting (lane) as (
      select min(lane) from tasks where ${inLane}
      union all select (select min(lane) from tasks where lane > waiting.lane and ${inLane}) from waiting where lane is not null
    ) select lane from waiting where lane is not null`)
    .pluck();
  // "cross" makes SQLite start from the few claims, not from the tasks.
  const working = db.prepare<[], { lane: number; cursor: string }>(`
    select t.lane, cast(t.cursor as text) as cursor from claims c cross join tasks t on t.id = c.task where t.alone = 0`);
  const markDirty = createMarkDirty(session);
  const dirtyLanes = db.prepare<[], number>('select lane from dirty_lanes').pluck();
  const clearDirty = db.prepare('delete from dirty_lanes');
  const head = db.prepare<unknown[], WaitingRow>(
    `select ${WAITING} from tasks where lane = +? and ${inLane} order by tasks.cursor limit 1`,
  );
  // Reads from the highest cursor down, past the few held tasks, to the first released one.
  const release = db
    .prepare<unknown[], bigint>(
      `select cursor from tasks where lane = +? and ${inLane} and strict = 0 and release_at <= +? order by cursor desc limit 1`,
    )
    .pluck()
    .safeIntegers();
  const earliest = db
    .prepare<unknown[], number | null>(`select min(release_at) from tasks where lane = +? and ${inLane} and strict = 0`)
    .pluck();
  const furthest = db
    .prepare<unknown[], string>('select cast(max(finished) as text) from lanes where handler = ? and rerun = 0')
    .pluck();
  const stepAside = db.prepare('update tasks set alone = 1 where id = ?');
  const overtaken = db
    .prepare<unknown[], number>(`
    select 1 where exists (select 1 from lanes where id = @lane and finished > @cursor)
      or (@alone and exists (select 1 from claims c cross join tasks t on t.id = c.task where t.lane = @lane and t.cursor > @cursor))`)
    .pluck();

  const lanes = new Map<number, Lane>();
  const names = new Map<string, Lane>();
  /** Queues of lanes, by handler id. The queue under the negative id holds the lanes of the handler's reruns. */
  const queues = new Map<number, Queue>();
  /** By handler: the highest cursor finished in any of its lanes, once it has been read. */
  const highest = new Map<number, bigint>();
  const strictOrder = createStrictOrder(session, (id) => lanes.get(id));
  let loaded = false;
  let idleLimit = IDLE;
  let swept = session.state('lanes_swept');

  function forget(): void {
    lanes.clear();
    names.clear();
    queues.clear();
    highest.clear();
    strictOrder.forget();
    loaded = false;
  }

  function know(id: number, handler: number, name: string, rerun: number): Lane {
    const key = keyOf(handler, name, rerun);
    const none = { released: -1n, unproven: -1n, finished: -1n, working: null, head: null, awaited: null };
    const lane = lanes.get(id) ?? { id, key, handler, rerun, ...none, more: false, at: null };
    lanes.set(id, lane);
    names.set(key, lane);
    return lane;
  }

  /** Call it when a turn begins: later in the turn, an idle lane may be about to get a task. */
  function dropIdle(): void {
    const sweeps = session.state('lanes_swept');
    // A sweep may have removed lanes from the file, and their ids must not be used again.
    if (names.size <= idleLimit && sweeps === swept) return;
    swept = sweeps;
    for (const lane of lanes.values()) {
      if (waits(lane) || lane.working !== null) continue;
      lanes.delete(lane.id);
      names.delete(lane.key);
    }
    idleLimit = Math.max(IDLE, 2 * names.size);
  }

  function readAll(ids: number[], now: number): void {
    if (ids.length === 0) return;
    const cursors = new Map(working.all().map(({ lane, cursor }) => [lane, BigInt(cursor)]));
    for (const id of ids) {
      const row = laneOf.get(id);
      if (!row) {
        forgetLane(id);
        continue;
      }
      const lane = know(id, row.handler, row.name, row.rerun);
      update(lane, row);
      lane.working = cursors.get(id) ?? null;
      lane.head = null;
      lane.more = true;
      schedule(lane, now);
    }
  }

  /** Restores the rows of lanes in which tasks wait. A person may have deleted them from the file by hand. */
  function repair(ids: number[], now: number): void {
    const lost = ids.filter((id) => !laneOf.get(id));
    if (lost.length === 0) return;
    session.write(() => {
      for (const id of lost) restore.run({ id, now });
      session.count({ lanes_restored: lost.length });
    });
  }

  /** The lane was removed, so nothing waits in it. */
  function forgetLane(id: number): void {
    names.delete(lanes.get(id)?.key ?? '');
    lanes.delete(id);
  }

  function update(lane: Lane, { finished, unproven }: LaneRow): void {
    raise(lane, BigInt(finished));
    if (BigInt(unproven) > lane.unproven) lane.unproven = BigInt(unproven);
  }

  function raise(lane: Lane, finished: bigint): void {
    const most = highest.get(lane.handler);
    if (most !== undefined && lane.rerun === 0 && finished > most) highest.set(lane.handler, finished);
    if (finished > lane.finished) lane.finished = finished;
    if (finished > lane.released) lane.released = finished;
    if (finished > lane.unproven) lane.unproven = finished;
  }

  function highestOf(handler: number): bigint {
    // If this process has no lanes in memory, it does not see what others finish, so it reads the file.
    const most = (loaded ? highest.get(handler) : undefined) ?? BigInt(furthest.get(handler) ?? -1);
    highest.set(handler, most);
    return most;
  }

  function isFree(lane: Lane, cursor: bigint, strict: boolean): boolean {
    return cursor <= (strict ? lane.unproven : lane.released) || cursor <= strictOrder.watermark();
  }

  function schedule(lane: Lane, at: number | null): void {
    lane.at = lane.working === null ? at : null;
    if (lane.at !== null) queueOf(lane.handler, lane.rerun > 0).push({ at: lane.at, lane });
  }

  function queueOf(handler: number, reruns: boolean): Queue {
    const key = reruns ? -handler : handler;
    const known = queues.get(key);
    if (known) return known;
    const queue: Queue = new TinyQueue([], (a: Entry, b: Entry) => a.at - b.at);
    queues.set(key, queue);
    return queue;
  }

  /** The first entry; stale entries on the way are dropped. */
  function first(queue: Queue): Entry | undefined {
    for (;;) {
      const entry = queue.peek();
      if (!entry || (entry.lane.at === entry.at && lanes.get(entry.lane.id) === entry.lane)) return entry;
      queue.pop();
    }
  }

  /** The task whose turn it is, or when to look again. Null: nothing waits, or the watermark must rise first. */
  function look(lane: Lane, now: number): { task: Waiting } | { at: number | null } {
    for (;;) {
      if (lane.head === null && lane.more) {
        const row = head.get(lane.id);
        lane.head = row ? toWaiting(row) : null;
        lane.more = row !== undefined;
      }
      const task = lane.head;
      if (task === null || task.cursor === null) return { at: null };
      if (!isFree(lane, task.cursor, task.strict)) {
        if (task.strict) {
          strictOrder.waitFor(lane, task.cursor);
          return { at: null };
        }
        const at = releaseOf(lane, task, now);
        if (at > now) return { at };
      }
      const { dueAt } = task;
      // A strict lane goes on only when this task is done or dead.
      const holdUntil = task.strict ? null : task.holdUntil;
      if (dueAt <= now && !task.isolated) return { task };
      // Another process runs an isolated task, and marks the lane dirty at the end. Until then `holdUntil` counts.
      if (holdUntil === null || holdUntil > now)
        return { at: task.isolated ? holdUntil : Math.min(dueAt, holdUntil ?? Infinity) };
      stepAside.run(task.id);
      lane.head = null;
    }
  }

  /** Releases every task of the lane whose time has come, and all below it. Returns when the first task is released. */
  function releaseOf(lane: Lane, task: Waiting, now: number): number {
    const top = lane.more ? release.get(lane.id, now) : task.releaseAt <= now ? task.cursor : undefined;
    // The tasks that are still held arrived within the last ORDER_WINDOW_MS, so `earliest` reads few rows.
    if (top == null) return lane.more ? (earliest.get(lane.id) ?? task.releaseAt) : task.releaseAt;
    lane.released = top;
    return now;
  }

  /** Tasks that the watermark has passed need not wait for their release time. */
  function releasePassed(now: number): void {
    const hasPassed = (task: Waiting | null): boolean =>
      task?.cursor != null && task.cursor <= strictOrder.watermark() && task.dueAt <= now;
    for (const queue of queues.values()) {
      const held = queue.data.filter(({ at, lane }) => at > now && at === lane.at && hasPassed(lane.head));
      for (const { lane } of held) schedule(lane, now);
    }
  }

  return {
    load(now) {
      if (loaded && session.state('runner') === me) return;
      forget();
      // Written before the reading, so that this process notices if another one reads the lanes meanwhile.
      session.write(() => session.setState('runner', me));
      const waiting = waitingLanes.all();
      repair(waiting, now);
      readAll(waiting, now);
      loaded = true;
    },
    refresh(now) {
      dropIdle();
      const changed = dirtyLanes.all();
      if (changed.length === 0) return;
      readAll(changed, now);
      clearDirty.run();
      strictOrder.invalidate();
    },
    enter({ handler, rerun = 0 }, name, now) {
      const key = keyOf(handler, name, rerun);
      let lane = names.get(key);
      if (!lane) {
        const row = enter.get(handler, name, rerun, now) ?? { id: 0, finished: '-1', unproven: '-1' };
        lane = know(row.id, handler, name, rerun);
        update(lane, row);
      }
      return lane.id;
    },
    add(task) {
      const lane = lanes.get(task.lane ?? 0);
      if (!lane || task.cursor === null) return;
      if (lane.head === null && !lane.more) lane.head = task;
      else if (lane.head?.cursor != null && task.cursor < lane.head.cursor) {
        lane.head = task;
        lane.more = true;
      } else lane.more = true;
      const { cursor, strict } = task;
      if (strict && !isFree(lane, cursor, strict)) {
        strictOrder.add(lane, cursor, task.event);
        // A later task of the lane, made before the handler became strict, was already released.
        if (cursor <= lane.released) strictOrder.releaseUnproven(lane, cursor);
      }
      const free = isFree(lane, cursor, strict);
      if (strict && !free) {
        if (lane.head === task) strictOrder.waitFor(lane, cursor);
        return;
      }
      const at = free ? task.dueAt : task.releaseAt;
      if (lane.at === null || at < lane.at) schedule(lane, at);
    },
    saveFinished(id, finished, now) {
      if (finished !== null) finish.run(finished, now, id);
      if (!lanes.has(id)) markDirty(id);
    },
    markFinished(id, finished, aside, now) {
      const lane = lanes.get(id);
      if (!lane) return;
      if (finished !== null) {
        // The end of a task that stepped aside releases the strict tasks below it, so they are counted again.
        if (aside && finished > lane.unproven && finished > strictOrder.watermark()) strictOrder.invalidate();
        raise(lane, finished);
      }
      if (!aside) {
        lane.working = null;
        if (finished === null) lane.head = null;
        lane.more ||= finished === null;
      }
      schedule(lane, waits(lane) ? now : null);
    },
    take(handler, now, limit, reruns) {
      const tasks: Waiting[] = [];
      const queue = queueOf(handler, reruns);
      // A lane whose head is not due costs a look too, so the number of looks is limited.
      for (let looks = 0; tasks.length < limit && looks < LOOKS; looks++) {
        const entry = first(queue);
        if (!entry || entry.at > now) break;
        queue.pop();
        const { lane } = entry;
        lane.at = null;
        const found = look(lane, now);
        if ('at' in found) {
          schedule(lane, found.at);
          if (lane.head !== null && lane.head.dueAt - now > SOON_MS) [lane.head, lane.more] = [null, true];
          continue;
        }
        lane.head = null;
        lane.working = found.task.cursor;
        tasks.push(found.task);
      }
      return tasks;
    },
    isLate({ lane: id, handler, rerun, cursor, alone }, anywhere) {
      if (id === null || cursor === null) return false;
      if (anywhere && rerun === 0 && cursor < highestOf(handler)) return true;
      const lane = lanes.get(id);
      if (lane && !alone) return cursor < lane.finished;
      return overtaken.get({ lane: id, cursor, alone: alone ? 1 : 0 }) !== undefined;
    },
    hasNoSession(id) {
      const name = laneOf.get(id)?.name;
      return name === '' || name?.startsWith('/') === true;
    },
    nextAt: (handler, reruns) => (strictOrder.unfinished() ? 0 : (first(queueOf(handler, reruns))?.at ?? null)),
    advance(now) {
      const before = strictOrder.watermark();
      const unproven = strictOrder.advance((lane) => {
        if (lane.at === null || lane.at > now) schedule(lane, now);
      });
      if (strictOrder.watermark() > before) releasePassed(now);
      return unproven;
    },
    watermark: () => strictOrder.watermark(),
    forget,
  };
}

const LANE = 'cast(finished as text) as finished, cast(unproven as text) as unproven';
interface LaneRow {
  finished: string;
  unproven: string;
}

function waits(lane: Lane): boolean {
  return lane.head !== null || lane.more;
}

function keyOf(handler: number, name: string, rerun: number): string {
  return `${handler}/${rerun}/${name}`;
}
