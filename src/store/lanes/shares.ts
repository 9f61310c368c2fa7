// Fair shares: how many tasks each handler may claim in a turn. Handlers take turns, so the backlog of one does not
// delay another. Reruns take the places that are left.
import type { Room } from './lane.ts';

/** What one handler gets: lanes, each with its first task, then tasks that wait for no other. */
export interface Pick<Lane, Single> {
  handler: number;
  rerun: boolean;
  lanes: Lane[];
  singles: Single[];
}

export interface Candidates<Lane, Single> {
  /** Up to this many lanes whose time has come. */
  lanes(handler: number, rerun: boolean, most: number): Lane[];
  singles(handler: number, rerun: boolean, most: number): Single[];
}

export interface Shared<Lane, Single> {
  picks: Pick<Lane, Single>[];
  /** What is left of `limits` and of `reruns`. */
  left: Map<number, number>;
  reruns: number;
}

/** `round`: the number of earlier turns that claimed anything. It decides which handler is first. */
export function shareOut<Lane, Single>(
  { room, handlers, limits, reruns = room }: Room,
  round: number,
  candidates: Candidates<Lane, Single>,
): Shared<Lane, Single> {
  const left = new Map(limits);
  const picks: Pick<Lane, Single>[] = [];
  const taken = share(room, false);
  const again = share(Math.min(room - taken, reruns), true);
  return { picks, left, reruns: reruns - again };

  function share(places: number, rerun: boolean): number {
    let used = 0;
    for (const index of places > 0 ? handlers.keys() : []) {
      const handler = handlers[(index + round) % handlers.length] ?? 0;
      const limit = left.get(handler);
      const fair = Math.ceil((places - used) / (handlers.length - index));
      const pick = pickFor(handler, rerun, Math.min(fair, limit ?? fair));
      const count = pick.lanes.length + pick.singles.length;
      if (limit !== undefined) left.set(handler, limit - count);
      used += count;
      if (count > 0) picks.push(pick);
    }
    return used;
  }

  function pickFor(handler: number, rerun: boolean, places: number): Pick<Lane, Single> {
    if (places <= 0) return { handler, rerun, lanes: [], singles: [] };
    const singles = candidates.singles(handler, rerun, places);
    // Half the places are for tasks without a lane, half for lanes. Either half may use what the other leaves. An odd
    // place goes to the other half each time that every handler has been first once.
    const half = Math.floor((places + (Math.floor(round / handlers.length) % 2)) / 2);
    const reserved = rerun ? 0 : Math.min(singles.length, half);
    const lanes = candidates.lanes(handler, rerun, places - reserved);
    return { handler, rerun, lanes, singles: singles.slice(0, places - lanes.length) };
  }
}

/** Places that a turn leaves make chains: each lane of a handler may run the same number of tasks in a row. */
export function chainLengths<Lane>(
  { picks, left, reruns }: Shared<Lane, unknown>,
  room: number,
  chains: Map<number, number>,
): Map<Lane, number> {
  const lengths = new Map<Lane, number>();
  let free = room - picks.reduce((sum, { lanes, singles }) => sum + lanes.length + singles.length, 0);
  let freeReruns = reruns;
  for (const [index, { handler, rerun, lanes }] of picks.entries()) {
    const share = Math.floor(free / (picks.length - index));
    const places = Math.min(share, left.get(handler) ?? share, rerun ? freeReruns : share);
    const extra = lanes.length === 0 ? 0 : Math.min(Math.floor(places / lanes.length), (chains.get(handler) ?? 1) - 1);
    for (const lane of lanes) lengths.set(lane, 1 + Math.max(0, extra));
    const used = Math.max(0, extra) * lanes.length;
    free -= used;
    if (rerun) freeReruns -= used;
    const limit = left.get(handler);
    if (limit !== undefined) left.set(handler, limit - used);
  }
  return lengths;
}
