// Walks a big table by its key, a stretch of rows at a time: no lock is held for long, and the process stays awake.
import { setTimeout as sleep } from 'node:timers/promises';
import type { Db } from '../../store/sqlite/database.ts';

const ROWS = 2_000;

/** Calls `work` with each stretch: above `from`, up to `to`. As much time as it takes is left to others. */
export function createWalk(db: Db, key: string, table: string) {
  const end = db.value<number | null>(
    `select max(k) from (select ${key} as k from ${table} where ${key} > ? order by k limit ${ROWS})`,
  );
  return async (work: (from: number, to: number) => Promise<unknown>): Promise<void> => {
    for (let from = Number.MIN_SAFE_INTEGER; ;) {
      const to = await db.query(() => end.get(from) ?? null);
      if (to === null) return;
      const began = performance.now();
      await work(from, to);
      await sleep(performance.now() - began);
      from = to;
    }
  };
}
