// Bytes to JSON: what is refused, what is only noticed (hazards B2 and C1, I22 to I30).
import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { parseJson, parseJsonText, sourceOfNumber, type Json } from '../../src/wire/json.ts';

const json = fc.jsonValue({ maxDepth: 4, noUnicodeString: false }) as fc.Arbitrary<Json>;

describe('parsing', () => {
  test('gives what JSON.parse gives, and finds no key twice where none is', () => {
    fc.assert(
      fc.property(json, fc.constantFrom(undefined, 1, '\t\r\n '), (value, space) => {
        const text = JSON.stringify(value, null, space);
        expect(parseJson(Buffer.from(text))).toEqual({ ok: true, value: JSON.parse(text), duplicateKeys: false });
      }),
    );
  });

  test('never throws, whatever the bytes', () => {
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

  test('takes 64 levels, and brackets in texts as many as there are', () => {
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
  ])('%s holds a key twice: %s', (text, duplicateKeys) => {
    expect(parseJsonText(text)).toMatchObject({ ok: true, duplicateKeys });
  });

  test('a BOM at the beginning is no part of it', () => {
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
])('the digits of the top-level cursor in %s are %s', (text, digits) => {
  expect(sourceOfNumber(Buffer.from(text), 'cursor')).toBe(digits);
});
