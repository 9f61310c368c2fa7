// The three functions that read timestamps and signatures, tested by tables (hazards B2 and C1, I2 to I17).
import { createHmac } from 'node:crypto';
import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { readSignatures, readTimestamp } from '../../src/wire/signature.ts';
import { findSigners } from './find-signers.ts';

const hex = '0123456789abcdef'.repeat(4);
const bytes = Buffer.from(hex, 'hex');

describe('a timestamp', () => {
  test.each([
    ['1767268800', 1_767_268_800],
    ['100000000', 100_000_000],
    ['4102444800', 4_102_444_800],
    ['999999999999', 999_999_999_999],
  ])('%s is read', (text, seconds) => {
    expect(readTimestamp(text)).toBe(seconds);
  });

  test.each([
    undefined,
    '',
    ' ',
    'abc',
    'NaN',
    'Infinity',
    '0',
    '-1767268800',
    '+1767268800',
    '01767268800',
    '1.7e9',
    '0x6553F100',
    '1767268800.0',
    '1767268800 ',
    ' 1767268800',
    '1767268800\n',
    '1767268800\u00a0',
    '１７６７２６８８００',
    '1767268800, 1767268800',
    '1767268800.{"id":"e","x":"a',
    '1767268800000',
    '12345678',
  ])('%j is refused', (text) => {
    expect(readTimestamp(text)).toBeUndefined();
  });
});

describe('signatures', () => {
  test.each<[string | undefined, number]>([
    [undefined, 0],
    ['', 0],
    ['v1=', 0],
    [hex, 0],
    [`v1=${hex}`, 1],
    [`v1=${hex.toUpperCase()}`, 1],
    [`V1=${hex}`, 0],
    [`v0=${hex}`, 0],
    [`v11=${hex}`, 0],
    [`v1=${hex.slice(1)}`, 0],
    [`v1=${hex}0`, 0],
    [`v1=${hex}zz`, 0],
    [`v1=${hex}\n`, 1],
    [`v1=v1=${hex}`, 0],
    [`v1=${hex},v1=${hex}`, 2],
    [`v1=${hex}, v1=${hex}`, 2],
    [`v1=${hex};v1=${hex}`, 0],
    [`,,v1=${hex},`, 1],
    [Array(8).fill(`v1=${hex}`).join(','), 8],
    [Array(9).fill(`v1=${hex}`).join(','), 0],
    [Array(100_000).fill(`v1=${hex}`).join(','), 0],
  ])('%#: are read if they are well formed', (header, count) => {
    const found = readSignatures(header);
    expect(found).toHaveLength(count);
    expect(found.every((one) => one.equals(bytes))).toBe(true);
  });

  test('are 32 bytes each, for any header', () => {
    const entry = fc.oneof(
      fc.string(),
      fc.constantFrom(`v1=${hex}`, 'v1=', hex),
      fc.string().map((tail) => `v1=${hex}${tail}`),
    );
    fc.assert(
      fc.property(fc.array(entry), (entries) => {
        for (const one of readSignatures(entries.join(','))) expect(one).toHaveLength(32);
      }),
    );
  });
});

describe('the signers', () => {
  const secrets = ['whsec_one', 'whsec_two', 'whsec_two'];
  const sign = (secret: string, timestamp: number, body: Uint8Array): Buffer =>
    createHmac('sha256', secret)
      .update(Buffer.concat([Buffer.from(`${timestamp}.`), body]))
      .digest();

  test('are all secrets that signed exactly these bytes at exactly this time', () => {
    fc.assert(
      fc.property(
        fc.uint8Array(),
        fc.nat({ max: 2 ** 31 }),
        fc.uint8Array({ minLength: 32, maxLength: 32 }),
        (body, timestamp, noise) => {
          const buffer = Buffer.from(body);
          const signatures = (index: number): Buffer[] => [
            Buffer.from(noise),
            sign(secrets[index] ?? '', timestamp, body),
          ];
          expect([0, 1, 2].map((index) => findSigners(secrets, timestamp, buffer, signatures(index)))).toEqual([
            [0],
            [1, 2],
            [1, 2],
          ]);
          expect(findSigners(secrets, timestamp, buffer, [...signatures(1), ...signatures(0)])).toEqual([0, 1, 2]);
          expect(findSigners(secrets, timestamp + 1, buffer, signatures(0))).toEqual([]);
          expect(findSigners(secrets, timestamp, Buffer.concat([buffer, Buffer.from([0])]), signatures(0))).toEqual([]);
          expect(findSigners(secrets, timestamp, buffer, [Buffer.from(noise)])).toEqual([]);
        },
      ),
    );
  });

  test('are none if any single bit of the signature differs', () => {
    const body = Buffer.from('{}');
    for (let bit = 0; bit < 256; bit++) {
      const signature = sign('whsec_one', 1, body);
      signature[bit >> 3] = (signature[bit >> 3] ?? 0) ^ (1 << (bit & 7));
      expect(findSigners(secrets, 1, body, [signature])).toEqual([]);
    }
  });

  test('are none without secrets, or without signatures', () => {
    const body = Buffer.from('{}');
    expect(findSigners([], 1, body, [sign('whsec_one', 1, body)])).toEqual([]);
    expect(findSigners(secrets, 1, body, [])).toEqual([]);
  });
});
