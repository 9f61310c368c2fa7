// Which stored event an arrival is: whether it contradicts the row that has its cursor or its id, or was removed before.
import { isDeepStrictEqual } from 'node:util';
import { describe } from '../base/errors.ts';
import { isBehind, type Cursor } from '../wire/cursor.ts';
import { dataOf, type Arrival, type Reading } from '../wire/event.ts';
import { originOf } from './rows.ts';
import { StoreError, type Counts, type IngestStore, type Verdict } from './store.ts';

/** A stored event that has the cursor or the id of an arrival. */
export interface Known {
  seq: number;
  cursor: Cursor | null;
  id: string | null;
  type: string;
  session: string | null;
  origin: number;
  origins: number;
  erased: 0 | 1;
}

/** Null contradicts nothing. If both have an id, which replay and the stream omit, their data must be equal too. */
export function contradicts(event: Arrival, known: Known, bodyOf: () => string | undefined): boolean {
  if (known.erased) return false;
  const differ = (a: string | null, b: string | null): boolean => a !== null && b !== null && a !== b;
  if (event.type !== known.type || differ(event.session, known.session) || differ(event.cursor, known.cursor))
    return true;
  if (event.id === null || known.id === null) return false;
  const [text, stored = ''] = [event.body.toString(), bodyOf()];
  if (text === stored) return false;
  const { origin, type } = event;
  return !isDeepStrictEqual(dataOf(origin, type, text), dataOf(originOf(known.origin), type, stored));
}

/** What replay or the stream brings at or below the floor was pruned. A webhook is never taken for a pruned event. */
export function isRemoved({ origin, cursor }: Arrival, floor: Cursor | null): boolean {
  const isReplayed = origin === 'replay' || origin === 'stream';
  return isReplayed && cursor !== null && floor !== null && !isBehind(floor, cursor);
}

export function doesProve(watermark: Cursor | null, { from, to }: { from: Cursor | null; to: Cursor }): boolean {
  const hasReached = from === null || (watermark !== null && !isBehind(watermark, from));
  return hasReached && isBehind(watermark, to);
}

/** If a batch fails for a reason that is not the store's, each reading is tried alone. One that fails is quarantined. */
export const orAlone =
  (accept: IngestStore['accept']): IngestStore['accept'] =>
  async ({ readings, ...rest }) => {
    const refused = (error: unknown, reading: Reading): Promise<Verdict[]> => {
      if (error instanceof StoreError) throw error;
      const { origin, cursor, body } = 'event' in reading ? reading.event : reading.unreadable;
      const unreadable = { origin, cursor, body, reason: `the store refuses it: ${describe(error).name}` };
      return accept({ readings: [{ unreadable }] });
    };
    try {
      return await accept({ readings, ...rest });
    } catch (error) {
      if (error instanceof StoreError) throw error;
    }
    const verdicts: Verdict[] = [];
    for (const one of readings)
      verdicts.push(...(await accept({ readings: [one] }).catch((error: unknown) => refused(error, one))));
    await accept({ readings: [], ...rest });
    return verdicts;
  };

export function add(counts: Counts, name: string): void {
  counts[name] = (counts[name] ?? 0) + 1;
}
