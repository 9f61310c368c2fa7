// The counts of tasks, kept in the table `handlers` because counting millions of rows takes too long.
import type { Db } from './database.ts';

const NAMES = ['waiting', 'done', 'skipped', 'dead', 'failed'] as const;
export type CounterName = (typeof NAMES)[number];
/** The name of each value of `tasks.state`. */
export const STATES = ['waiting', 'done', 'skipped', 'dead'] as const;

export type Counters = ReturnType<ReturnType<typeof createCounters>>;

/** Counters of one transaction. Write them before it ends. */
export function createCounters(db: Db) {
  const update = db.sql(
    `update handlers set ${NAMES.map((name) => `${name} = ${name} + @${name}`).join()} where id = @id`,
  );
  return () => {
    const changes = new Map<number, Record<CounterName, number>>();
    return {
      add(handler: number, name: CounterName, n: number): void {
        let change = changes.get(handler);
        if (!change) changes.set(handler, (change = { waiting: 0, done: 0, skipped: 0, dead: 0, failed: 0 }));
        change[name] += n;
      },
      write(): void {
        for (const [id, change] of changes) update.run({ id, ...change });
      },
    };
  };
}
