// Whose turn it is: the lanes in memory, without a statement. A turn has two phases: which lanes may run, then, when the
// store has read their next tasks, who runs. The store keeps what must survive: tasks, and how far each lane has finished.
import { createDueQueue, type DueQueue } from './due-queue.ts';
import { createKnownTasks } from './known-tasks.ts';
import { keyOf, newLane, waits, type Ask, type Heads, type Lane, type LaneRow, type Taken, type Want } from './lane.ts';
import { createNextTasks } from './next-tasks.ts';
import { chainLengths, shareOut, type Pick } from './shares.ts';
import { createStrictOrder, type Facts, type StrictRow } from './strict-order.ts';
import type { Waiting } from './waiting.ts';

/** Maximum number of idle lanes in memory, kept so that new tasks find their lane by its name. */
const IDLE = 20_000;
export type LaneCore = ReturnType<typeof createLaneCore>;

// oxlint-disable-next-line max-lines-per-function -- the methods share the lanes, and each is short
export function createLaneCore() {
  const lanes = new Map<number, Lane>();
  /** By handler id. Under the negative id are the lanes of the handler's reruns. */
  const names = new Map<number, Map<string, Lane>>();
  const queues = new Map<number, DueQueue<Lane>>();
  /** By handler: the highest cursor finished in any of its lanes, once the store has said it. */
  const highest = new Map<number, bigint>();
  const strictOrder = createStrictOrder<Lane>();
  const known = createKnownTasks();
  const { isFree, ...nextTasks } = createNextTasks(strictOrder, known);
  let idleLimit = IDLE;
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
    known.forget();
  }

  function know(row: LaneRow): Lane {
    const lane = lanes.get(row.id) ?? newLane(row);
    lanes.set(row.id, lane);
    // An erasure renames lanes. The next event of the person then gets the same lane as in a later process.
    namesOf(lane.handler, lane.rerun).delete(lane.key);
    lane.key = keyOf(row.rerun, row.name);
    namesOf(lane.handler, lane.rerun).set(lane.key, lane);
    raise(lane, row.finished);
    if (row.unproven > lane.unproven) lane.unproven = row.unproven;
    return lane;
  }

  function drop(lane: Lane): void {
    known.set(lane, [], false);
    lane.dropped = true;
    lanes.delete(lane.id);
    namesOf(lane.handler, lane.rerun).delete(lane.key);
  }

  function raise(lane: Lane, finished: bigint): void {
    const most = highest.get(lane.handler);
    if (most !== undefined && lane.rerun === 0 && finished > most) highest.set(lane.handler, finished);
    if (finished > lane.finished) lane.finished = finished;
    if (finished > lane.released) lane.released = finished;
    if (finished > lane.unproven) lane.unproven = finished;
  }

  function namesOf(handler: number, rerun: number): Map<string, Lane> {
    const key = rerun > 0 ? -handler : handler;
    let named = names.get(key);
    if (!named) names.set(key, (named = new Map()));
    return named;
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
    strictOrder,
    forget,
    /** `working`: the number of claims of the lane in the store. Its tasks are read again when it may run. */
    learn(row: LaneRow, working: number, now: number) {
      const lane = know(row);
      // Another process changed the lane, so claims that have not begun go back.
      if (lane.chain) lane.chain.recalled = true;
      lane.working = working;
      known.set(lane, [], true);
      schedule(lane, now);
    },
    /** The store no longer has the lane, so nothing waits in it. */
    gone(id: number) {
      const lane = lanes.get(id);
      if (lane) drop(lane);
    },
    /** The id of the lane with this name. Undefined: the store must create or find it, and `entered` says the result. */
    laneOf: (handler: number, rerun: number, name: string): number | undefined =>
      namesOf(handler, rerun).get(keyOf(rerun, name))?.id,
    entered: (row: LaneRow): void => void know(row),
    has: (id: number): boolean => lanes.has(id),
    /**
     * Drops idle lanes if there are many. `all`: the store may have removed any of them. Call it when a turn begins:
     * later in the turn, an idle lane may be about to get a task.
     */
    dropIdle(all: boolean) {
      if (lanes.size <= idleLimit && !all) return;
      for (const lane of lanes.values()) if (!waits(lane) && lane.working === 0) drop(lane);
      idleLimit = Math.max(IDLE, 2 * lanes.size);
    },
    /** Lanes in which tasks may wait that are not in memory. */
    unread: () => [...lanes.values()].filter((lane) => lane.more && lane.known.length === 0).map(({ id }) => id),
    add(task: Waiting) {
      const lane = lanes.get(task.lane ?? 0);
      if (!lane || task.cursor === null) return;
      const { cursor, strict } = task;
      known.insert(lane, task, cursor);
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
        // What has not begun may be late now.
        if (aside && lane.chain) lane.chain.recalled = true;
      }
      if (!aside) {
        lane.working = Math.max(0, lane.working - 1);
        if (lane.working === 0) lane.chain = null;
        if (finished === null) known.set(lane, [], true);
      }
      if (lane.working === 0) schedule(lane, waits(lane) ? now : null);
    },
    /** Follows the watermark. The store then reads what `strictOrder.wants` says. */
    follow(facts: Facts, now: number) {
      const before = strictOrder.watermark();
      strictOrder.follow(facts, (lane) => wake(lane, now));
      if (strictOrder.watermark() > before) releasePassed(now);
    },
    strictFound(rows: StrictRow[], now: number) {
      strictOrder.found(
        rows,
        (id) => lanes.get(id),
        (lane) => wake(lane, now),
      );
    },
    /** Phase one: chooses lanes by fair shares, and says what the store must read of them. */
    wants({ now, looks, singles, chains = new Map(), ...room }: Ask): Want[] {
      let left = looks;
      const shared = shareOut<Lane, Waiting>(room, round, {
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
      chosen = { picks: shared.picks, lengths: chainLengths(shared, room.room, chains) };
      return [...chosen.lengths].flatMap(([lane, most]) => nextTasks.wantOf(lane, most) ?? []);
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
          const next = nextTasks.take(lane, chosen.lengths.get(lane) ?? 1, heads.get(lane.id), now);
          aside.push(...next.aside);
          looks++;
          if ('at' in next) {
            again = true;
            schedule(lane, next.at);
            continue;
          }
          const { tasks } = next;
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
    /** When the next lane of the handler may run. Null: none waits for a time. */
    nextAt: (handler: number, reruns: boolean): number | null =>
      strictOrder.unfinished() ? 0 : queueOf(handler, reruns).nextAt(),
  };

  function wake(lane: Lane, at: number): void {
    if (lane.working === 0 && (lane.at === null || at < lane.at)) schedule(lane, at);
  }
}
