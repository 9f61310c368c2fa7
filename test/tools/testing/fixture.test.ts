import { expect, test } from 'vitest';
import { fixture, signedRequest } from '#kit/testing';
import { eventTypes } from '../../../src/wire/event-map.ts';
import { createVerifier } from '../../../src/receive/verify.ts';
import { readDelivery } from '../../../src/wire/event.ts';

test.each(Object.entries(eventTypes))('the example of %s fits its type', (type, { data }) => {
  expect(data.safeParse(fixture(type).data).error).toBeUndefined();
});

test('each fixture is a new event, later than the one before', () => {
  const [first, second] = [fixture('MessageReceived'), fixture('MessageReceived')];
  expect(second.id).not.toBe(first.id);
  expect(BigInt(second.cursor ?? 0)).toBeGreaterThan(BigInt(first.cursor ?? 0));
  expect(second.createdAt > first.createdAt).toBe(true);
  expect(second.data.message_id).not.toBe(first.data.message_id);
});

test('a misspelt field is refused with the nearest name; fields unlike any named one are kept', () => {
  const misspelt: object = { bdoy: 'hi' };
  expect(() => fixture('MessageReceived', { data: misspelt })).toThrow('has no field bdoy: did you mean body?');
  const other: object = { reactions: 1 };
  expect(fixture('MessageReceived', { data: other }).data).toMatchObject({ body: 'hello', reactions: 1 });
  expect(fixture('MessageSent', { data: { mesage_id: 'x' } }).data).toMatchObject({ mesage_id: 'x' });
});

test('a field of the data that stands beside data is refused', () => {
  const beside: object = { is_group: true };
  expect(() => fixture('MessageReceived', beside)).toThrow(
    'a fixture has no field is_group: put it in data, as in { data: { is_group: … } }',
  );
});

test('session and time go into the data, where the kit reads them', () => {
  const session = '00000000-0000-4000-8000-00000000000a';
  const { data } = fixture('MessageReceived', { sessionId: session, createdAt: '2026-02-03T04:05:06.000Z' });
  expect(data).toMatchObject({ session_id: session, timestamp_unix_ms: Date.UTC(2026, 1, 3, 4, 5, 6) });
});

test('a signed request passes the verification of the receiver, with its own secret only', () => {
  const event = fixture('MessageReceived');
  const at = Date.UTC(2026, 0, 1);
  const { headers, body } = signedRequest(event, { secret: 'whsec_0123456789abcdef', at });
  const lower = Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]));
  const verified = (secret: string) => {
    const verifier = createVerifier({ secrets: [secret], prefix: 'X-Svc-', toleranceSeconds: 300 });
    const claimed = verifier.headers({ headers: lower }, at);
    if (typeof claimed === 'string') return claimed;
    const check = verifier.body(claimed);
    check.update(body);
    return check.end(at);
  };
  expect(verified('whsec_0123456789abcdef')).toEqual([0]);
  expect(verified('whsec_another_0123456789')).toBe('bad_signature');
  expect(readDelivery(body)).toMatchObject({ event: { id: event.id, cursor: event.cursor, type: 'MessageReceived' } });
});
