// Finds where a store without a watermark begins to read: at REPLAY_FROM, or at its first deliveries. If an API key
// was added later, reading begins at a delivery that is at least one overlap old. Until the first overlap is over, a
// lower delivery moves the beginning down, so that one odd first cursor hides nothing.
import { isBehind, ZERO, type Cursor } from '../wire/cursor.ts';
import type { PassContext } from './pass.ts';

export function createBeginning({ store, clock, log, from, overlapMs }: PassContext) {
  /** When the first overlap ends, by the monotonic clock. Null: there is none. Undefined: not loaded yet. */
  let openUntil: number | null | undefined;
  /** When this process first read to the end of history, by the monotonic clock. Null: not yet. */
  let historyEndedAt: number | null = null;

  /** If the wall clock was set back, the first overlap may start again, but it never gets longer. */
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
    // Stored at the first look: while replay fails, more and more deliveries become older than the overlap.
    if (older !== null) return note(older);
    if (lowest === null) return undefined;
    openUntil = clock.monotonic() + overlapMs;
    return note(lowest, { anchored_at: clock.now() });
  }

  return {
    /** Reading begins after this cursor. Null: at the beginning of history. Undefined: no delivery has arrived yet. */
    async after(): Promise<Cursor | null | undefined> {
      if (from === 'first-webhook') return atDeliveries();
      await store.openHistory();
      return from === 'start' ? null : (from as Cursor);
    },
    /** Looks for a lower delivery within the first overlap. True: the watermark was lowered to it. */
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
     * Call it when the forward pass reaches the end of history. Events that arrive later are newer than the store.
     * Undecided events stay so for one more overlap, because older neighbours may become visible late.
     */
    async caughtUp(watermark: Cursor | null): Promise<void> {
      if (from === 'first-webhook') return;
      historyEndedAt ??= clock.monotonic();
      await store.endHistory(watermark ?? ZERO);
      if (clock.monotonic() - historyEndedAt >= overlapMs) await store.closeHistory();
    },
  };
}
