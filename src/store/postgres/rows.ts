// Rows as values of one statement: an array for each column.
import type { Values } from '../sql.ts';

/** `from`: the rows, named v, numbered by n. `of`: their values. */
export function rows<Name extends string>(types: Record<Name, string>) {
  const names = Object.keys(types) as Name[];
  const arrays = names.map((name) => `cast(@${name} as ${types[name]}[])`);
  return {
    from: `unnest(${arrays.join()}) with ordinality as v (${names.map((name) => `"${name}"`).join()}, n)`,
    of: (list: readonly Record<Name, unknown>[]): Values =>
      Object.fromEntries(names.map((name) => [name, list.map((row) => row[name])])),
  };
}
