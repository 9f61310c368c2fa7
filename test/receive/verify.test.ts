// The check of a body that arrives while the secrets change.
import { expect, test } from 'vitest';
import { createVerifier } from '../../src/receive/verify.ts';
import { bodyOf, hmac, SECONDS, T0 } from './harness.ts';

const body = bodyOf();

function begin(secrets: string[], signedWith: string) {
  const verifier = createVerifier({ secrets, prefix: 'X-Svc-', toleranceSeconds: 300 });
  const headers = { 'x-svc-timestamp': String(SECONDS), 'x-svc-signature': `v1=${hmac(body, SECONDS, signedWith)}` };
  const claimed = verifier.headers({ headers }, T0);
  if (typeof claimed === 'string') throw new Error(claimed);
  return { verifier, check: verifier.body(claimed) };
}

test('a reload that adds a secret while a body arrives: the position is that of the secret in the new list', () => {
  const { verifier, check } = begin(['whsec_old'], 'whsec_old');
  verifier.useSecrets(['whsec_new', 'whsec_old']);
  check.update(body);
  expect(check.end(T0)).toEqual([1]);
});

test('a reload that removes the secret while a body arrives: the body is refused', () => {
  const { verifier, check } = begin(['whsec_new', 'whsec_old'], 'whsec_old');
  verifier.useSecrets(['whsec_new']);
  check.update(body);
  expect(check.end(T0)).toBe('bad_signature');
});
