// Histograms of how long answers and attempts took. The store keeps the counts, ops page and metrics show them.

/** Histogram bucket upper bounds, in ms. */
export const ACK_LE_MS = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, Infinity];
export const ACK_NAMES = ACK_LE_MS.map((ms): `ack.${string}` => `ack.${ms}`);

export const bucketOf = (ms: number): number => ACK_LE_MS.find((most) => ms <= most) ?? Infinity;

/** The counters to raise after an answer that took this long. */
export function countsOf(ms: number): Record<`ack.${string}`, number> {
  return { [`ack.${bucketOf(ms)}`]: 1, 'ack.sum_us': Math.round(ms * 1_000) };
}
