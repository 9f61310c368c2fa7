// Many rows as values of one statement: an array for each column.
import type { Values } from '../sql.ts';

/** Names of columns by their type. `from`: the rows, named v, numbered by n. `of`: their values. */
export function rows(columns: Partial<Record<'bigint' | 'text', string>>) {
  const types = Object.entries(columns).flatMap(([type, names]) => names.split(' ').map((name) => [name, type]));
  const arrays = types.map(([name, type]) => `cast(@${name} as ${type}[])`);
  return {
    from: `unnest(${arrays.join()}) with ordinality as v (${types.map(([name]) => `"${name}"`).join()}, n)`,
    of: (list: readonly object[]): Values =>
      Object.fromEntries(types.map(([name = '']) => [name, list.map((row) => (row as Values)[name])])),
  };
}

export const IDS = 'id = any(cast(@ids as bigint[]))';
export const idsOf = (list: readonly { id: number }[]): number[] => list.map(({ id }) => id);
