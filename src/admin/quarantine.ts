// Reads quarantined bytes again, for example after the code that reads events was changed.
import type { Store } from '../store/store.ts';
import type { Accepted } from '../store/ingest.ts';

/** Reads one row, or the newest rows up to a limit. Resolves to an outcome per row; undefined: no such row. */
export async function readAgain(
  store: Pick<Store, 'admin' | 'read'>,
  which: number | { newest: number },
  now: number,
): Promise<(Accepted | undefined)[]> {
  const ids = typeof which === 'number' ? [which] : (await store.read.quarantine(which.newest)).map(({ id }) => id);
  return Array.fromAsync(ids, (id) => store.admin.retryQuarantined(id, now));
}
