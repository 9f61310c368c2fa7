// Lanes to look at, by time. An entry stays in the queue when its lane's time changes, and is dropped when it comes up.
import TinyQueue from 'tinyqueue';

/** `at`: when to look at the lane again. Null: not before something changes. `dropped`: the lane left memory. */
export interface Timed {
  at: number | null;
  dropped: boolean;
}

export type DueQueue<Lane extends Timed> = ReturnType<typeof createDueQueue<Lane>>;

export function createDueQueue<Lane extends Timed>() {
  const queue = new TinyQueue<{ at: number; lane: Lane }>([], (a, b) => a.at - b.at);
  const isCurrent = ({ at, lane }: { at: number; lane: Lane }): boolean => lane.at === at && !lane.dropped;

  function first() {
    for (;;) {
      const entry = queue.peek();
      if (!entry || isCurrent(entry)) return entry;
      queue.pop();
    }
  }

  return {
    push(lane: Lane, at: number): void {
      lane.at = at;
      queue.push({ at, lane });
    },
    /** Removes the next lane whose time has come. */
    pop(now: number): Lane | undefined {
      const entry = first();
      if (!entry || entry.at > now) return undefined;
      queue.pop();
      entry.lane.at = null;
      return entry.lane;
    },
    nextAt: (): number | null => first()?.at ?? null,
    /** Lanes whose time is later than this. */
    after: (now: number): Lane[] =>
      queue.data.filter((entry) => entry.at > now && isCurrent(entry)).map(({ lane }) => lane),
  };
}
