// Where a store without a watermark begins to read: at its first deliveries, or, if a key was added later, at what is
// older than the overlap. The lowest delivery of the first overlap decides, so that one odd cursor blinds nothing.
import { isBehind, type Cursor } from '../wire/cursor.ts';
import type { PassContext } from './pass.ts';

export interface Anchor {
  /** Undefined while nothing is known. */
  begin(): Promise<Cursor | undefined>;
  /** A lower delivery has come in time. True: the watermark, which stood above it, went down to it. */
  lower(): Promise<boolean>;
}

export function createAnchor({ store, clock, log, from, overlapMs }: PassContext): Anchor {
  /** When its time is over, by the monotonic clock; null: there is none. Undefined: not looked up yet. */
  let openUntil: number | null | undefined;

  /** What is left of the first overlap. A clock that was set back may begin it anew. */
  async function load(): Promise<number | null> {
    const anchoredAt = await store.anchoredAt();
    if (anchoredAt === null) return null;
    return clock.monotonic() + Math.min(overlapMs, overlapMs - (clock.now() - anchoredAt));
  }

  async function note(cursor: Cursor, more: { anchored_at?: number } = {}): Promise<Cursor> {
    await store.note({}, { begins_at: BigInt(cursor), ...more });
    return cursor;
  }

  return {
    async begin() {
      const begins = await store.beginsAt();
      if (begins !== null) return begins;
      const { older, lowest } = await store.anchors(clock.now() - overlapMs);
      // Once and for all: while replay fails, time goes by, and with it what is older than the overlap.
      if (older !== null) return note(older);
      if (lowest === null) return undefined;
      openUntil = clock.monotonic() + overlapMs;
      return note(lowest, { anchored_at: clock.now() });
    },
    async lower() {
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
  };
}
