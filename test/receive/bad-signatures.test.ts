// The judgement on who sent deliveries with a bad signature, as a table of what was seen.
import { expect, test } from 'vitest';
import { FIRST_RETRIES_MS, judgeSignatures, type SignatureEvidence } from '../../src/receive/bad-signatures.ts';
import { createRefusalRecords } from '../../src/receive/refusal-log.ts';
import type { Refusal, ReplayState } from '../../src/store/keep.ts';
import { signedHeaders } from '../../src/wire/sign.ts';
import { bodyOf, createClock, deliver, signed, startReceiver, T0 } from './harness.ts';

const iso = (ms: number): string => new Date(ms).toISOString();
const stranger: Refusal = { at: iso(T0), headers: 1, skewSeconds: 0, agent: 'curl/8', bytes: 2 };
const dressed: Refusal = { ...stranger, headers: 5, agent: 'Acme-Webhooks/1' };
const missed = (at: number) => [{ type: 'A', deliveredAt: T0 - 60_000, missed: 1, missedSince: at }];

interface Seen {
  count?: number;
  /** Seconds since the first and the last bad signature. */
  now?: number;
  last?: number;
  /** Seconds from the last good delivery to the first bad signature. Null: there was none. */
  good?: number | null;
  state?: ReplayState['state'];
  refused?: Refusal[];
  types?: SignatureEvidence['types'];
}

function judge({ count = 3, now = 0, last = 0, good = 1, state = 'off', refused = [dressed], types = [] }: Seen) {
  const reconcile = { state, since: iso(T0 - 1_000), lastAt: null, reason: null, progress: null, recovered: 0 };
  const failures = { causes: {}, badSignatures: count, badSince: iso(T0), lastBadAt: iso(T0 + last * 1_000) };
  const lastDeliveryAt = good === null ? null : iso(T0 - good * 1_000);
  return judgeSignatures({ now: T0 + now * 1_000, status: { failures, lastDeliveryAt, reconcile }, types, refused });
}

test.each<[string, Seen]>([
  ['two', { count: 2, good: null }],
  ['three a second after a good delivery, without a key', { now: 3_600 }],
  ['three a second after a good delivery, with a key', { now: 3_600, state: 'idle' }],
  ['any number that lacks the headers', { count: 5_000, now: 3_600, last: 3_600, refused: [stranger] }],
  ['all headers, but not the user agent', { count: 5_000, now: 60, refused: [{ ...dressed, agent: 'curl/8' }] }],
  ['without the headers, before the first good delivery', { count: 900, good: null, refused: [stranger] }],
  ['many, while replay shows that nothing is missing', { count: 900, now: 900, last: 900, state: 'running' }],
  ['the headers were those of an earlier refusal', { good: null, refused: [{ ...dressed, at: iso(T0 - 2_000) }] }],
  ['an event that may still be on its way', { now: 9, state: 'idle', types: missed(T0) }],
  ['an event that was missed before the good delivery', { now: 900, state: 'idle', types: missed(T0 - 30_000) }],
])('E43: no mismatch: %s', (_, seen) => expect(judge(seen).mismatch).toBe(false));

test('E43: while replay shows an event that a delivery may still bring, nothing is called noise', () => {
  const words = (seen: Seen): string => judge({ now: 9, state: 'idle', ...seen }).words;
  expect(words({ types: missed(T0) })).toContain('not clear yet');
  expect(words({ types: missed(T0 - 30_000) })).toContain('noise');
});

test.each<[string, Seen]>([
  ['before the first good delivery', { good: null }],
  ['before the first good delivery, with a key', { good: null, state: 'idle' }],
  ['repeated as the service does, without a key', { now: 30, last: 30 }],
  ['repeated, while the service refuses the key', { now: 30, last: 30, state: 'stopped' }],
  ['repeated, while replay fails for long', { now: FIRST_RETRIES_MS / 1000, last: 30, state: 'backing-off' }],
  ['fifteen, and then silence, as the webhook is off', { count: 15, now: 25, last: 1 }],
  ['an event is missing', { now: 11, state: 'idle', refused: [stranger], types: missed(T0) }],
])('E43: a mismatch: %s', (_, seen) => {
  const { mismatch, words } = judge(seen);
  expect(mismatch).toBe(true);
  expect(words).toMatch(/match no secret in WEBHOOK_SECRET.*npx kit reload$/);
});

test('E43: noise does not hide a refused delivery of the service', () => {
  const clock = createClock();
  let kept: Refusal[] = [];
  const setState = (_: string, value: unknown) => {
    kept = (JSON.parse(String(value)) as Record<string, Refusal[]>)['bad_signature'] ?? [];
  };
  const record = createRefusalRecords({ setState }, clock, 'X-Svc-');
  const delivery = { type: 'A', id: 'e', deliveryId: 'd', attempt: 1, timestampSeconds: T0 / 1000 };
  const headers = Object.entries(signedHeaders({ ...delivery, secrets: ['s'], body: Buffer.from('{}') }));
  record('bad_signature', { headers: {} });
  record('bad_signature', { headers: Object.fromEntries(headers.map(([name, value]) => [name.toLowerCase(), value])) });
  for (let n = 0; n < 9; n++) {
    clock.at += 60_000;
    record('bad_signature', { headers: {} });
  }
  expect(kept.map(({ headers: count }) => count)).toEqual([0, 0, 5]);
});

test('E43: headers are counted over HTTP as the judgement reads them', async () => {
  const receiver = await startReceiver();
  const body = bodyOf();
  const timestampSeconds = receiver.clock.at / 1000;
  const delivery = { type: 'A', id: 'e', deliveryId: 'd', attempt: 1, timestampSeconds };
  expect(await deliver(receiver.port, body, signed(body, undefined, 'whsec_stranger'))).toBe(401);
  const judged = async () => {
    const status = await receiver.status();
    const refused = (await receiver.store.state.get('refusals'))['bad_signature'] ?? [];
    return judgeSignatures({ now: receiver.clock.at, status, types: [], refused });
  };
  for (let n = 0; n < 3; n++) await deliver(receiver.port, body, signed(body, undefined, 'whsec_stranger'));
  expect(await judged()).toMatchObject({ mismatch: false, words: expect.stringContaining('lack headers') });
  const headers = signedHeaders({ ...delivery, secrets: ['whsec_other'], body: Buffer.from(body) });
  expect(await deliver(receiver.port, body, headers)).toBe(401);
  expect(await judged()).toMatchObject({ mismatch: true });
});
