// Decides how far the stream can be relied on: from which cursor it is complete, and whether its events are live, that
// is, have just happened. After a pause the stream resends events of unknown age. Events are live again when their
// cursors are above the watermark of a forward pass that ended after the pause.
import type { Clock } from '../base/clock.ts';
import { isBehind, type Cursor } from '../wire/cursor.ts';
import type { Ended } from './pass.ts';

/** The longest silence of an unbroken stream. Pings come every 25 s (contract 6.1). */
const PAUSE_MS = 60_000;
/** If the forward pass ended at most this long ago, an event above its watermark has just happened. */
const LATELY_MS = 120_000;

export function createContinuity(clock: Clock, ended: () => Ended | null) {
  /** When the last sign of life came, and since when there was no pause. Both by the monotonic clock. */
  let heardAt = -Infinity;
  let since = Infinity;
  /** True: all resent events have arrived, so further events have just happened. */
  let live = false;
  /** The stream has brought every event after this cursor. Null: it is complete from the next event on. */
  let wholeFrom: Cursor | null = null;
  /** The watermark at the last call of `isWhole` or `moved`. */
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
    /** Call it with the cursor of the first new item. True: the stream has brought everything after the watermark. */
    isWhole: (first: Cursor, watermark: Cursor | null): boolean => {
      // If the watermark was lowered, the stream has not brought the events between its new and its old position.
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
