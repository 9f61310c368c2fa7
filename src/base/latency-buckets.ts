// How long answers took: what receive counts, the store keeps, and page and metrics show as a distribution.

/** Answered deliveries are counted by the time that the answer took: the first of these milliseconds that it kept to. */
export const ACK_LE_MS = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, Infinity];
export const ACK_NAMES = ACK_LE_MS.map((ms): `ack.${string}` => `ack.${ms}`);

/** What an answer that took so many milliseconds is counted as. */
export function countsOf(ms: number): Record<`ack.${string}`, number> {
  const name = ACK_NAMES[ACK_LE_MS.findIndex((most) => ms <= most)] ?? 'ack.Infinity';
  return { [name]: 1, 'ack.sum_us': Math.round(ms * 1_000) };
}
