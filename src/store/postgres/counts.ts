// The counts of tasks in `handlers`: changes of one transaction, written as its last statement, because every other one
// writes the same few rows.
import type { Sql } from '../sql.ts';
import { columnsOf } from './values.ts';

type Change = Record<'waiting' | 'done' | 'skipped' | 'dead' | 'failed', number>;

export class Counts {
  readonly #changes = new Map<number, Change>();

  get isEmpty(): boolean {
    return this.#changes.size === 0;
  }

  add(handler: number, name: keyof Change, n: number): void {
    const change = this.#changes.get(handler) ?? { waiting: 0, done: 0, skipped: 0, dead: 0, failed: 0 };
    change[name] += n;
    this.#changes.set(handler, change);
  }

  /** A task that waited has ended. */
  ended(handler: number, as: 'done' | 'skipped' | 'dead'): void {
    this.add(handler, 'waiting', -1);
    this.add(handler, as, 1);
  }

  async write(tx: Sql): Promise<void> {
    const rows = [...this.#changes].map(([id, change]) => ({ id, ...change })).toSorted((a, b) => a.id - b.id);
    if (rows.length === 0) return;
    await tx.run(
      `update handlers h set waiting = h.waiting + v.waiting, done = h.done + v.done, skipped = h.skipped + v.skipped,
        dead = h.dead + v.dead, failed = h.failed + v.failed
      from unnest(cast(@id as bigint[]), cast(@waiting as bigint[]), cast(@done as bigint[]), cast(@skipped as bigint[]),
        cast(@dead as bigint[]), cast(@failed as bigint[])) as v (id, waiting, done, skipped, dead, failed)
      where h.id = v.id`,
      columnsOf(rows, 'id', 'waiting', 'done', 'skipped', 'dead', 'failed'),
    );
  }
}
