// The replay role of the store: how far history was read, and where to read on.
import type { Cursor } from '../wire/cursor.ts';
import type { Ahead, DeliveredType, Lowered, Lowering, Stretch } from './keep.ts';

export interface ReplayStore {
  /** The lowest cursor that a delivery has brought. */
  lowestDelivered(): Promise<Cursor | null>;
  /**
   * Lowers the watermark in one transaction, never below the floor. Replay must show everything above the new watermark
   * again.
   */
  lowerWatermark(lowering: Lowering): Promise<Lowered>;
  /** Looks for proof that the watermark is too high, in events numbered up to `upTo`. Null: no proof. */
  watermarkAhead(types: string[], upTo: number, now: number): Promise<Ahead | null>;
  /** Nothing raises the watermark to this cursor or above it. Null: no limit. */
  ceiling(): Promise<Cursor | null>;
  /**
   * Removes the watermark and returns it. The range above becomes a gap. The next API key starts without a watermark.
   */
  giveUpWatermark(now: number): Promise<Cursor | null>;
  newestCursor(): Promise<Cursor | null>;
  /** The nearest known cursor above `bound`, or below it. If `bound` is null: the lowest known, or the highest. */
  cursorAbove(bound: Cursor | null): Promise<Cursor | null>;
  cursorBelow(bound: Cursor | null): Promise<Cursor | null>;
  /** The highest known cursor up to this one. */
  cursorUpTo(bound: Cursor): Promise<Cursor | null>;
  /**
   * `lowest`: the lowest cursor above the last gap. `older`: the median of the last hundred cursors received before
   * `before` and above that gap, so that one odd cursor decides nothing. `young`: true if an event was received later.
   */
  anchors(before: number): Promise<{ lowest: Cursor | null; older: Cursor | null; young: boolean }>;
  /**
   * Counts by type the events above `proved_from` that webhooks brought and neither replay nor stream showed.
   * Looks at `limit` events numbered above `after`, up to `upTo`. `next` is where to continue; at the end, `after`.
   */
  unseen(
    after: number,
    upTo: number,
    limit: number,
  ): Promise<{ types: { type: string; events: number }[]; next: number }>;
  /**
   * Counts stored events above `after` by type and outcome. Those above `upTo` count if received before `before`.
   */
  stretch(after: Cursor, upTo: Cursor, before: number, limit: number): Promise<Stretch>;
  /** The types that webhooks bring, and how many events of each they missed since the last delivery of that type. */
  types(): Promise<DeliveredType[]>;
  /** Notes that replay begins to read history from before this store. */
  openHistory(): Promise<void>;
  /** Notes where the first catch-up of replay ended: events above this cursor are newer than the store. Set once. */
  endHistory(upTo: Cursor): Promise<void>;
  /** Call it RECONCILE_OVERLAP_SECONDS after `endHistory`. Events that are still undecided become history. */
  closeHistory(): Promise<void>;
}
