// Finds the cursor after which replay begins in a store without a watermark: REPLAY_FROM, or the cursor of a delivery.
// If the API key is set later than the webhook, replay begins at a delivery that is at least one overlap old. Otherwise
// it begins at the lowest cursor that is delivered in the first overlap, because the first one may be far too high.
import { isBehind, ZERO, type Cursor } from '../wire/cursor.ts';
import type { PassContext } from './pass.ts';

export function createBeginning({ store, clock, log, from, overlapMs }: PassContext) {
  /** When the first overlap ends, by the monotonic clock. Null: no first overlap. Undefined: not loaded yet. */
  let openUntil: number | null | undefined;
  /** When this process first read to the end of history, by the monotonic clock. Null: not yet. */
  let historyEndedAt: number | null = null;

  /** Loads when the first overlap ends. If the wall clock was set back, the first overlap may begin anew. */
  async function load(): Promise<number | null> {
    const anchoredAt = await store.anchoredAt();
    if (anchoredAt === null) return null;
    return clock.monotonic() + Math.min(overlapMs, overlapMs - (clock.now() - anchoredAt));
  }

  async function note(cursor: Cursor, more: { anchored_at?: number } = {}): Promise<Cursor> {
    await store.note({}, { begins_at: BigInt(cursor), ...more });
    return cursor;
  }

  async function atDeliveries(): Promise<Cursor | undefined> {
    const begins = await store.beginsAt();
    if (begins !== null) return begins;
    const { older, lowest } = await store.anchors(clock.now() - overlapMs);
    // Stored at once: the longer replay fails, the higher is the cursor of a delivery that is one overlap old.
    if (older !== null) return note(older);
    if (lowest === null) return undefined;
    openUntil = clock.monotonic() + overlapMs;
    return note(lowest, { anchored_at: clock.now() });
  }

  return {
    /** Replay begins after this cursor. Null: at the beginning of history. Undefined: no delivery has arrived yet. */
    async after(): Promise<Cursor | null | undefined> {
      if (from === 'first-webhook') return atDeliveries();
      await store.openHistory();
      return from === 'start' ? null : (from as Cursor);
    },
    /** During the first overlap, looks for a lower cursor of a delivery. True: the watermark was lowered to it. */
    async lower(): Promise<boolean> {
      if (from !== 'first-webhook') return false;
      openUntil ??= await load();
      if (openUntil === null || clock.monotonic() >= openUntil) return false;
      const [begins, lowest] = [await store.beginsAt(), await store.lowestDelivered()];
      if (begins === null || lowest === null || !isBehind(lowest, begins)) return false;
      await note(lowest);
      const { done } = await store.lowerWatermark({ to: lowest, why: 'anchor', now: clock.now() });
      log.info({ from: begins, to: lowest }, 'a lower cursor came with the first deliveries: replay begins there');
      return done;
    },
    /**
     * Call it when the forward pass reaches the end. Events above this watermark happened after the store was created.
     * For one more overlap, events of unknown age stay undecided, because their neighbours may become visible late.
     */
    async caughtUp(watermark: Cursor | null): Promise<void> {
      if (from === 'first-webhook') return;
      historyEndedAt ??= clock.monotonic();
      await store.endHistory(watermark ?? ZERO);
      if (clock.monotonic() - historyEndedAt >= overlapMs) await store.closeHistory();
    },
  };
}
