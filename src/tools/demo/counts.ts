// Counts what the demo's handler recorded in its table.
import type { Store } from '../../store/store.ts';

export interface Handled {
  /** All records. */
  completions: number;
  /** Events with one record. */
  once: number;
  late: number;
  /** Records that are late or in lane order. */
  inOrder: number;
}

const HIGHEST = 'max(cursor) over (partition by lane order by n rows between unbounded preceding and 1 preceding)';

export async function countHandled(store: Store): Promise<Handled> {
  const count = async (from: string): Promise<number> => {
    const [row] = await store.work.read(`select count(*) as n from ${from}`, []);
    return Number(row?.['n']);
  };
  return {
    completions: await count('demo_handled'),
    once: await count('(select 1 from demo_handled group by key having count(*) = 1) as handled'),
    late: await count('demo_handled where late = 1'),
    inOrder: await count(
      `(select late, cursor, coalesce(${HIGHEST}, -1) as before from demo_handled) as handled where late = 1 or cursor > before`,
    ),
  };
}
