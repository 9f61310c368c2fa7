// A cursor is a place in the service's history: a decimal 64-bit integer in a string (contract 6.1). It is compared
// as an integer. A Number would round it, and as text "9" would come after "10".

/** Canonical decimal text of an integer from 0 to 2^63 - 1. */
export type Cursor = string & { readonly __cursor: never };

const SHAPE = /^(0|[1-9]\d{0,18})$/;
const MAX = 2n ** 63n - 1n;

export function parseCursor(text: unknown): Cursor | undefined {
  if (typeof text !== 'string' || !SHAPE.test(text)) return undefined;
  return text.length < 19 || BigInt(text) <= MAX ? (text as Cursor) : undefined;
}

/** Negative if `a` comes first, as sort() expects. */
export function compareCursors(a: Cursor, b: Cursor): number {
  return a.length - b.length || (a < b ? -1 : a > b ? 1 : 0);
}

/** Whether `a` comes before `b`. Null comes before every cursor. */
export function isBehind(a: Cursor | null, b: Cursor | null): boolean {
  return b !== null && (a === null || compareCursors(a, b) < 0);
}
