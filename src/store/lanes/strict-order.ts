// Strict order: which lanes wait for the watermark, and which are released. The store reads what a step asks for.
import TinyQueue from 'tinyqueue';

/** The maximum number of lanes that one turn looks at, because deliveries wait for the lock of the store meanwhile. */
export const LOOKS = 1_000;

/** The fields of a lane that strict order needs. */
export interface StrictLane {
  id: number;
  /** Strict tasks at or below this cursor may run, even if the watermark has not passed them. */
  unproven: bigint;
  /** The cursor of the lane's head while it waits for the watermark. */
  awaited: bigint | null;
}

/** What the store says when a turn begins. */
export interface Facts {
  /** -1: there is none. */
  watermark: bigint;
  /** Two complete reads of replay have looked for every event up to this number. */
  searched: number;
  /** The number of the newest event. */
  newest: number;
  /** The last event that has its tasks. */
  fannedOut: number;
}

/** A place in the list of waiting strict tasks, which is ordered by cursor, then lane. */
export interface StrictPlace {
  cursor: bigint;
  lane: number;
}

export type StrictRow = StrictPlace & { event: number };

const LAST = 2n ** 63n - 1n;

export type StrictOrder<Lane extends StrictLane> = ReturnType<typeof createStrictOrder<Lane>>;

// oxlint-disable-next-line max-lines-per-function -- every method changes the same few values
export function createStrictOrder<Lane extends StrictLane>() {
  const queue = new TinyQueue<{ cursor: bigint; lane: Lane }>([], (a, b) =>
    a.cursor < b.cursor ? -1 : a.cursor > b.cursor ? 1 : 0,
  );
  let known = { watermark: -1n, searched: 0 };
  /** Newer facts, taken over when all events up to `newest` have their tasks. */
  let next: Facts | null = null;
  let waiting = 0;
  /** The watermark rose from here, and the tasks that it passed are not yet subtracted from `waiting`. */
  let passedFrom: bigint | null = null;
  let stale = true;
  /** How far `found` has looked through the tasks since `searched` moved. Null: to the end. */
  let place: StrictPlace | null = null;
  /** By lane: tasks that `found` has passed, which are released if a higher task of the lane is. */
  const passed = new Map<number, number>();
  let released = new Map<number, bigint>();

  /** A watermark arrives together with the events below it, so it counts only when these have their tasks. */
  function learn(facts: Facts): void {
    if (!next && facts.watermark === known.watermark && facts.searched === known.searched) return;
    next ??= facts;
    if (facts.fannedOut < next.newest) return;
    if (next.watermark < known.watermark) stale = true;
    else if (next.watermark > known.watermark) passedFrom ??= known.watermark;
    if (next.searched > known.searched) {
      passed.clear();
      place = { cursor: next.watermark, lane: Number.MAX_SAFE_INTEGER };
    }
    known = next;
    next = null;
    learn(facts);
  }

  function releaseUpTo(lane: Lane, cursor: bigint): void {
    lane.unproven = cursor;
    released.set(lane.id, cursor);
  }

  /** How many tasks this releases is counted later. */
  function releaseUnproven(lane: Lane, cursor: bigint): void {
    releaseUpTo(lane, cursor);
    stale = true;
  }

  return {
    watermark: (): bigint => known.watermark,
    /** The lane waits until the watermark has passed the cursor. */
    waitFor(lane: Lane, cursor: bigint): void {
      if (lane.awaited === cursor) return;
      lane.awaited = cursor;
      queue.push({ cursor, lane });
    },
    /** Counts a new strict task that waits for the watermark. */
    add(lane: Lane, cursor: bigint, event: number): void {
      waiting++;
      // The step that looks for searched tasks may be past it.
      if (place) stale = true;
      if (event <= known.searched) releaseUnproven(lane, cursor);
    },
    /** Releases the tasks of the lane up to the cursor, although the watermark has not passed them. */
    releaseUnproven,
    /** The waiting tasks must be counted again. */
    invalidate(): void {
      stale = true;
    },
    /** Follows the watermark, and calls `wake` for each lane that may go on. */
    follow(facts: Facts, wake: (lane: Lane) => void): void {
      learn(facts);
      for (let looks = 0; looks < LOOKS; looks++) {
        const entry = queue.peek();
        if (!entry || entry.cursor > known.watermark) break;
        queue.pop();
        if (entry.lane.awaited !== entry.cursor) continue;
        entry.lane.awaited = null;
        wake(entry.lane);
      }
    },
    /** The place after which the store must read `LOOKS` waiting tasks for `found`. Null: none. */
    wants: (): StrictPlace | null => place,
    found(rows: StrictRow[], laneOf: (id: number) => Lane | undefined, wake: (lane: Lane) => void): void {
      for (const { cursor, lane: id, event } of rows) {
        const lane = laneOf(id);
        if (!lane || cursor <= lane.unproven) continue;
        const lower = passed.get(id) ?? 0;
        if (event > known.searched) passed.set(id, lower + 1);
        else {
          waiting -= 1 + lower;
          passed.delete(id);
          releaseUpTo(lane, cursor);
          wake(lane);
        }
      }
      place = rows.length === LOOKS ? (rows.at(-1) ?? null) : null;
      if (!place) passed.clear();
    },
    /** The cursor range (above, up to) to count waiting strict tasks in for `counted`. Null: the count is known. */
    countIn(): { above: bigint; upTo: bigint } | null {
      // While lanes are still being released, each turn would count all tasks again.
      if (stale && !next && !place) return { above: known.watermark, upTo: LAST };
      return stale || passedFrom === null ? null : { above: passedFrom, upTo: known.watermark };
    },
    counted(tasks: number): void {
      waiting = stale ? tasks : waiting - tasks;
      stale = false;
      passedFrom = null;
    },
    /** The number of strict tasks that wait for the watermark. */
    waiting: (): number => waiting,
    /** Lanes that were released unproven since the last call, to be saved. */
    released(): { lane: number; cursor: bigint }[] {
      const rows = [...released].map(([lane, cursor]) => ({ lane, cursor }));
      if (rows.length > 0) released = new Map();
      return rows;
    },
    /** Whether lanes are left to look at, because one turn looks at a limited number. */
    unfinished(): boolean {
      const entry = queue.peek();
      return place !== null || (entry !== undefined && entry.cursor <= known.watermark);
    },
    forget(): void {
      queue.data = [];
      queue.length = 0;
      known = { watermark: -1n, searched: 0 };
      next = null;
      passedFrom = null;
      stale = true;
      place = null;
      passed.clear();
      released = new Map();
    },
  };
}
