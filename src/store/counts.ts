// The counts of tasks, kept in the table `handlers` because counting millions of rows takes too long.
import type { Change } from './sql.ts';

/** The name of each value of `tasks.state`. */
export const STATES = ['waiting', 'done', 'skipped', 'dead'] as const;
export const NAMES = [...STATES, 'failed'] as const;
type Changes = Record<(typeof NAMES)[number], number>;

/** The value of `tasks.state` after each outcome. */
export const STATE = { again: 0, done: 1, skipped: 2, dead: 3 } as const;

export const COUNT = `update handlers set ${NAMES.map((name) => `${name} = ${name} + @${name}`).join()} where id = @id`;

/** What one transaction changes. Write it last. */
export class Counts {
  readonly #of = new Map<number, Changes>();

  add(handler: number, name: keyof Changes, n: number): void {
    let changes = this.#of.get(handler);
    if (!changes) this.#of.set(handler, (changes = { waiting: 0, done: 0, skipped: 0, dead: 0, failed: 0 }));
    changes[name] += n;
  }

  move(handler: number, from: number, to: number): void {
    this.add(handler, STATES[from] ?? 'waiting', -1);
    this.add(handler, STATES[to] ?? 'waiting', 1);
  }

  /** By id, so that no two transactions wait for each other. */
  list(): ({ id: number } & Changes)[] {
    return [...this.#of].map(([id, changes]) => ({ id, ...changes })).toSorted((a, b) => a.id - b.id);
  }

  /** Others that count for the same handler wait from now on until the transaction ends. */
  async write(tx: Change): Promise<void> {
    for (const changes of this.list()) await tx.last(COUNT, changes);
  }
}
