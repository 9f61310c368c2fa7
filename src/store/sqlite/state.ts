// The table `state`: the watermark and the floor as integers, counters as integers, everything else as JSON.
import type { Cursor } from '../../wire/cursor.ts';
import type { Counts } from '../store.ts';
import type { Db } from './database.ts';

export type State = ReturnType<typeof createState>;

export function createState(db: Db) {
  const cursor = db.value<Cursor>('select cast(value as text) from state where name = ?');
  const setCursor = db.sql(`insert into state values (?, cast(? as integer))
    on conflict (name) do update set value = excluded.value`);
  const get = db.value<string | number>('select value from state where name = ?');
  const set = db.sql('insert into state values (?, ?) on conflict (name) do update set value = excluded.value');
  const add = db.sql(`insert into state values (?, cast(? as integer))
    on conflict (name) do update set value = value + excluded.value`);

  return {
    cursor: (name: 'watermark' | 'floor' | 'beginning'): Cursor | null => cursor.get(name) ?? null,
    setCursor: (name: 'watermark' | 'floor' | 'beginning', value: Cursor): void => void setCursor.run(name, value),
    get: (name: string): unknown => {
      const value = get.get(name);
      return typeof value === 'string' ? (JSON.parse(value) as unknown) : value;
    },
    set: (name: string, value: unknown): void => void set.run(name, JSON.stringify(value)),
    count(counts: Counts): void {
      for (const [name, n] of Object.entries(counts)) if (n !== 0) add.run(name, n);
    },
  };
}
