// The table `state`: counters as integers, everything else as JSON.
import type { Counts } from '../store.ts';
import type { Db } from './database.ts';

export type State = ReturnType<typeof createState>;

export function createState(db: Db) {
  const get = db.value<string>('select value from state where name = ?');
  const set = db.sql('insert into state values (?, ?) on conflict (name) do update set value = excluded.value');
  const add = db.sql(`insert into state values (?, cast(? as integer))
    on conflict (name) do update set value = value + excluded.value`);

  return {
    get: (name: string): unknown => JSON.parse(get.get(name) ?? 'null'),
    set: (name: string, value: unknown): void => void set.run(name, JSON.stringify(value)),
    count(counts: Counts): void {
      for (const [name, n] of Object.entries(counts)) if (n !== 0) add.run(name, n);
    },
  };
}
