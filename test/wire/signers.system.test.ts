// Signatures made by the command line of openssl, as a person makes them to try an endpoint out.
import { execFileSync } from 'node:child_process';
import { expect, test } from 'vitest';
import { readSignatures } from '../../src/wire/signature.ts';
import { findSigners } from './find-signers.ts';

const SECRET = 'whsec_0123456789abcdef0123456789abcdef';
const AT = 1_767_225_600;

test.each([
  ['an object', Buffer.from('{"id":"é"}')],
  ['nothing', Buffer.alloc(0)],
  ['all bytes', Buffer.from(Array.from({ length: 256 }, (_, byte) => byte))],
  ['a megabyte', Buffer.alloc(1024 * 1024, '[')],
])('a signature of openssl dgst over %s is accepted', (_, body) => {
  const input = Buffer.concat([Buffer.from(`${AT}.`), body]);
  const signature = execFileSync('openssl', ['dgst', '-sha256', '-hmac', SECRET, '-binary'], { input });
  expect(findSigners([SECRET], AT, body, readSignatures(`v1=${signature.toString('hex')}`))).toEqual([0]);
});
