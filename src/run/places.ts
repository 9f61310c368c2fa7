// How many tasks each handler may claim, and how many of one lane. Pure.

/** What one handler is doing. */
export interface Load {
  /** Chains that have a place. */
  running: number;
  /** Tasks of claimed chains that are not over, ended tasks included. */
  claimed: number;
  /** Mean duration of its attempts, in milliseconds. Null: unknown. */
  meanMs: number | null;
}

/** A chain begins no further task after this time. */
export const CHAIN_MS = 50;
const CHAIN = 64;
/** The most tasks of one handler that are claimed at the same time. */
const MOST = 512;

/** The most tasks of a new chain: as many as the handler should end in CHAIN_MS. */
export function chainOf({ meanMs }: Load): number {
  return meanMs === null ? 1 : Math.max(1, Math.min(CHAIN, Math.floor(CHAIN_MS / Math.max(meanMs, 0.01))));
}

/** Places that this handler may take. One is kept for each other handler that has none, up to half of all places. */
export function freeFor(load: Load, loads: Load[], places: number): number {
  const taken = loads.reduce((sum, { running }) => sum + running, 0);
  const idle = loads.filter((other) => other !== load && other.running === 0).length;
  return Math.max(0, places - taken - Math.min(idle, Math.floor(places / 2)));
}

/** Tasks that the next turn may claim for this handler. */
export function roomFor(load: Load, loads: Load[], places: number): number {
  const most = (load.running + freeFor(load, loads, places)) * chainOf(load);
  return Math.max(0, Math.min(MOST, most) - load.claimed);
}
