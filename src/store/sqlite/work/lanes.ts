// The lanes: whose turn it is in each, and when to look again. The process that runs handlers keeps them in memory, so
// that a task costs few writes however many wait; the file holds what must outlast it: the tasks, and how far each lane
// has finished. What others change they note in `dirty_lanes`, and what this process knows of those lanes it reads again.
import { randomUUID } from 'node:crypto';
import TinyQueue from 'tinyqueue';
import type { NewTask } from '../../work.ts';
import { createProof, LOOKS, type Proving } from './strict-order.ts';
import type { Session } from '../session.ts';
import { createMarkDirty, toWaiting, WAITING, type Waiting, type WaitingRow } from './waiting.ts';

/** Lanes in which nothing waits, kept for their names. */
const IDLE = 20_000;
/** A task that waits for longer than this is read again when its time comes. */
const SOON_MS = 60_000;

interface Lane extends Proving {
  key: string;
  handler: number;
  /** 0: of events as they come. */
  rerun: number;
  /** Everything at or below it may run, but for strict tasks. */
  released: bigint;
  /** Everything below it is late. */
  finished: bigint;
  /** The cursor at work. */
  working: bigint | null;
  /** The waiting task with the lowest cursor; where it is null, the file knows it if `more`. */
  head: Waiting | null;
  /** Others may wait that only the file knows. */
  more: boolean;
  /** When to look again; null: while it works, or when nothing waits. */
  at: number | null;
}

/** A lane to look at; out of date where the lane says another time by now. */
interface Entry {
  at: number;
  lane: Lane;
}
type Queue = TinyQueue<Entry>;

export interface Lanes {
  /** Outside of a transaction, as reading all lanes takes a while: where another process has worked with them meanwhile. */
  load(now: number): void;
  /** Reads what others have changed. */
  refresh(now: number): void;
  /** The id of the task's lane, which is made if it is new. */
  enter(task: NewTask, name: string, now: number): number;
  /** The new task is in the file. */
  add(task: Waiting): void;
  /** In the file: the task at work is back; `finished` is its cursor where it ended, null where it waits again. */
  leave(lane: number, finished: bigint | null, now: number): void;
  /** In memory, the same; `aside`: it had stepped aside, and the lane may be at another. */
  left(lane: number, finished: bigint | null, aside: boolean, now: number): void;
  /** Tasks whose turn it is, of reruns or of events as they come; their lanes are at work from now on. */
  take(handler: number, now: number, limit: number, reruns: boolean): Waiting[];
  /**
   * A later task of the lane has ended, or is at work because this one stepped aside. `anywhere`: its lane is not known for
   * sure, so that a later one of its handler counts.
   */
  isLate(task: Waiting, anywhere: boolean): boolean;
  /** By its name: the account's lane, or that of a conversation of an unknown session. */
  hasNoSession(lane: number): boolean;
  nextAt(handler: number, reruns: boolean): number | null;
  /** Goes on with what replay has proved since; returns how many strict tasks still wait for it. */
  prove(now: number): number;
  /** As far as it counts: what was stored when it got there has become tasks. */
  watermark(): bigint;
  /** After a transaction that was rolled back. */
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
  // From one lane to the next: as many steps as there are lanes, however many tasks wait in each.
  const waitingLanes = db
    .prepare<[], number>(`
    with recursive waiting (lane) as (
      select min(lane) from tasks where ${inLane}
      union all select (select min(lane) from tasks where lane > waiting.lane and ${inLane}) from waiting where lane is not null
    ) select lane from waiting where lane is not null`)
    .pluck();
  // "cross": from the few claims to their tasks, never the other way round.
  const working = db.prepare<[], { lane: number; cursor: string }>(`
    select t.lane, cast(t.cursor as text) as cursor from claims c cross join tasks t on t.id = c.task where t.alone = 0`);
  const markDirty = createMarkDirty(session);
  const dirtyLanes = db.prepare<[], number>('select lane from dirty_lanes').pluck();
  const clearDirty = db.prepare('delete from dirty_lanes');
  const head = db.prepare<unknown[], WaitingRow>(
    `select ${WAITING} from tasks where lane = +? and ${inLane} order by tasks.cursor limit 1`,
  );
  // Read from the top, where the few that are still held lie, down to the first that is not.
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
  /** By handler; negative: its reruns. */
  const queues = new Map<number, Queue>();
  /** By handler: the highest cursor finished in any of its lanes, once it was asked for. */
  const highest = new Map<number, bigint>();
  const proof = createProof(session, (id) => lanes.get(id));
  let loaded = false;
  let idleLimit = IDLE;
  let swept = session.state('lanes_swept');

  function forget(): void {
    lanes.clear();
    names.clear();
    queues.clear();
    highest.clear();
    proof.forget();
    loaded = false;
  }

  function know(id: number, handler: number, name: string, rerun: number): Lane {
    const key = keyOf(handler, name, rerun);
    const none = { released: -1n, unproven: -1n, finished: -1n, working: null, head: null, proof: null };
    const lane = lanes.get(id) ?? { id, key, handler, rerun, ...none, more: false, at: null };
    lanes.set(id, lane);
    names.set(key, lane);
    return lane;
  }

