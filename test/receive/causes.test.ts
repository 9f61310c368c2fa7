// The texts of a cause are in receive/causes.ts alone, and everything that shows them reads them from there.
import { globSync, readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { causeOf, NOTICES, REFUSALS, refusalsIn, type Cause } from '../../src/receive/causes.ts';

test('no other file of src repeats a text of a cause', () => {
  const causes: Partial<Cause>[] = Object.values({ ...REFUSALS, ...NOTICES });
  const words = causes.flatMap(({ log, page, remedy }) => [log, page, remedy]).filter((text) => text !== undefined);
  expect(words.length).toBeGreaterThan(30);
  const repeated = globSync('src/**/*.ts').flatMap((file) => {
    const source = readFileSync(file, 'utf8');
    return file.endsWith('receive/causes.ts') ? [] : words.filter((text) => source.includes(text));
  });
  expect(repeated).toEqual([]);
});

test('refusals are read from the counters by cause, and an unknown cause has no texts', () => {
  const counted = refusalsIn({ 'refused.path': 2, 'refused.method': 0, 'refused.__proto__': 1, accepted: 7 });
  expect([...counted]).toEqual([
    ['path', 2],
    ['__proto__', 1],
  ]);
  expect([...counted.keys()].map((name) => causeOf(name)?.status)).toEqual([404, undefined]);
});
