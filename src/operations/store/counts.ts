// Corrects the counts of tasks in `handlers` when people or pruning change many tasks.
import { STATES } from '../../store/sqlite/counters.ts';
import type { Change } from '../../store/sql.ts';

/** The tasks have gone from their `state` to `to`. Null: they were deleted. */
export async function moveCounts(
  tx: Change,
  tasks: { handler: number; state: number }[],
  to: (typeof STATES)[number] | null,
): Promise<void> {
  const groups = Map.groupBy(tasks, ({ handler, state }) => `${handler} ${STATES[state] ?? 'waiting'}`);
  for (const [group, { length: n }] of groups) {
    const [handler, from = ''] = group.split(' ');
    if (from === to) continue;
    const more = to === null ? '' : `, ${to} = ${to} + @n`;
    await tx.run(`update handlers set ${from} = ${from} - @n${more} where id = @handler`, {
      n,
      handler: Number(handler),
    });
  }
}
