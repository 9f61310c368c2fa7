import { IncomingMessage } from 'node:http';
import { Socket } from 'node:net';
import { expect, test } from 'vitest';
import { createVerifier } from '../../src/receive/verify.ts';
import { signedHeaders } from '../../src/wire/sign.ts';

const body = Buffer.from('{"id":"é"}');
const signing = {
  body,
  type: 'MessageReceived',
  id: 'event-1',
  deliveryId: 'delivery-1',
  attempt: 3,
  timestampSeconds: 1_767_225_600,
};
/** The expected signatures, computed with openssl. */
const ONE = '240827be721d8eef091133a5a352226d8fa58b6e6514c3a5816c456616dc25b8';
const TWO = '07200477eb9ce9a1445c76fe5f590ebae741c90807d13b0639e54dc9613800c7';

test('6.3: a delivery carries these headers', () => {
  expect(signedHeaders({ ...signing, secrets: ['whsec_one'] })).toEqual({
    'Content-Type': 'application/json',
    'User-Agent': 'Svc-Webhooks/1',
    'X-Svc-Event-Id': 'event-1',
    'X-Svc-Event-Type': 'MessageReceived',
    'X-Svc-Delivery-Id': 'delivery-1',
    'X-Svc-Attempt': '3',
    'X-Svc-Timestamp': '1767225600',
    'X-Svc-Signature': `v1=${ONE}`,
  });
});

test('6.3: during a rotation a delivery carries the signatures of both secrets', () => {
  const headers = signedHeaders({ ...signing, secrets: ['whsec_one', 'whsec_two'] });
  expect(headers['X-Svc-Signature']).toBe(`v1=${ONE},v1=${TWO}`);
});

test('the headers can have another prefix', () => {
  const headers = signedHeaders({ ...signing, secrets: ['whsec_one'], prefix: 'X-Acme-' });
  expect(Object.keys(headers).filter((name) => name.startsWith('X-Svc-'))).toEqual([]);
  expect(headers['X-Acme-Signature']).toBe(`v1=${ONE}`);
});

test('the receiver accepts a delivery that the service signed with its secret, and no other', () => {
  const now = signing.timestampSeconds * 1_000;
  const verifier = createVerifier({ secrets: ['whsec_two'], prefix: 'X-Svc-', toleranceSeconds: 300 });
  const verdict = (secrets: string[]) => {
    const request = new IncomingMessage(new Socket());
    for (const [name, value] of Object.entries(signedHeaders({ ...signing, secrets })))
      request.headers[name.toLowerCase()] = value;
    const claimed = verifier.headers(request, now);
    if (typeof claimed === 'string') return claimed;
    const check = verifier.body(claimed);
    check.update(Buffer.from(body));
    return check.end(now);
  };
  expect(verdict(['whsec_one', 'whsec_two'])).toEqual([0]);
  expect(verdict(['whsec_one'])).toBe('bad_signature');
});
