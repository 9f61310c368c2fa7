// Reads quarantined bytes again, for example after the code that reads events was changed.
import type { AdminStore } from '../store/admin.ts';
import type { Accepted } from '../store/ingest.ts';
import type { ReadStore } from '../store/read.ts';

/** Reads one row, or the newest rows up to a limit. Resolves to an outcome per row; undefined: no such row. */
export async function readAgain(
  store: Pick<AdminStore, 'retryQuarantined'> & Pick<ReadStore, 'quarantine'>,
  which: number | { newest: number },
  now: number,
): Promise<(Accepted | undefined)[]> {
  const ids = typeof which === 'number' ? [which] : (await store.quarantine(which.newest)).map(({ id }) => id);
  const outcomes: (Accepted | undefined)[] = [];
  for (const id of ids) outcomes.push(await store.retryQuarantined(id, now));
  return outcomes;
}
