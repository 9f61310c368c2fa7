// Whether what the stream brings has just happened. A stream that is heard all the time brings events as they happen; what
// it resends after a pause of unknown length is of unknown age, until it has come to what replay has not shown yet.
import type { Clock } from '../base/clock.ts';
import { isBehind, type Cursor } from '../wire/cursor.ts';
import type { Ended } from './pass.ts';

/** Pings come every 25 s (contract 6.1). */
const PAUSE_MS = 60_000;
/** What replay has not shown so lately is no older than that. */
const LATELY_MS = 120_000;

export interface Liveness {
  opened: (after: Cursor | null) => void;
  /** A ping. */
  heard: () => void;
  /** It leaves something out, or says that it has. */
  broken: () => void;
  /** An item has come. */
  isLive: (cursor: Cursor) => boolean;
}

export function createLiveness(clock: Clock, ended: () => Ended | null): Liveness {
  /** The last sign of life, and since when there was no long pause between two. */
  let heardAt = -Infinity;
  let since = Infinity;
  /** What was resended is through. */
  let live = false;

  function hear(): void {
    const now = clock.monotonic();
    if (now - heardAt > PAUSE_MS) [since, live] = [now, false];
    heardAt = now;
  }

  return {
    heard: hear,
    opened(after) {
      if (after !== null) return;
      hear();
      live = true;
    },
    broken() {
      [heardAt, live] = [-Infinity, false];
    },
    isLive(cursor) {
      hear();
      const end = ended();
      const isNew = end !== null && isBehind(end.watermark, cursor);
      live ||= isNew && (end.at >= since || clock.monotonic() - end.at <= LATELY_MS);
      return live;
    },
  };
}
