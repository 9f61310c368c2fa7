// Finds the cursor after which replay begins in a store without a watermark: REPLAY_FROM, or the cursor of a delivery.
// If a delivery is older than RECONCILE_OVERLAP_SECONDS, its cursor is used. Otherwise replay begins at the lowest
// cursor that arrives within that time, because the cursor of the first delivery may be far too high.
import { isBehind, ZERO, type Cursor } from '../wire/cursor.ts';
import type { PassContext } from './pass.ts';

export function createBeginning({ store, clock, log, from, overlapMs }: PassContext) {
  /** Until this time (monotonic), a lower delivered cursor moves the beginning. Null: never. Undefined: not loaded. */
  let openUntil: number | null | undefined;
  /** When this process first read to the end of history, by the monotonic clock. Null: not yet. */
  let historyEndedAt: number | null = null;

  /** Loads `openUntil`. If the wall clock was set back, the whole overlap period may begin anew. */
  async function load(): Promise<number | null> {
    const anchoredAt = await store.state.get('anchored_at');
    if (anchoredAt === null) return null;
    return clock.monotonic() + Math.min(overlapMs, overlapMs - (clock.now() - anchoredAt));
  }

  async function note(cursor: Cursor, more: { anchored_at?: number } = {}): Promise<Cursor> {
    await store.state.note({}, { begins_at: BigInt(cursor), ...more });
    return cursor;
  }

  async function atDeliveries(): Promise<Cursor | undefined> {
    const begins = await store.state.get('begins_at');
    if (begins !== null) return begins;
    const { older, lowest } = await store.replay.anchors(clock.now() - overlapMs);
    // Stored at once: while replay fails, newer deliveries become old enough, and a later look would find them instead.
    if (older !== null) return note(older);
    if (lowest === null) return undefined;
    openUntil = clock.monotonic() + overlapMs;
    return note(lowest, { anchored_at: clock.now() });
  }

  return {
    /** Replay begins after this cursor. Null: at the beginning of history. Undefined: no delivery has arrived yet. */
    async after(): Promise<Cursor | null | undefined> {
      if (from === 'first-webhook') return atDeliveries();
      await store.replay.openHistory();
      return from === 'start' ? null : (from as Cursor);
    },
    /** Until `openUntil`, looks for a delivered cursor below the beginning. True: the watermark was lowered to it. */
    async lower(): Promise<boolean> {
      if (from !== 'first-webhook') return false;
      openUntil ??= await load();
      if (openUntil === null || clock.monotonic() >= openUntil) return false;
      const [begins, lowest] = [await store.state.get('begins_at'), await store.replay.lowestDelivered()];
      if (begins === null || lowest === null || !isBehind(lowest, begins)) return false;
      await note(lowest);
      const { done } = await store.replay.lowerWatermark({ to: lowest, why: 'anchor', now: clock.now() });
      log.info({ from: begins, to: lowest }, 'a lower cursor came with the first deliveries: replay begins there');
      return done;
    },
    /**
     * Call it when the forward pass reaches the end of history. Events above this watermark are newer than the store.
     * Events of unknown age stay undecided for one more overlap period: later arrivals may still show their age.
     */
    async caughtUp(watermark: Cursor | null): Promise<void> {
      if (from === 'first-webhook') return;
      historyEndedAt ??= clock.monotonic();
      await store.replay.endHistory(watermark ?? ZERO);
      if (clock.monotonic() - historyEndedAt >= overlapMs) await store.replay.closeHistory();
    },
  };
}
