// Finds the event type, or the field, that was probably meant by a misspelt one. It is too small a task for a dependency.
import { eventTypes, typeOf } from '../wire/event-map.ts';

/** At most one letter in this many may be wrong. */
const PER_SLIP = 4;

/** The known type nearest to a misspelt one. Undefined: none is near. */
export function nearestType(type: string, known = Object.keys(eventTypes)): string | undefined {
  const [best] = known
    .map((one) => ({ one, slips: slipsBetween(one.toLowerCase(), type.toLowerCase()) }))
    .toSorted((a, b) => a.slips - b.slips);
  return best && best.slips <= Math.max(best.one.length, type.length) / PER_SLIP ? best.one : undefined;
}

/** The field of the type's data that is misspelt so. Undefined: src/events.ts names this field, or none that is near. */
export function nearestField(type: string, field: string): string | undefined {
  const { shape = {} } = (typeOf(type)?.data ?? {}) as { shape?: object };
  return Object.hasOwn(shape, field) ? undefined : nearestType(field, Object.keys(shape));
}

/** The number of letters to add, remove, replace or swap with a neighbour (optimal string alignment). */
function slipsBetween(a: string, b: string): number {
  let before: number[] = [];
  let row = Array.from({ length: b.length + 1 }, (_, j) => j);
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let j = 1; j <= b.length; j++) {
      const same = a[i - 1] === b[j - 1] ? 0 : 1;
      const swapped = same && i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1];
      next[j] = Math.min(
        (row[j] ?? 0) + 1,
        (next[j - 1] ?? 0) + 1,
        (row[j - 1] ?? 0) + same,
        swapped ? (before[j - 2] ?? 0) + 1 : Infinity,
      );
    }
    [before, row] = [row, next];
  }
  return row[b.length] ?? 0;
}
