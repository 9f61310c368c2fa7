// Which tasks of a lane may run now: the first that is released and due, and those that may follow it in a chain.
import type { KnownTasks } from './known-tasks.ts';
import { hasNoSession, type Heads, type Lane, type Want } from './lane.ts';
import type { StrictOrder } from './strict-order.ts';
import type { Waiting } from './waiting.ts';

/** Tasks that are read at once, so that a busy lane is not read each turn. */
const READ_AHEAD = 8;

/** A task that waits longer than this leaves memory and is read again when it is due. */
const SOON_MS = 60_000;

/** `tasks`: they run now. `at`: when to look again; null: not before something changes. */
export type Next = { aside: number[] } & ({ tasks: Waiting[] } | { at: number | null });

export function createNextTasks(strictOrder: StrictOrder<Lane>, known: KnownTasks) {
  function isFree(lane: Lane, cursor: bigint, strict: boolean): boolean {
    return cursor <= (strict ? lane.unproven : lane.released) || cursor <= strictOrder.watermark();
  }

  /** What the store must read of the lane before it can run. Null: nothing. */
  function wantOf(lane: Lane, most: number): Want | null {
    if (!lane.more) return null;
    const [head] = lane.known;
    const watermark = strictOrder.watermark();
    const released = lane.released > watermark ? lane.released : watermark;
    const held = head?.cursor != null && !head.strict && head.cursor > released;
    if (known.hasEnough(lane, most) && !held) return null;
    return { lane: lane.id, most: known.hasRoom() ? Math.max(most, READ_AHEAD) : most, released };
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
    // In such a lane, the end of a task in any lane of the handler may make the next task late.
    if (hasNoSession(lane.key)) return false;
    return strict ? cursor <= strictOrder.watermark() : releaseAt <= now || isFree(lane, cursor, false);
  }

  return {
    isFree,
    wantOf,
    /** `found`: what the store says of the lane, if `wantOf` asked. */
    take(lane: Lane, most: number, found: Heads | undefined, now: number): Next {
      if (found) known.set(lane, found.tasks, found.more);
      const aside: number[] = [];
      for (;;) {
        const [head] = lane.known;
        // A lane whose known tasks stepped aside is read in the next turn.
        if (!head) return { aside, at: lane.more ? now : null };
        const why = obstacle(lane, head, found, now);
        if (why === null) break;
        if (why !== 'aside') {
          if (head.dueAt - now > SOON_MS) known.set(lane, [], true);
          return { aside, at: why.at };
        }
        aside.push(head.id);
        known.take(lane, 1);
      }
      let length = 1;
      for (; length < most; length++) {
        const next = lane.known[length];
        if (!next || !follows(lane, next, now)) break;
      }
      return { aside, tasks: known.take(lane, length) };
    },
  };
}
