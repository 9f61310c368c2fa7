// A memory budget that bodies share, by the bytes that have arrived. Beyond it, the largest that have taken the longest are
// dropped. A sender's address is no reason: behind a proxy all have the same one.

/** A younger body counts as this old, because the bodies of strangers who begin again and again are always young. */
const YOUNG_MS = 1_000;

export interface Body {
  held: number;
  /** The bytes that it is expected to have. */
  size: number;
  /** Monotonic milliseconds. */
  since: number;
  drop(): void;
}

export function createBudget(most: number, monotonic: () => number) {
  const arriving = new Set<Body>();
  let held = 0;

  function makeRoom(): void {
    const now = monotonic();
    const cost = (body: Body): number => Math.max(body.size, body.held) * Math.max(YOUNG_MS, now - body.since);
    for (const costliest of [...arriving].toSorted((a, b) => cost(b) - cost(a))) {
      costliest.drop();
      // More room than is needed at once, so that in a crowd few chunks cost a search.
      if (held <= most * 0.9) return;
    }
  }

  return {
    charge(body: Body, bytes: number): void {
      arriving.add(body);
      held += bytes - body.held;
      body.held = bytes;
      if (held > most) makeRoom();
    },
    /** The body is complete: it is charged until its release, but no longer dropped. */
    keep: (body: Body): void => void arriving.delete(body),
    release(body: Body): void {
      arriving.delete(body);
      held -= body.held;
      body.held = 0;
    },
  };
}
