// The rounds in which a turn claims tasks. A lane that was chosen may turn out to wait, so others are looked at, up to a
// limit. Between two rounds the store writes what the round decided, and reads the heads of the next lanes.
import type { Turn } from '../work.ts';
import type { Ask, Heads, Taken, Want } from './lane.ts';
import type { LaneCore } from './lanes.ts';
import { LOOKS } from './strict-order.ts';

export function startClaiming(core: LaneCore, turn: Turn) {
  const { room, handlers, limits, reruns: most = room, now } = turn;
  const left = new Map(limits);
  let places = most;
  let claimed = 0;
  let looks = LOOKS;
  let again = true;
  return {
    /** Whether another round follows. */
    goesOn: (): boolean => again && looks > 0 && claimed < room,
    /** What the store must read. `singles`: due tasks that wait for no other, the oldest first. */
    wants(singles: Ask['singles']): Want[] {
      const free = room - claimed;
      return core.wants({ ...turn, room: free, limits: left, reruns: Math.min(places, free), looks, singles });
    },
    /** What the store must write: tasks that are claimed, in this order, and tasks that step aside. */
    take(heads: Heads[]): Taken {
      const taken = core.take(heads, now);
      for (const { task } of taken.claims) {
        claimed++;
        if (task.rerun > 0) places--;
        const limit = left.get(task.handler);
        if (limit !== undefined) left.set(task.handler, limit - 1);
      }
      again = taken.again;
      looks -= taken.looks;
      return taken;
    },
    /** Ends the rounds. Returns when the next task may be due. `singleAt`: the same for tasks that wait for no other. */
    end(singleAt: (handler: number, rerun: boolean) => number | null): number | null {
      if (claimed > 0) core.turned();
      const kinds = places > 0 ? [false, true] : [false];
      const times = handlers
        .filter((handler) => left.get(handler) !== 0)
        .flatMap((handler) => kinds.flatMap((rerun) => [core.nextAt(handler, rerun), singleAt(handler, rerun)]));
      return times.reduce((a, b) => (a === null || (b !== null && b < a) ? b : a), null);
    },
  };
}
