// The lanes: whose turn it is in each, and when to look again. A lane is free until one of its tasks is claimed; it is
// released up to a cursor, and everything at or below that may run. Used by all that moves tasks.
import type { NewTask } from '../store.ts';
import type { Session } from './session.ts';

/** A waiting task, as much of it as its claim needs. */
export interface Waiting {
  id: bigint;
  event: bigint;
  handler: bigint;
  lane: bigint | null;
  alone: bigint;
  cursor: bigint | null;
  due_at: bigint;
  hold_until: bigint | null;
  suspect: bigint;
  attempts: bigint;
  deferred: bigint;
  error: string | null;
}

export const WAITING =
  'id, event, handler, lane, alone, cursor, due_at, hold_until, suspect, attempts, deferred, error';

/** Later than any time. */
const NEVER = 2 ** 52;
/** More handlers than a store can ever know; a task's id is made of its event and its handler. */
export const HANDLERS = 4_096;

/** The lanes that were entered lately: looking one up by its name costs more than the rest of entering it. */
function createIds(): { add(key: string, lane: number): void; get(key: string): number | undefined; clear(): void } {
  const ids = new Map<string, number>();
  return {
    add(key, lane) {
      if (ids.size >= 20_000) ids.clear();
      ids.set(key, lane);
    },
    get: (key) => ids.get(key),
    clear: () => ids.clear(),
  };
}

export interface Lanes {
  /** The lane's id; its row is made, or told when its new task is released. */
  enter(task: NewTask, name: string, now: number): number;
  /** The task at work is back; `finished` is its cursor where it ended, null where it waits again. */
  leave(lane: number, finished: bigint | null, now: number): void;
  /** A task that had stepped aside, or was discarded, has ended. */
  pass(lane: number, finished: bigint | null): void;
  /** The lane is looked at again. */
  rouse(lane: number, now: number): void;
  /** Tasks whose turn it is; their lanes are free until they are claimed. */
  takeHeads(handler: number, now: number, limit: number): Waiting[];
  /** A later task of the lane has ended, or is at work because this one stepped aside. */
  isLate(lane: number, cursor: bigint, aside: boolean): boolean;
  nextAt(handler: number): number | null;
  /** After a transaction that was rolled back. */
  forget(): void;
}

export function createLanes({ db }: Session): Lanes {
  const enter = db
    .prepare<unknown[], number>(`
    insert into lanes (handler, name, wake_at, used_at) values (@handler, @name, @release, @now)
    on conflict (handler, name) do update set used_at = @now,
      wake_at = min(coalesce(wake_at, ${NEVER}), case when @cursor <= released then @now else @release end)
    returning id`)
    .pluck();
  const reenter = db.prepare(`
    update lanes set used_at = @now,
      wake_at = min(coalesce(wake_at, ${NEVER}), case when @cursor <= released then @now else @release end)
    where id = @lane and handler = @handler and name = @name`);
  const ids = createIds();
  const leave = db.prepare(`
    update lanes set finished = max(finished, @finished), released = max(released, @finished, @released), wake_at = @at
    where id = @lane`);
  const pass = db.prepare(
    'update lanes set finished = max(finished, @at), released = max(released, @at) where id = @lane',
  );
  const wait = db.prepare('update lanes set wake_at = ?, released = max(released, ?) where id = ?');
  const free = `wake_at is not null and not exists (select 1 from claims where lane = lanes.id and lane is not null)`;
  const due = db
    .prepare<unknown[], { id: number; released: bigint }>(`
    select id, released from lanes where handler = +? and wake_at <= +? and ${free} order by wake_at limit +?`)
    .safeIntegers();
  const releasedOf = db.prepare<unknown[], bigint>('select released from lanes where id = ?').pluck().safeIntegers();
  const overtaken = db.prepare<unknown[], number>(
    'select 1 from claims c join tasks t on t.id = c.task where c.lane = ? and t.cursor > ?',
  );
  const finishedOf = db.prepare<unknown[], bigint>('select finished from lanes where id = ?').pluck().safeIntegers();
  const next = db
    .prepare<unknown[], number | null>(
      `select wake_at from lanes where handler = +? and ${free} order by wake_at limit 1`,
    )
    .pluck();
  const waiting = `from tasks where lane = +? and state = 'ready' and alone = 0`;
  const head = db
    .prepare<unknown[], Waiting & { cursor: bigint }>(`select ${WAITING} ${waiting} order by cursor limit 1`)
    .safeIntegers();
  // Read from the top, where the few that are still held lie, down to the first that is not.
  const release = db
    .prepare<unknown[], bigint>(`select cursor ${waiting} and release_at <= +? order by cursor desc limit 1`)
    .pluck()
    .safeIntegers();
  const earliest = db.prepare<unknown[], number | null>(`select min(release_at) ${waiting}`).pluck();
  const stepAside = db.prepare('update tasks set alone = 1 where id = ?');

  /** The task whose turn it is, or when to look again, null when nothing waits; and how far the lane is released. */
  function look(lane: number, before: bigint, now: number): { task?: Waiting; at: number | null; released: bigint } {
    let released = before;
    for (;;) {
      const first = head.get(lane);
      if (!first) return { at: null, released };
      if (first.cursor > released) {
        const top = release.get(lane, now);
        // All that wait arrived within the window: there are few of them.
        if (top === undefined) return { at: earliest.get(lane) ?? null, released };
        released = top;
      }
      const dueAt = Number(first.due_at);
      const holdUntil = first.hold_until === null ? null : Number(first.hold_until);
      if (dueAt <= now && !first.suspect) return { task: first, at: now, released };
      // A suspect is claimed by a process of its own, and this lane looked at again when that has ended.
      if (holdUntil === null || holdUntil > now) {
        return { at: first.suspect ? holdUntil : Math.min(dueAt, holdUntil ?? NEVER), released };
      }
      stepAside.run(first.id);
    }
  }

  return {
    enter({ handler, cursor, releaseAt }, name, now) {
      const key = `${handler}/${name}`;
      const values = { cursor: BigInt(cursor ?? 0), release: releaseAt, now };
      const known = ids.get(key);
      // Its row is gone, or another's, where the lane was swept or its turn rolled back meanwhile.
      if (known !== undefined && reenter.run({ ...values, handler, name, lane: known }).changes === 1) return known;
      const lane = enter.get({ ...values, handler, name }) ?? 0;
      ids.add(key, lane);
      return lane;
    },
    leave(lane, finished, now) {
      const before = releasedOf.get(lane) ?? -1n;
      const { at, released } = look(lane, finished !== null && finished > before ? finished : before, now);
      leave.run({ lane, finished: finished ?? -1n, released, at });
    },
    pass: (lane, finished) => void pass.run({ lane, at: finished ?? -1n }),
    rouse: (lane, now) => void wait.run(now, -1, lane),
    takeHeads(handler, now, limit) {
      const tasks: Waiting[] = [];
      for (const { id, released: before } of due.all(handler, now, limit)) {
        const { task, at, released } = look(id, before, now);
        if (task === undefined) wait.run(at, released, id);
        else tasks.push(task);
      }
      return tasks;
    },
    isLate: (lane, cursor, aside) =>
      cursor < (finishedOf.get(lane) ?? -1n) || (aside && overtaken.get(lane, cursor) !== undefined),
    nextAt: (handler) => next.get(handler) ?? null,
    forget: () => ids.clear(),
  };
}
