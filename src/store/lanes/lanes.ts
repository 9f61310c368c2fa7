// Whose turn it is: the lanes in memory, without a statement. A turn has two phases: which lanes may run, then, when the
// store has read their next tasks, who runs. The store keeps what must survive: tasks, and how far each lane has finished.
import { createDueQueue, type DueQueue } from './due-queue.ts';
import { chainLengths, shareOut, type Pick, type Room } from './shares.ts';
import { createStrictOrder, type Facts, type StrictLane, type StrictPlace, type StrictRow } from './strict-order.ts';
import type { Waiting } from './waiting.ts';

/** Maximum number of idle lanes in memory, kept so that new tasks find their lane by its name. */
const IDLE = 20_000;
/** A task that waits longer than this leaves memory and is read again when it is due. */
const SOON_MS = 60_000;
/** Waiting tasks kept in memory: of each lane, and of all lanes. Beyond them, a lane keeps its next task. */
const KNOWN = { lane: 64, all: 16_384 };
/** Tasks that are read at once, so that a busy lane is not read each turn. */
const READ_AHEAD = 8;

/** Shared by the claims of a lane. `recalled`: claims that have not begun go back, because the lane's order changed. */
export interface Chain {
  recalled: boolean;
}

export interface Lane extends StrictLane {
  key: string;
  handler: number;
  /** The id of the rerun that the lane belongs to. 0: the lane is for events as they arrive. */
  rerun: number;
  /** Tasks at or below this cursor are released, unless they are strict. */
  released: bigint;
  /** The highest cursor of a finished task. Tasks below it are late. */
  finished: bigint;
  /** The number of its claims that are not settled. */
  working: number;
  /** The claims of this process. */
  chain: Chain | null;
  /** The highest cursor that this process has claimed. */
  claimed: bigint;
  /** The next waiting tasks in cursor order. If `more` is true, others may follow in the store. */
  known: Waiting[];
  more: boolean;
  at: number | null;
  dropped: boolean;
}

/** A lane as the store has it. */
export interface LaneRow {
  id: number;
  handler: number;
  name: string;
  rerun: number;
  finished: bigint;
  unproven: bigint;
}

/** A lane of which the store must read the next tasks before it can run. */
export interface Want {
  lane: number;
  /** Read up to this many tasks. */
  most: number;
  /** Tasks up to this cursor are released. If a task is not, read `top` and `earliest` too. */
  released: bigint;
}

export interface Heads {
  lane: number;
  tasks: Waiting[];
  /** As many as asked for were found, so others may follow. */
  more: boolean;
  /** The highest cursor of a waiting task whose release time has come, of those that are not strict. Null: none. */
  top: bigint | null;
  /** The earliest release time of a waiting task, of those that are not strict. */
  earliest: number | null;
}

export interface Ask extends Room {
  now: number;
  /** Maximum number of lanes to look at. */
  looks: number;
  /** Maximum number of tasks of one lane, by handler id. Default: 1. */
  chains?: Map<number, number> | undefined;
  /** Due tasks that wait for no other, the oldest first. */
  singles: (handler: number, rerun: boolean, most: number) => Waiting[];
}

export interface Taken {
  /** In the order in which they must be claimed. */
  claims: { task: Waiting; chain: Chain }[];
  /** Ids of tasks that step aside from their lanes. */
  aside: number[];
  /** A chosen lane did not run, so another may have its place. */
  again: boolean;
  /** The number of lanes that were looked at. */
  looks: number;
}

export type LaneCore = ReturnType<typeof createLaneCore>;

