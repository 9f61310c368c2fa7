// The waiting tasks that lanes keep in memory: the next ones of each lane, within a limit for all.
import type { Lane } from './lane.ts';
import type { Waiting } from './waiting.ts';

/** Waiting tasks kept in memory: of each lane, and of all lanes. Beyond them, a lane keeps its next task. */
const KNOWN = { lane: 64, all: 16_384 };

export type KnownTasks = ReturnType<typeof createKnownTasks>;

export function createKnownTasks() {
  let count = 0;

  return {
    hasRoom: (): boolean => count < KNOWN.all,
    /** True: the lane has so many tasks in memory, or as many as it may have. */
    hasEnough: (lane: Lane, most: number): boolean => lane.known.length >= Math.min(most, KNOWN.lane),
    /** Replaces the tasks of the lane. `more`: others may follow in the store. */
    set(lane: Lane, tasks: Waiting[], more: boolean) {
      count += tasks.length - lane.known.length;
      lane.known = tasks;
      lane.more = more;
    },
    /** Removes the first tasks of the lane and returns them. */
    take(lane: Lane, length: number): Waiting[] {
      count -= length;
      return lane.known.splice(0, length);
    },
    /** Inserts a task that is new in the store. The known tasks stay the lane's next ones, in cursor order. */
    insert(lane: Lane, task: Waiting, cursor: bigint) {
      const last = lane.known.at(-1)?.cursor ?? null;
      if (lane.more && (last === null || cursor >= last)) return;
      const most = count < KNOWN.all ? KNOWN.lane : Math.max(1, lane.known.length);
      if (last === null || cursor >= last) lane.known.push(task);
      else {
        const at = lane.known.findLastIndex((other) => other.cursor !== null && other.cursor <= cursor) + 1;
        lane.known.splice(at, 0, task);
      }
      count++;
      if (lane.known.length <= most) return;
      lane.known.length--;
      count--;
      lane.more = true;
    },
    /** Call it when all lanes are dropped. */
    forget() {
      count = 0;
    },
  };
}
