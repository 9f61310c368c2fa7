// Strict order: which lanes wait for the watermark, which are released, and how many tasks still wait. It is kept in
// memory beside the lanes. The file holds the watermark, and how far each lane was released unproven.
import TinyQueue from 'tinyqueue';
import type { Cursor } from '../../../wire/cursor.ts';
import type { Session } from '../session.ts';

/** The maximum number of lanes that one turn looks at, because deliveries wait for the lock of the store meanwhile. */
export const LOOKS = 1_000;
const LAST = 2n ** 63n - 1n;

/** The fields of a lane that strict order needs. */
export interface StrictLane {
  id: number;
  /** Strict tasks at or below this cursor may run, even if the watermark has not passed them. */
  unproven: bigint;
  /** The cursor of the lane's head while it waits for the watermark. */
  awaited: bigint | null;
}

export interface StrictOrder<Lane> {
  watermark(): bigint;
  /** The lane waits until the watermark has passed the cursor. */
  waitFor(lane: Lane, cursor: bigint): void;
  /** Counts a new strict task that waits for the watermark. Its row is already written. */
  add(lane: Lane, cursor: bigint, event: number): void;
  /** Releases the tasks of the lane up to the cursor, although the watermark has not passed them. */
  releaseUnproven(lane: Lane, cursor: bigint): void;
  /** Other processes have changed tasks, so the waiting tasks must be counted again. */
  invalidate(): void;
  /** Follows the watermark and calls `wake` for each lane that may go on. Returns how many tasks wait for it. */
  advance(wake: (lane: Lane) => void): number;
  /** Whether lanes are left to look at, because one turn looks at a limited number. */
  unfinished(): boolean;
  forget(): void;
}

export function createStrictOrder<Lane extends StrictLane>(
  session: Session,
  laneOf: (id: number) => Lane | undefined,
): StrictOrder<Lane> {
  const { db } = session;
  const isStrict = `t.state = 'ready' and t.strict = 1 and t.alone = 0`;
  const newest = db.prepare<[], number | null>('select max(seq) from events').pluck();
  const count = db
    .prepare<unknown[], number>(`
    select count(*) from tasks t cross join lanes l on l.id = t.lane
    where ${isStrict} and t.cursor > +? and t.cursor <= +? and t.cursor > max(l.finished, l.unproven)`)
    .pluck();
  const countInLane = db
    .prepare<unknown[], number>(
      `select count(*) from tasks t where ${isStrict} and t.lane = +? and t.cursor > +? and t.cursor <= +?`,
    )
    .pluck();
  // By cursor and lane, because several handlers may have a task of the same cursor.
  const page = db.prepare<unknown[], { cursor: string; lane: number; event: number }>(`
    select cast(t.cursor as text) as cursor, t.lane, t.event from tasks t
    where ${isStrict} and (t.cursor, t.lane) > (+?, +?) order by t.cursor, t.lane limit ${LOOKS}`);
  const setUnproven = db.prepare('update lanes set unproven = max(unproven, ?) where id = ?');

  const queue = new TinyQueue<{ cursor: bigint; lane: Lane }>([], (a, b) =>
    a.cursor < b.cursor ? -1 : a.cursor > b.cursor ? 1 : 0,
  );
  let known: { watermark: Cursor | null; searched: number } = { watermark: null, searched: 0 };
  let watermark = -1n;
  /** Newer values than `known`, and the newest event when they were read. Null: none. */
  let next: (typeof known & { upTo: number }) | null = null;
  let waiting = 0;
  let stale = true;
  /** How far `releaseSearched` has looked through the tasks since `searched` moved. Null: to the end. */
  let place: { cursor: bigint; lane: number } | null = null;

  /** Takes over a watermark, which arrives together with events below it, only when these events have their tasks. */
  function learn(): void {
    const says = { watermark: session.cursorState('watermark'), searched: Number(session.state('searched')) };
    if (!next && says.watermark === known.watermark && says.searched === known.searched) return;
    next ??= { ...says, upTo: newest.get() ?? 0 };
    if (Number(session.state('fanned_out')) < next.upTo) return;
    const before = watermark;
    watermark = BigInt(next.watermark ?? -1);
    // The watermark was lowered: tasks that it had passed wait again.
    if (watermark < before) stale = true;
    if (!stale) waiting -= count.get(before, watermark) ?? 0;
    if (next.searched > known.searched) place = { cursor: watermark, lane: Number.MAX_SAFE_INTEGER };
    known = next;
    next = null;
    learn();
  }

  function releaseUnproven(lane: Lane, cursor: bigint): void {
    const from = lane.unproven > watermark ? lane.unproven : watermark;
    waiting -= countInLane.get(lane.id, from, cursor) ?? 0;
    setUnproven.run(cursor, lane.id);
    lane.unproven = cursor;
  }

  function releaseSearched(from: { cursor: bigint; lane: number }, wake: (lane: Lane) => void): void {
    const rows = page.all(from.cursor, from.lane);
    for (const { cursor, lane: id, event } of rows) {
      const lane = laneOf(id);
      if (!lane || event > known.searched || BigInt(cursor) <= lane.unproven) continue;
      releaseUnproven(lane, BigInt(cursor));
      wake(lane);
    }
    const last = rows.at(-1);
    place = last && rows.length === LOOKS ? { cursor: BigInt(last.cursor), lane: last.lane } : null;
  }

  return {
    watermark: () => watermark,
    waitFor(lane, cursor) {
      if (lane.awaited === cursor) return;
      lane.awaited = cursor;
      queue.push({ cursor, lane });
    },
    add(lane, cursor, event) {
      waiting++;
      if (event <= known.searched) releaseUnproven(lane, cursor);
    },
    releaseUnproven,
    invalidate() {
      stale = true;
    },
    advance(wake) {
      learn();
      if (stale && !next) {
        waiting = count.get(watermark, LAST) ?? 0;
        stale = false;
      }
      for (let looks = 0; looks < LOOKS; looks++) {
        const entry = queue.peek();
        if (!entry || entry.cursor > watermark) break;
        queue.pop();
        if (entry.lane.awaited !== entry.cursor) continue;
        entry.lane.awaited = null;
        wake(entry.lane);
      }
      if (place) releaseSearched(place, wake);
      return waiting;
    },
    unfinished() {
      const entry = queue.peek();
      return place !== null || (entry !== undefined && entry.cursor <= watermark);
    },
    forget() {
      queue.data = [];
      queue.length = 0;
      known = { watermark: null, searched: 0 };
      watermark = -1n;
      next = null;
      stale = true;
      place = null;
    },
  };
}