  /** Between two turns: within one, a lane that nothing waits in yet may be about to be entered. */
  function dropIdle(): void {
    const sweeps = session.state('lanes_swept');
    // A lane that was swept away may not be entered by the number that it had.
    if (names.size <= idleLimit && sweeps === swept) return;
    swept = sweeps;
    for (const lane of lanes.values()) {
      if (waits(lane) || lane.working !== null) continue;
      lanes.delete(lane.id);
      names.delete(lane.key);
    }
    idleLimit = Math.max(IDLE, 2 * names.size);
  }

  /** What the file says of lanes that another process, or nobody yet, knows better. */
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

  /** The schema lets no task wait without its lane's row; a file that was worked on by hand may hold some all the same. */
  function repair(ids: number[], now: number): void {
    const lost = ids.filter((id) => !laneOf.get(id));
    if (lost.length === 0) return;
    session.write(() => {
      for (const id of lost) restore.run({ id, now });
      session.count({ lanes_restored: lost.length });
    });
  }

  /** It was swept away: nothing waits in it. */
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
    // Where the lanes are not kept in memory, others finish tasks unheard.
    const most = (loaded ? highest.get(handler) : undefined) ?? BigInt(furthest.get(handler) ?? -1);
    highest.set(handler, most);
    return most;
  }

  function isFree(lane: Lane, cursor: bigint, strict: boolean): boolean {
    return cursor <= (strict ? lane.unproven : lane.released) || cursor <= proof.watermark();
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

  /** The first whose time it is; entries that no longer say what is true of their lane are dropped on the way. */
  function first(queue: Queue): Entry | undefined {
    for (;;) {
      const entry = queue.peek();
      if (!entry || (entry.lane.at === entry.at && lanes.get(entry.lane.id) === entry.lane)) return entry;
      queue.pop();
    }
  }

  /** The task whose turn it is, or when to look again, null when nothing waits. */
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
          proof.await(lane, task.cursor);
          return { at: null };
        }
        const at = releaseOf(lane, task, now);
        if (at > now) return { at };
      }
      const { dueAt } = task;
      // A strict lane goes on when this one is done or dead.
      const holdUntil = task.strict ? null : task.holdUntil;
      if (dueAt <= now && !task.isolated) return { task };
      // An isolated task is claimed by a process of its own, and this lane looked at again when that has ended.
      if (holdUntil === null || holdUntil > now)
        return { at: task.isolated ? holdUntil : Math.min(dueAt, holdUntil ?? Infinity) };
      stepAside.run(task.id);
      lane.head = null;
    }
  }

  /** Releases as much of the lane as its time has come; returns when the head's will. */
  function releaseOf(lane: Lane, task: Waiting, now: number): number {
    const top = lane.more ? release.get(lane.id, now) : task.releaseAt <= now ? task.cursor : undefined;
    // All that wait arrived within the window: there are few of them.
    if (top == null) return lane.more ? (earliest.get(lane.id) ?? task.releaseAt) : task.releaseAt;
    lane.released = top;
    return now;
  }

  /** What the watermark has passed need not wait for its time. */
  function releaseProved(now: number): void {
    const isProved = (task: Waiting | null): boolean =>
      task?.cursor != null && task.cursor <= proof.watermark() && task.dueAt <= now;
    for (const queue of queues.values()) {
      const held = queue.data.filter(({ at, lane }) => at > now && at === lane.at && isProved(lane.head));
      for (const { lane } of held) schedule(lane, now);
    }
  }

  return {
    load(now) {
      if (loaded && session.state('runner') === me) return;
      forget();
      // First, so that whatever changes from now on is noted for us.
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
      proof.doubt();
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
        proof.add(lane, cursor, task.event);
        // A later one was released that was made before the handler became strict.
        if (cursor <= lane.released) proof.waive(lane, cursor);
      }
      const free = isFree(lane, cursor, strict);
      if (strict && !free) {
        if (lane.head === task) proof.await(lane, cursor);
        return;
      }
      const at = free ? task.dueAt : task.releaseAt;
      if (lane.at === null || at < lane.at) schedule(lane, at);
    },
    leave(id, finished, now) {
      if (finished !== null) finish.run(finished, now, id);
      if (!lanes.has(id)) markDirty(id);
    },
    left(id, finished, aside, now) {
      const lane = lanes.get(id);
      if (!lane) return;
      if (finished !== null) {
        // Strict ones that waited below one that had stepped aside wait no longer.
        if (aside && finished > lane.unproven && finished > proof.watermark()) proof.doubt();
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
      // A lane whose head waits costs a look as well: the rest is for the next turn.
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
    nextAt: (handler, reruns) => (proof.unfinished() ? 0 : (first(queueOf(handler, reruns))?.at ?? null)),
    prove(now) {
      const before = proof.watermark();
      const unproven = proof.advance((lane) => {
        if (lane.at === null || lane.at > now) schedule(lane, now);
      });
      if (proof.watermark() > before) releaseProved(now);
      return unproven;
    },
    watermark: () => proof.watermark(),
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
