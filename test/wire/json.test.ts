// From bytes to JSON: which texts are refused, which are only flagged, and when two values are the same (hazards B2
// and C1, I22 to I30).
import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { parseJson, parseJsonText, sameJson, sourceOfNumber, type Json } from '../../src/wire/json.ts';

const json = fc.jsonValue({ maxDepth: 4, noUnicodeString: false }) as fc.Arbitrary<Json>;

describe('parsing', () => {
  test('gives the same value as JSON.parse, and reports no duplicate keys if there are none', () => {
    fc.assert(
      fc.property(json, fc.constantFrom(undefined, 1, '\t\r\n '), (value, space) => {
        const text = JSON.stringify(value, null, space);
        expect(parseJson(Buffer.from(text))).toEqual({ ok: true, value: JSON.parse(text), duplicateKeys: false });
      }),
    );
  });

  test('never throws, for any bytes', () => {
    fc.assert(fc.property(fc.uint8Array(), (bytes) => typeof parseJson(bytes).ok === 'boolean'));
    fc.assert(
      fc.property(
        fc.array(fc.constantFrom('"', '\\', '{', '}', '[', ']', ':', ',', '1', 'a', ' ')),
        (parts) => typeof parseJsonText(parts.join('')).ok === 'boolean',
      ),
    );
  });

  test.each<[string, string]>([
    ['not JSON', '{'],
    ['not JSON', ''],
    ['not JSON', '\ufeff\ufeff1'],
    ['nested deeper than 64', `${'['.repeat(65)}${']'.repeat(65)}`],
    ['nested deeper than 64', '{"a":'.repeat(500_000)],
  ])('%s: %#', (reason, text) => {
    expect(parseJson(Buffer.from(text))).toEqual({ ok: false, reason });
  });

  test.each([[[0xff]], [[0xed, 0xa0, 0x80]], [[0xc0, 0x80]], [[0x22, 0xe2, 0x82, 0x22]]])('not UTF-8: %j', (bytes) => {
    expect(parseJson(Uint8Array.from(bytes))).toEqual({ ok: false, reason: 'not UTF-8' });
  });

  test('accepts 64 levels, and any number of brackets in strings', () => {
    expect(parseJsonText(`${'['.repeat(64)}${']'.repeat(64)}`).ok).toBe(true);
    expect(parseJsonText(JSON.stringify(`\\"${'['.repeat(1_000)}`)).ok).toBe(true);
  });

  test.each([
    ['{"a":1,"a":1}', true],
    ['{"a":{"b":1,"b":2}}', true],
    ['[{"a":1},{"a":1}]', false],
    ['{"a":1,"\\u0061":1}', true],
    ['{"a":"a:b:c"}', false],
    ['{"a\\":":1,"b\\\\":2}', false],
    ['{"__proto__":1,"__proto__":2}', true],
    ['{"__proto__":1,"a":2}', false],
    ['{"1":1,"01":2}', false],
    [' { } ', false],
  ])('%s has duplicate keys: %s', (text, duplicateKeys) => {
    expect(parseJsonText(text)).toMatchObject({ ok: true, duplicateKeys });
  });

  test('a byte order mark at the beginning is ignored', () => {
    expect(parseJson(Buffer.from('\ufeff{"a":1}'))).toMatchObject({ ok: true, value: { a: 1 } });
  });
});

test.each([
  ['{"cursor":9007199254740993}', '9007199254740993'],
  ['{"cursor":1,"cursor":2}', '2'],
  ['{"cursor":1,"data":{"cursor":2}}', '1'],
  ['{"data":[{"cursor":2}],"cursor":1e3}', '1e3'],
  ['\ufeff{"cursor":-0}', '-0'],
  ['{"data":{"cursor":2}}', undefined],
  ['[{"cursor":2}]', undefined],
])('the source text of the top-level cursor in %s is %s', (text, digits) => {
  expect(sourceOfNumber(Buffer.from(text), 'cursor')).toBe(digits);
});

describe('two values are equal', () => {
  const shuffled = (value: Json): Json => {
    if (Array.isArray(value)) return value.map(shuffled);
    if (typeof value !== 'object' || value === null) return value;
    return JSON.parse(
      `{${Object.entries(value)
        .toReversed()
        .map(([key, item]) => `${JSON.stringify(key)}:${JSON.stringify(shuffled(item))}`)
        .join(',')}}`,
    ) as Json;
  };

  test('in any order of their keys', () => {
    fc.assert(fc.property(json, (value) => sameJson(JSON.parse(JSON.stringify(value)) as Json, shuffled(value))));
  });

  test('if and only if their texts with sorted keys are equal', () => {
    const canonical = (value: Json): string => {
      if (Array.isArray(value)) return `[${value.map(canonical).join(',')}]`;
      if (typeof value !== 'object' || value === null) return JSON.stringify(value);
      return `{${Object.keys(value)
        .toSorted()
        .map((key) => `${JSON.stringify(key)}:${canonical(value[key] ?? null)}`)
        .join(',')}}`;
    };
    const small = fc.jsonValue({ maxDepth: 2 }) as fc.Arbitrary<Json>;
    const parsed = small.map((value) => JSON.parse(JSON.stringify(value)) as Json);
    fc.assert(fc.property(parsed, parsed, (a, b) => sameJson(a, b) === (canonical(a) === canonical(b))));
  });

  test('if they differ only in the sign of a zero', () => {
    expect(sameJson([0], [-0])).toBe(true);
  });

  test.each<[Json, Json]>([
    [[], {}],
    [null, {}],
    [0, ''],
    [0, false],
    [{ a: null }, {}],
    [{ a: null }, { b: null }],
    [[null], []],
    [
      [1, 2],
      [2, 1],
    ],
    [JSON.parse('{"__proto__":1}') as Json, {}],
    [JSON.parse('{"__proto__":{}}') as Json, { a: {} }],
    [{ toString: null }, { a: null }],
  ])('but %j and %j are not', (a, b) => {
    expect([sameJson(a, b), sameJson(b, a)]).toEqual([false, false]);
  });
});
