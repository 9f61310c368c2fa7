// Finds an event by its time of receipt. Rows are in order of receipt, so bisection needs no index.
import type { Connection } from '../connection.ts';

export interface ByTime {
  bounds: () => { first: number | null; last: number | null };
  /** The number of the last event received before a time, Unix milliseconds. */
  lastBefore: (time: number) => number;
}

export function createByTime(db: Connection): ByTime {
  const bounds = db.prepare<[], { first: number | null; last: number | null }>(
    // Two selects, because one select with min and max would scan the whole table.
    'select (select min(seq) from events) as first, (select max(seq) from events) as last',
  );
  const receivedAt = db.prepare<unknown[], { seq: number; received_at: number }>(
    'select seq, received_at from events where seq >= ? order by seq limit 1',
  );
  return {
    bounds: () => bounds.get() ?? { first: null, last: null },
    lastBefore(time) {
      const { first, last } = bounds.get() ?? { first: null, last: null };
      if (first === null || last === null) return 0;
      let low = first - 1;
      let high = last;
      while (low < high) {
        const middle = Math.ceil((low + high) / 2);
        const row = receivedAt.get(middle);
        if (row && row.received_at < time) low = middle;
        else high = middle - 1;
      }
      return low;
    },
  };
}
