// Identity: decides which stored event an arrival is. It is pure: the store looks up what is known, and writes what is
// decided. Contradictions are recorded; no event is merged or dropped.
import { dataOfBody, type Incoming } from '../wire/event.ts';
import { digestOf, sameJson, type JsonObject } from '../wire/json.ts';
import type { StoredEvent } from './work.ts';

/** A stored event that may be the same as the arriving one. */
export interface StoredIdentity extends Pick<StoredEvent, 'seq' | 'id' | 'cursor' | 'type' | 'origin'> {
  /** 1: another event with other data has the same cursor. */
  conflicting: 0 | 1;
  /** Null: purged or erased. */
  body: Uint8Array | null;
  /** Digest of the data; set when the body is purged. Null beside a null body: erased. */
  digest: Uint8Array | null;
}

/** What a store knows about the cursor and the id of an arriving event. */
export interface Known<Stored> {
  /** The event with the cursor, or with the alias `nameOfCursor`, that is not conflicting. */
  atCursor: Stored | undefined;
  /** The event with the id, or with the alias `nameOfId`. */
  withId: Stored | undefined;
  /** The conflicting events with the cursor. */
  conflicting: Stored[];
}

export type Decision<Stored> =
  /** Nothing stored has its cursor or its id. */
  | { is: 'new' }
  /** Its cursor belongs to another event. It is stored as a conflicting event, and the contradiction is recorded. */
  | { is: 'conflicting'; of: Stored; reason: string }
  | {
      is: 'known';
      of: Stored;
      /** The stored event gets the id of the arriving one. */
      addId?: true;
      /** The stored event is known by this name from now on. */
      alias?: string;
      /** The arriving event contradicts the stored one. */
      reason?: string;
    };

export function decide<Stored extends StoredIdentity>(event: Incoming, known: Known<Stored>): Decision<Stored> {
  const { atCursor: c, withId: i } = known;
  if (i) {
    if (c && c.seq !== i.seq && !(i.conflicting && i.cursor === event.cursor))
      return { is: 'known', of: i, reason: 'its id and its cursor name two different events' };
    const alias = !c && nameOfCursor(event);
    const reason = sameData(i, event) ? undefined : 'its id was known with other data';
    return { is: 'known', of: i, ...(alias && { alias }), ...(reason && { reason }) };
  }
  if (!c) return { is: 'new' };
  const same = [c, ...known.conflicting].find((one) => sameData(one, event));
  const other = same ? {} : { reason: 'its cursor was known with other data' };
  if (event.id === null) return { is: 'known', of: same ?? c, ...other };
  // The stored event had no id only because no webhook had brought it. So the webhook brings the same event.
  if (c.id === null && (!same || same === c)) return { is: 'known', of: c, addId: true, ...other };
  if (same) return { is: 'known', of: same, alias: `i:${event.id}` };
  return { is: 'conflicting', of: c, reason: 'its cursor was known with another id and other data' };
}

/** What pruning has left of the past: events at or below the floor may have been stored and pruned. */
export interface Pruned {
  floor: bigint | null;
  /** Unix milliseconds: every pruned event happened before this time. */
  before: number;
}

/** Where an unknown event stands. One at or below the floor was pruned, unless it happened after all pruned events. */
export function placeOf(event: Incoming, { floor, before }: Pruned, now: number): 'above' | 'pruned' | 'regressed' {
  const { cursor, createdAt } = event;
  if (floor === null || cursor === null || BigInt(cursor) > floor) return 'above';
  return createdAt !== null && createdAt >= before && createdAt <= now ? 'regressed' : 'pruned';
}

/** The names under which an event may have an alias. */
export const nameOfCursor = ({ cursor }: Incoming): string | null => cursor && `c:${cursor}`;
export const nameOfId = ({ id }: Incoming): string | null => id && `i:${id}`;

/** Compared as JSON, because origins write the same data in different bytes. An erased body contradicts nothing. */
function sameData(known: StoredIdentity, event: Incoming): boolean {
  if (known.type !== event.type) return known.body === null && known.digest === null;
  if (known.body === null) return known.digest === null || Buffer.compare(known.digest, digestOf(dataOf(event))) === 0;
  if (known.origin === event.origin && Buffer.compare(known.body, event.body) === 0) return true;
  return sameJson(dataOfBody(known.origin, known.type, known.body), dataOf(event));
}

function dataOf({ origin, type, body }: Incoming): JsonObject {
  return dataOfBody(origin, type, body);
}
