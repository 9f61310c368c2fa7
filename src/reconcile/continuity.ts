// Decides how far the stream can be relied on: from which cursor it is complete, and whether its events have just
// happened. After a pause the stream resends events of unknown age. Events are live again when their cursors are above
// the watermark of a forward pass that ended after the pause.
import type { Clock } from '../base/clock.ts';
import { isBehind, type Cursor } from '../wire/cursor.ts';
import type { Ended } from './pass.ts';

/** The longest silence of an unbroken stream. Pings come every 25 s (contract 6.1). */
const PAUSE_MS = 60_000;
/** If the forward pass ended at most this long ago, an event above its watermark has just happened. */
const LATELY_MS = 120_000;

export function createContinuity(clock: Clock, ended: () => Ended | null) {
  /** The last sign of life, and the start of the time without a pause, both by the monotonic clock. */
  let heardAt = -Infinity;
  let since = Infinity;
  /** All resent events have arrived. */
  let live = false;
  /** The stream has brought every event after this cursor. Null: it is complete from the next event on. */
  let wholeFrom: Cursor | null = null;
  /** The watermark at the last call. */
  let reached: Cursor | null = null;

  function heard(): void {
    const now = clock.monotonic();
    if (now - heardAt > PAUSE_MS) [since, live] = [now, false];
    heardAt = now;
  }

  return {
    /** Call it for a ping. */
    heard,
    opened: (after: Cursor | null): void => {
      wholeFrom ??= after;
      if (after !== null) return;
      heard();
      live = true;
    },
    /** Call it when the stream has left events out. */
    broken: (): void => {
      [heardAt, live, wholeFrom] = [-Infinity, false, null];
    },
    /** Call it for each item. True: the event has just happened. */
    isLive: (cursor: Cursor): boolean => {
      heard();
      const end = ended();
      const isNew = end !== null && isBehind(end.watermark, cursor);
      live ||= isNew && (end.at >= since || clock.monotonic() - end.at <= LATELY_MS);
      return live;
    },
    /** Call it with the first of the items. True: the stream has brought everything after the watermark. */
    isWhole: (first: Cursor, watermark: Cursor | null): boolean => {
      // The watermark was lowered, and the stream has not brought the events in between.
      if (isBehind(watermark, reached)) wholeFrom = null;
      wholeFrom ??= first;
      reached = watermark;
      return watermark !== null && !isBehind(watermark, wholeFrom);
    },
    /** Call it when the stream has raised the watermark. */
    moved: (watermark: Cursor): void => {
      if (isBehind(reached, watermark)) reached = watermark;
    },
  };
}
