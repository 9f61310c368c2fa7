// Walks a big table by its key, some rows at a time, so that locks are short and the process can do other work.
import { setTimeout as sleep } from 'node:timers/promises';
import type { Database } from '../../store/sql.ts';

const ROWS = 2_000;

/** Keys above `from`, up to `to`. */
export type Stretch = { from: number; to: number };

/** Sleeps after each stretch as long as `work` took, so that others get the store. */
export async function walk(
  db: Database,
  table: string,
  key: string,
  work: (stretch: Stretch) => Promise<unknown>,
): Promise<void> {
  const end = `select max(k) as "to" from (select ${key} as k from ${table} where ${key} > @from order by k limit ${ROWS}) page`;
  for (let from = Number.MIN_SAFE_INTEGER; ;) {
    const { to = null } = (await db.get<{ to: number | null }>(end, { from })) ?? {};
    if (to === null) return;
    const began = performance.now();
    await work({ from, to });
    await sleep(performance.now() - began);
    from = to;
  }
}
