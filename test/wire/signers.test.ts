// Signatures of independent signers, which share no code with the receiver: an HMAC written out by RFC 2104, which the
// vectors of RFC 4231 hold, and Web Crypto.
import { createHash } from 'node:crypto';
import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { readSignatures } from '../../src/wire/signature.ts';
import { findSigners } from './find-signers.ts';

const BLOCK = 64;
const sha256 = (...parts: Uint8Array[]): Buffer => createHash('sha256').update(Buffer.concat(parts)).digest();

/** HMAC-SHA256 as RFC 2104 writes it. */
function hmacByHand(key: Uint8Array, text: Uint8Array): Buffer {
  const padded = Buffer.alloc(BLOCK);
  padded.set(key.length > BLOCK ? sha256(key) : key);
  const mixed = (pad: number): Buffer => padded.map((byte) => byte ^ pad) as Buffer;
  return sha256(mixed(0x5c), sha256(mixed(0x36), text));
}

async function hmacByWebCrypto(key: Uint8Array, text: Uint8Array): Promise<Buffer> {
  const algorithm = { name: 'HMAC', hash: 'SHA-256' };
  const imported = await crypto.subtle.importKey('raw', Buffer.from(key), algorithm, false, ['sign']);
  return Buffer.from(await crypto.subtle.sign('HMAC', imported, Buffer.from(text)));
}

const ascii = (text: string): Buffer => Buffer.from(text, 'ascii');
/** RFC 4231, section 4. The digest of test case 5 is published truncated. */
const VECTORS: [number, key: Buffer, data: Buffer, digest: string][] = [
  [1, Buffer.alloc(20, 0x0b), ascii('Hi There'), 'b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7'],
  [
    2,
    ascii('Jefe'),
    ascii('what do ya want for nothing?'),
    '5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843',
  ],
  [
    3,
    Buffer.alloc(20, 0xaa),
    Buffer.alloc(50, 0xdd),
    '773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe',
  ],
  [
    4,
    Buffer.from(Array.from({ length: 25 }, (_, i) => i + 1)),
    Buffer.alloc(50, 0xcd),
    '82558a389a443c0ea4cc819899f2083a85f0faa3e578f8077a2e3ff46729665b',
  ],
  [5, Buffer.alloc(20, 0x0c), ascii('Test With Truncation'), 'a3b6167473100ee06e0c796c2955552b'],
  [
    6,
    Buffer.alloc(131, 0xaa),
    ascii('Test Using Larger Than Block-Size Key - Hash Key First'),
    '60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54',
  ],
  [
    7,
    Buffer.alloc(131, 0xaa),
    ascii(
      'This is a test using a larger than block-size key and a larger than block-size data. The key needs to be hashed before being used by the HMAC algorithm.',
    ),
    '9b09ffa71b942fcb27635fbcd5b0e944bfdc63644f0713938a7f51535c3a35e2',
  ],
];

test.each(VECTORS)('RFC 4231, test case %i: both signers give the digest', async (_, key, data, digest) => {
  for (const signature of [hmacByHand(key, data), await hmacByWebCrypto(key, data)])
    expect(signature.toString('hex').slice(0, digest.length)).toBe(digest);
});

describe.each([
  ['written out by RFC 2104', hmacByHand],
  ['of Web Crypto', hmacByWebCrypto],
])('a signature %s', (_, hmac) => {
  const signersOf = async (secret: string, timestamp: number, body: Buffer): Promise<number[]> => {
    const signature = await hmac(Buffer.from(secret), Buffer.concat([Buffer.from(`${timestamp}.`), body]));
    const header = readSignatures(`v1=${signature.toString('hex')}`);
    return findSigners(['whsec_of_another', secret], timestamp, body, header);
  };

  // A key of exactly one block is used as it is, a longer one is hashed first.
  test.each([4, BLOCK - 1, BLOCK, BLOCK + 1, 131])('is accepted with a secret of %i bytes', async (length) => {
    expect(await signersOf('k'.repeat(length), 1_767_225_600, Buffer.from('{"id":"é"}'))).toEqual([1]);
  });

  test('is accepted for any secret, time and bytes', async () => {
    const bytes = fc.uint8Array({ maxLength: 200 });
    await fc.assert(
      fc.asyncProperty(fc.string({ minLength: 1, unit: 'grapheme' }), fc.nat(), bytes, async (secret, time, body) => {
        expect(await signersOf(secret, time, Buffer.from(body))).toEqual([1]);
      }),
    );
  });
});
