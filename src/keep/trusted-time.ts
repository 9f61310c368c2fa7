// The time by which pruning measures ages. The clock may be wrong by days, and what is pruned is gone. So this time
// advances while `keep` runs, and the newest good delivery sets it to the time that the service has signed.
import type { Receipts, TrustedTime } from '../store/keep.ts';
import type { Store } from '../store/store.ts';

const DAY_MS = 86_400_000;

/** `known`: as it was last stored. `ranMs`: how long `keep` has run since then. */
export async function trustedTime(
  store: Pick<Store, 'read' | 'state'>,
  now: number,
  known: Receipts | null,
  ranMs: number,
): Promise<TrustedTime> {
  const { secrets } = await store.read.status(now);
  const signedAt = Math.max(0, ...secrets.map(({ lastAt }) => Date.parse(lastAt ?? '') || 0));
  const before = known?.trusted ?? {
    at: known?.at ?? (await newestReceipt(store, now)),
    signedAt: known ? signedAt : 0,
  };
  return signedAt > before.signedAt ? { at: signedAt, signedAt } : { ...before, at: before.at + ranMs };
}

/** Without an event, the time when the store was created. */
async function newestReceipt(store: Pick<Store, 'read' | 'state'>, now: number): Promise<number> {
  const [newest] = (await store.read.events({ limit: 1 }, now)).events;
  return newest?.receivedAt ?? store.state.get('born');
}

/** How far the clock is ahead, milliseconds. 0: less than a day, which a pause of `keep` explains. */
export function aheadMs(now: number, { at }: TrustedTime): number {
  return now - at > DAY_MS ? now - at : 0;
}