// oxlint-disable-next-line max-lines-per-function -- the methods share the lanes, and each is short
export function createLaneCore() {
  const lanes = new Map<number, Lane>();
  const names = new Map<string, Lane>();
  /** By handler id. The queue under the negative id holds the lanes of the handler's reruns. */
  const queues = new Map<number, DueQueue<Lane>>();
  /** By handler: the highest cursor finished in any of its lanes, once the store has said it. */
  const highest = new Map<number, bigint>();
  const strictOrder = createStrictOrder<Lane>();
  let idleLimit = IDLE;
  let knownTasks = 0;
  let round = 0;
  /** What `wants` chose for `take`. */
  let chosen: { picks: Pick<Lane, Waiting>[]; lengths: Map<Lane, number> } = { picks: [], lengths: new Map() };

  function forget(): void {
    for (const lane of lanes.values()) if (lane.chain) lane.chain.recalled = true;
    lanes.clear();
    names.clear();
    queues.clear();
    highest.clear();
    strictOrder.forget();
    knownTasks = 0;
  }

  function know(row: LaneRow): Lane {
    const lane = lanes.get(row.id) ?? newLane(row);
    lanes.set(row.id, lane);
    names.set(lane.key, lane);
    raise(lane, row.finished);
    if (row.unproven > lane.unproven) lane.unproven = row.unproven;
    return lane;
  }

  function drop(lane: Lane): void {
    setKnown(lane, [], false);
    lane.dropped = true;
    lanes.delete(lane.id);
    names.delete(lane.key);
  }

  function setKnown(lane: Lane, known: Waiting[], more: boolean): void {
    knownTasks += known.length - lane.known.length;
    lane.known = known;
    lane.more = more;
  }

  function raise(lane: Lane, finished: bigint): void {
    const most = highest.get(lane.handler);
    if (most !== undefined && lane.rerun === 0 && finished > most) highest.set(lane.handler, finished);
    if (finished > lane.finished) lane.finished = finished;
    if (finished > lane.released) lane.released = finished;
    if (finished > lane.unproven) lane.unproven = finished;
  }

  function isFree(lane: Lane, cursor: bigint, strict: boolean): boolean {
    return cursor <= (strict ? lane.unproven : lane.released) || cursor <= strictOrder.watermark();
  }

  function queueOf(handler: number, reruns: boolean): DueQueue<Lane> {
    const key = reruns ? -handler : handler;
    const queue = queues.get(key) ?? createDueQueue<Lane>();
    queues.set(key, queue);
    return queue;
  }

  function schedule(lane: Lane, at: number | null): void {
    lane.at = null;
    if (at !== null && lane.working === 0) queueOf(lane.handler, lane.rerun > 0).push(lane, at);
  }

  /** Inserts the task among the known ones, which stay the lane's next tasks in cursor order. */
  function insert(lane: Lane, task: Waiting, cursor: bigint): void {
    const last = lane.known.at(-1)?.cursor ?? null;
    if (lane.more && (last === null || cursor > last)) return;
    const most = knownTasks < KNOWN.all ? KNOWN.lane : Math.max(1, lane.known.length);
    if (last === null || cursor > last) lane.known.push(task);
    else {
      const at = lane.known.findLastIndex((other) => other.cursor !== null && other.cursor < cursor) + 1;
      lane.known.splice(at, 0, task);
    }
    knownTasks++;
    if (lane.known.length <= most) return;
    lane.known.length--;
    knownTasks--;
    lane.more = true;
  }

  /** What the store must read of the lane before it can run. Null: nothing. */
  function wantOf(lane: Lane, most: number): Want | null {
    if (!lane.more) return null;
    const [head] = lane.known;
    const watermark = strictOrder.watermark();
    const released = lane.released > watermark ? lane.released : watermark;
    const known = lane.known.length >= most || lane.known.length >= KNOWN.lane;
    const held = head?.cursor != null && !head.strict && head.cursor > released;
    if (known && !held) return null;
    return { lane: lane.id, most: knownTasks < KNOWN.all ? Math.max(most, READ_AHEAD) : most, released };
  }

  /** Releases every task of the lane whose time has come, and all below it. Returns when the first task is released. */
  function releaseOf(lane: Lane, head: Waiting, found: Heads | undefined, now: number): number {
    const loose = lane.known.filter(({ strict }) => !strict);
    const due = loose.filter(({ releaseAt }) => releaseAt <= now).at(-1)?.cursor ?? null;
    const top = lane.more && found ? found.top : due;
    if (top !== null) lane.released = top;
    if (head.cursor !== null && isFree(lane, head.cursor, false)) return now;
    const earliest = Math.min(...loose.map(({ releaseAt }) => releaseAt));
    return lane.more && found ? (found.earliest ?? head.releaseAt) : earliest;
  }

  /** The first task of the lane may run: null. Else when to look again, or that it steps aside. */
  function obstacle(
    lane: Lane,
    head: Waiting,
    found: Heads | undefined,
    now: number,
  ): { at: number | null } | 'aside' | null {
    if (head.cursor !== null && !isFree(lane, head.cursor, head.strict)) {
      if (head.strict) {
        strictOrder.waitFor(lane, head.cursor);
        return { at: null };
      }
      const at = releaseOf(lane, head, found, now);
      if (at > now) return { at };
    }
    const { dueAt, isolated } = head;
    if (dueAt <= now && !isolated) return null;
    // A strict lane goes on only when this task is done or dead.
    const holdUntil = head.strict ? null : head.holdUntil;
    // Another process runs an isolated task, and marks the lane dirty at the end. Until then `holdUntil` counts.
    if (holdUntil === null || holdUntil > now)
      return { at: isolated ? holdUntil : Math.min(dueAt, holdUntil ?? Infinity) };
    return 'aside';
  }

  /** The task may follow the one before it in a chain: it is untried and released. */
  function follows(
    lane: Lane,
    { cursor, strict, releaseAt, dueAt, isolated, attempts, deferred }: Waiting,
    now: number,
  ): boolean {
    if (cursor === null || isolated || attempts > 0 || deferred > 0 || dueAt > now) return false;
    return strict ? cursor <= strictOrder.watermark() : releaseAt <= now || isFree(lane, cursor, false);
  }

  function takeFrom(lane: Lane, most: number, found: Heads | undefined, now: number, aside: number[]): Waiting[] {
    if (found) setKnown(lane, found.tasks, found.more);
    for (;;) {
      const [head] = lane.known;
      if (!head) {
        // A lane whose known tasks stepped aside is read in the next turn.
        schedule(lane, lane.more ? now : null);
        return [];
      }
      const why = obstacle(lane, head, found, now);
      if (why === null) break;
      if (why === 'aside') {
        aside.push(head.id);
        lane.known.shift();
        knownTasks--;
        continue;
      }
      schedule(lane, why.at);
      if (head.dueAt - now > SOON_MS) setKnown(lane, [], true);
      return [];
    }
    let length = 1;
    for (; length < most; length++) {
      const next = lane.known[length];
      if (!next || !follows(lane, next, now)) break;
    }
    knownTasks -= length;
    return lane.known.splice(0, length);
  }

  /** Tasks that the watermark has passed need not wait for their release time. */
  function releasePassed(now: number): void {
    const watermark = strictOrder.watermark();
    for (const queue of queues.values())
      for (const lane of queue.after(now)) {
        const [head] = lane.known;
        if (head?.cursor != null && head.cursor <= watermark && head.dueAt <= now) schedule(lane, now);
      }
  }

  return {
    forget,
    /** `working`: the number of claims of the lane in the store. Its tasks are read again when it may run. */
    learn(row: LaneRow, working: number, now: number) {
      const lane = know(row);
      // Another process changed the lane, so claims that have not begun go back.
      if (lane.chain) lane.chain.recalled = true;
      lane.working = working;
      setKnown(lane, [], true);
      schedule(lane, now);
    },
    /** The store no longer has the lane, so nothing waits in it. */
    gone(id: number) {
      const lane = lanes.get(id);
      if (lane) drop(lane);
    },
    /** The id of the lane with this name. Undefined: the store must create or find it, and `entered` says the result. */
    laneOf: (handler: number, rerun: number, name: string): number | undefined =>
      names.get(keyOf(handler, rerun, name))?.id,
    entered: (row: LaneRow): void => void know(row),
    has: (id: number): boolean => lanes.has(id),
    /**
     * Drops idle lanes if there are many. `all`: the store may have removed any of them. Call it when a turn begins:
     * later in the turn, an idle lane may be about to get a task.
     */
    dropIdle(all: boolean) {
      if (names.size <= idleLimit && !all) return;
      for (const lane of lanes.values()) if (!waits(lane) && lane.working === 0) drop(lane);
      idleLimit = Math.max(IDLE, 2 * names.size);
    },
    /** Adds a task that is new in the store. */
    add(task: Waiting) {
      const lane = lanes.get(task.lane ?? 0);
      if (!lane || task.cursor === null) return;
      const { cursor, strict } = task;
      insert(lane, task, cursor);
      // The tasks behind it in the chain go back, so that it runs in its place.
      if (lane.chain && cursor < lane.claimed) lane.chain.recalled = true;
      const free = isFree(lane, cursor, strict);
      if (strict && !free) {
        strictOrder.add(lane, cursor, task.event);
        // A later task of the lane, made before the handler became strict, was already released.
        if (cursor <= lane.released) strictOrder.releaseUnproven(lane, cursor);
        if (isFree(lane, cursor, strict)) wake(lane, task.dueAt);
        else if (lane.known[0] === task) strictOrder.waitFor(lane, cursor);
        return;
      }
      wake(lane, free ? task.dueAt : task.releaseAt);
    },
    /** `finished`: the cursor of the task that ended; null: it waits again. `aside`: it had stepped aside. */
    ended(id: number, finished: bigint | null, aside: boolean, now: number) {
      const lane = lanes.get(id);
      if (!lane) return;
      if (finished !== null) {
        // The end of a task that stepped aside releases the strict tasks below it, so they are counted again.
        if (aside && finished > lane.unproven && finished > strictOrder.watermark()) strictOrder.invalidate();
        raise(lane, finished);
      }
      if (!aside) {
        lane.working = Math.max(0, lane.working - 1);
        if (lane.working === 0) lane.chain = null;
        if (finished === null) setKnown(lane, [], true);
      }
      if (lane.working === 0) schedule(lane, waits(lane) ? now : null);
    },
    /** Follows the watermark. The store then reads what `strictWants` says. */
    follow(facts: Facts, now: number) {
      const before = strictOrder.watermark();
      strictOrder.follow(facts, (lane) => wake(lane, now));
      if (strictOrder.watermark() > before) releasePassed(now);
    },
    strictWants: (): StrictPlace | null => strictOrder.wants(),
    strictFound(rows: StrictRow[], now: number) {
      strictOrder.found(
        rows,
        (id) => lanes.get(id),
        (lane) => wake(lane, now),
      );
    },
    strictCountIn: () => strictOrder.countIn(),
    strictCounted: (tasks: number): void => strictOrder.counted(tasks),
    /** The number of strict tasks that wait for the watermark. */
    unproven: (): number => strictOrder.waiting(),
    /** How far lanes were released unproven since the last call. The store saves it. */
    releasedUnproven: () => strictOrder.released(),
    strictChanged: (): void => strictOrder.invalidate(),
    /** Phase one: chooses lanes by fair shares, and says what the store must read of them. */
    wants({ now, looks, singles, chains = new Map(), ...room }: Ask): Want[] {
      let left = looks;
      const {
        picks,
        left: limits,
        reruns,
      } = shareOut<Lane, Waiting>(room, round, {
        singles,
        lanes(handler, rerun, most) {
          const queue = queueOf(handler, rerun);
          const due: Lane[] = [];
          while (due.length < most && left > 0) {
            const lane = queue.pop(now);
            if (!lane) break;
            due.push(lane);
            left--;
          }
          return due;
        },
      });
      const rest = { room: room.room, chains, left: limits, reruns: (room.reruns ?? room.room) - reruns };
      chosen = { picks, lengths: chainLengths(picks, rest) };
      return [...chosen.lengths].flatMap(([lane, most]) => wantOf(lane, most) ?? []);
    },
    /** Phase two: who runs, now that the store has read the lanes. */
    take(found: Heads[], now: number): Taken {
      const heads = new Map(found.map((one) => [one.lane, one]));
      const aside: number[] = [];
      const claims: Taken['claims'] = [];
      let again = false;
      let looks = 0;
      for (const { lanes: due, singles } of chosen.picks) {
        for (const lane of due) {
          const tasks = takeFrom(lane, chosen.lengths.get(lane) ?? 1, heads.get(lane.id), now, aside);
          looks++;
          again ||= tasks.length === 0;
          if (tasks.length === 0) continue;
          lane.working = tasks.length;
          lane.claimed = tasks.at(-1)?.cursor ?? -1n;
          const chain = (lane.chain = { recalled: false });
          for (const task of tasks) claims.push({ task, chain });
        }
        // Lanes come first, because a task that stepped aside is late if the first task of its lane is running.
        for (const task of singles) claims.push({ task, chain: { recalled: false } });
      }
      chosen = { picks: [], lengths: new Map() };
      return { claims, aside, again, looks };
    },
    /** Call it after a turn that claimed tasks. If empty turns counted, the same handler could always be first. */
    turned: (): void => void round++,
    /** Null: the lane is not in memory. */
    finishedOf: (id: number): bigint | null => lanes.get(id)?.finished ?? null,
    highestOf: (handler: number): bigint | null => highest.get(handler) ?? null,
    knowHighest: (handler: number, cursor: bigint): void => void highest.set(handler, cursor),
    watermark: (): bigint => strictOrder.watermark(),
    /** When the next lane of the handler may run. Null: none waits for a time. */
    nextAt: (handler: number, reruns: boolean): number | null =>
      strictOrder.unfinished() ? 0 : queueOf(handler, reruns).nextAt(),
  };

  function wake(lane: Lane, at: number): void {
    if (lane.working === 0 && (lane.at === null || at < lane.at)) schedule(lane, at);
  }
}

function newLane({ id, handler, rerun, name }: LaneRow): Lane {
  const none = { released: -1n, unproven: -1n, finished: -1n, claimed: -1n, awaited: null, chain: null };
  const idle = { working: 0, known: [], more: false, at: null, dropped: false };
  return { id, key: keyOf(handler, rerun, name), handler, rerun, ...none, ...idle };
}

function waits(lane: Lane): boolean {
  return lane.known.length > 0 || lane.more;
}

function keyOf(handler: number, rerun: number, name: string): string {
  return `${handler}/${rerun}/${name}`;
}
