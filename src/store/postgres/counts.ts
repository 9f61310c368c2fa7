// The counts of tasks in `handlers`: changes of one transaction, written by its last statement, because every other
// transaction writes the same few rows.
import type { Tx } from './connection.ts';
import { rows } from './rows.ts';

const NAMES = ['waiting', 'done', 'skipped', 'dead', 'failed'] as const;
/** By the state of a task. */
export const STATES = ['waiting', 'done', 'skipped', 'dead'] as const;

const CHANGES = rows({ bigint: 'id waiting done skipped dead failed' });
const UPDATE = `update handlers h set ${NAMES.map((name) => `${name} = h.${name} + v.${name}`).join()}
  from ${CHANGES.from} where h.id = v.id`;

export class Counts {
  readonly #changes = new Map<number, Record<(typeof NAMES)[number], number>>();

  add(handler: number, name: (typeof NAMES)[number], n = 1): void {
    const change = this.#changes.get(handler) ?? { waiting: 0, done: 0, skipped: 0, dead: 0, failed: 0 };
    change[name] += n;
    this.#changes.set(handler, change);
  }

  /** A task went from one state to another. */
  move(handler: number, from: number, to: number): void {
    this.add(handler, STATES[from] ?? 'waiting', -1);
    this.add(handler, STATES[to] ?? 'waiting');
  }

  get isEmpty(): boolean {
    return this.#changes.size === 0;
  }

  write(tx: Tx): void {
    const list = [...this.#changes].map(([id, change]) => ({ id, ...change }));
    if (list.length > 0) tx.last(UPDATE, CHANGES.of(list.toSorted((a, b) => a.id - b.id)));
  }
}
