// The health of the webhook as the service sees it: the failure run by cause, forged deliveries, and which secrets
// sign. Tested over HTTP and over restarts.
import { copyFileSync, mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { DEADLINE_MS, type DeliveryStore } from '../../src/receive/group-commit.ts';
import { isRepeated } from '../../src/receive/delivery-health.ts';
import { mayGo } from '../../src/store/health.ts';
import { StoreError } from '../../src/store/store.ts';
import {
  bodyOf,
  deliver,
  hmac,
  SECONDS,
  SECRET,
  signed,
  startReceiver,
  T0,
  until,
  type Options,
  type Receiver,
  message,
} from './harness.ts';

const OLD = SECRET;
const NEW = 'whsec_ffffffffffffffffffffffffffffffff';
const STRANGER = 'whsec_of_a_stranger_who_guesses';
const NOON = '2026-01-01T12:00:00.000Z';
const SECOND_LATER = '2026-01-01T12:00:01.000Z';

let cursor = 0;
/** Sends a new event that each of these secrets signs now. Returns the status. */
function send(receiver: Receiver, secrets: string[] = [OLD], headers: Record<string, string> = {}): Promise<number> {
  const body = bodyOf({ cursor: String(++cursor) });
  const at = receiver.clock.at / 1000;
  const signature = secrets.map((secret) => `v1=${hmac(body, at, secret)}`).join(',');
  return deliver(receiver.port, body, { 'X-Svc-Timestamp': String(at), 'X-Svc-Signature': signature, ...headers });
}

/** Sends a delivery whose signature is valid but too old. */
function sendStale(receiver: Receiver): Promise<number> {
  const body = bodyOf({ cursor: String(++cursor) });
  return deliver(receiver.port, body, signed(body, receiver.clock.at / 1000 - 400));
}

/** Starts a new receiver on a copy of the store as this receiver has written it so far. */
async function startAgain(receiver: Receiver, options: Options = {}): Promise<Receiver> {
  const path = join(mkdtempSync(join(tmpdir(), 'kit-receive-')), 'events.db');
  receiver.query('pragma wal_checkpoint(truncate)');
  copyFileSync(receiver.path, path);
  return startReceiver({ ...options, path });
}

describe('the failure run', () => {
  test('counts authentic deliveries in a row without a 2xx, by cause, and ends with the first 2xx', async () => {
    const receiver = await startReceiver();
    expect([await sendStale(receiver), await sendStale(receiver)]).toEqual([401, 401]);
    expect(await receiver.status()).toMatchObject({ failureRun: 2, failures: { causes: { clock_skew: 2 } } });
    expect(await send(receiver)).toBe(204);
    expect(await receiver.status()).toMatchObject({ failureRun: 0, failures: { causes: {} }, lastDeliveryAt: NOON });
  });

  test('is counted even if it ended before its length was written', async () => {
    const receiver = await startReceiver();
    for (let n = 0; n < 3; n++) await sendStale(receiver);
    await send(receiver);
    expect(await receiver.counters()).toMatchObject({ failure_runs: 1 });
  });

  test('goes on after a restart, with its causes', async () => {
    const first = await startReceiver();
    await sendStale(first);
    await first.status();
    const second = await startAgain(first);
    await sendStale(second);
    expect(await second.status()).toMatchObject({ failureRun: 2, failures: { causes: { clock_skew: 2 } } });
  });

  test('is kept in memory while the store is down, and written with the first commit afterwards', async () => {
    let fault: Error | undefined = new StoreError('unwritable', 'the disk is full');
    const failing = (store: DeliveryStore): DeliveryStore => ({
      ...store,
      accept: (batch) => (fault ? Promise.reject(fault) : store.accept(batch)),
      note: (...what) => (fault ? Promise.reject(fault) : store.note(...what)),
    });
    const receiver = await startReceiver({ wrap: failing });
    const refused = send(receiver);
    await until(() => receiver.lines.some(({ cause }) => cause === 'store_unwritable'));
    receiver.clock.at += DEADLINE_MS;
    expect(await refused).toBe(503);
    expect(await receiver.status()).toMatchObject({ failureRun: 0 });
    fault = undefined;
    await expect.poll(() => receiver.status()).toMatchObject({ failureRun: 1, failures: { causes: { store: 1 } } });
  });

  test('does not count deliveries of doctor and trigger, because the service does not count them either', async () => {
    const receiver = await startReceiver();
    await sendStale(receiver);
    for (const id of ['doctor_1', 'trigger_1']) {
      const body = bodyOf({ id, cursor: null, sent_by: 'kit' });
      expect(await deliver(receiver.port, body)).toBe(204);
      expect(await deliver(receiver.port, body, signed(body, receiver.clock.at / 1000 - 400))).toBe(401);
    }
    expect(await receiver.status()).toMatchObject({
      failureRun: 1,
      lastDeliveryAt: null,
      secrets: [{ number: 1, hits: 0, lastAt: null }],
    });
  });
});

describe('a delivery that none of our secrets signed', () => {
  test('is counted separately since the last 2xx, and never as a failure', async () => {
    const receiver = await startReceiver();
    expect(await send(receiver, [STRANGER])).toBe(401);
    receiver.clock.at += 1_000;
    expect(await send(receiver, [STRANGER])).toBe(401);
    const seen = { badSignatures: 2, badSince: NOON, lastBadAt: SECOND_LATER };
    expect(await receiver.status()).toMatchObject({ failureRun: 0, failures: seen, lastDeliveryAt: null });
    const again = await startAgain(receiver);
    expect((await again.status()).failures).toMatchObject(seen);
    expect(await send(again)).toBe(204);
    expect((await again.status()).failures).toMatchObject({
      badSignatures: 0,
      badSince: null,
      lastBadAt: SECOND_LATER,
    });
  });

  test('is not counted if its headers alone are invalid', async () => {
    const receiver = await startReceiver();
    const body = bodyOf();
    expect(await deliver(receiver.port, body, { 'X-Svc-Signature': 'v1=abc' })).toBe(401);
    expect(await deliver(receiver.port, body, { 'X-Svc-Timestamp': 'now' })).toBe(401);
    expect((await receiver.status()).failures.badSignatures).toBe(0);
  });
});

describe('an attempt above 1', () => {
  test('counts as failures that the kit did not see if the event is new, and not if the event is known', async () => {
    const receiver = await startReceiver();
    receiver.clock.at += 2_000;
    const happened = (at: number) => ({ MessageReceived: message({ timestamp_unix_ms: at }) });
    const body = bodyOf({ cursor: String(++cursor), data: happened(receiver.clock.at) });
    const before = bodyOf({ cursor: String(++cursor), data: happened(receiver.clock.at - 1) });
    expect(await deliver(receiver.port, before, { 'X-Svc-Attempt': '2' }), 'when nobody was here').toBe(204);
    for (const attempt of ['3', '4'])
      expect(await deliver(receiver.port, body, { 'X-Svc-Attempt': attempt })).toBe(204);
    expect(await send(receiver, [OLD], { 'X-Svc-Attempt': '1' })).toBe(204);
    expect(await receiver.counters()).toMatchObject({ unseen_failures: 1 });
  });

  test('does not count if the kit itself refused as many deliveries before', async () => {
    const receiver = await startReceiver();
    receiver.clock.at += 2_000;
    const again = async (attempt: string) => {
      const data = { MessageReceived: message({ timestamp_unix_ms: receiver.clock.at }) };
      return deliver(receiver.port, bodyOf({ cursor: String(++cursor), data }), { 'X-Svc-Attempt': attempt });
    };
    for (let n = 1; n <= 3; n++) expect(await sendStale(receiver)).toBe(401);
    for (const attempt of ['2', '3']) expect(await again(attempt)).toBe(204);
    expect((await receiver.counters())['unseen_failures'] ?? 0).toBe(0);
    expect(await again('2')).toBe(204);
    expect(await receiver.counters()).toMatchObject({ unseen_failures: 1 });
  });

  test('does not count if the kit refused it before for its signature: the secret was not known yet', async () => {
    const receiver = await startReceiver();
    receiver.clock.at += 2_000;
    const data = { MessageReceived: message({ timestamp_unix_ms: receiver.clock.at }) };
    const body = bodyOf({ cursor: String(++cursor), data });
    const forged = signed(body, SECONDS, 'whsec_not_known_yet_0000');
    expect(await deliver(receiver.port, body, forged)).toBe(401);
    expect(await deliver(receiver.port, body, { 'X-Svc-Attempt': '2' })).toBe(204);
    expect((await receiver.counters())['unseen_failures'] ?? 0).toBe(0);
  });

  test.each<[string | string[] | undefined, boolean]>([
    ['2', true],
    ['8', true],
    ['20', true],
    ['1', false],
    ['0', false],
    ['21', false],
    ['02', false],
    ['-2', false],
    ['2.0', false],
    ['2, 2', false],
    ['', false],
    [['2'], false],
    [undefined, false],
  ])('written as %j: %j', (header, repeated) => {
    expect(isRepeated(header)).toBe(repeated);
  });
});

describe('the secrets', () => {
  test('through a rotation with a grace period: both sign, then the new one alone, and the old one is safe to remove', async () => {
    const receiver = await startReceiver({ secrets: [OLD] });
    const secrets = async (): Promise<unknown> => (await receiver.status()).secrets;
    async function sendLater(...signing: string[]): Promise<void> {
      receiver.clock.at += 1_000;
      expect(await send(receiver, signing)).toBe(204);
    }
    await sendLater(OLD);
    await sendLater(NEW, OLD);
    for (const part of [receiver.verifier, receiver.health]) part.useSecrets([NEW, OLD]);
    expect(await secrets()).toMatchObject([
      { number: 1, hits: 0, lastAt: null, mayGo: false },
      { number: 2, hits: 2, mayGo: false },
    ]);
    await sendLater(OLD);
    expect(await secrets()).toMatchObject([
      { hits: 0, mayGo: false },
      { hits: 3, mayGo: false },
    ]);
    await sendLater(NEW, OLD);
    expect(await secrets()).toMatchObject([
      { hits: 1, mayGo: false },
      { hits: 4, mayGo: true },
    ]);
    await sendLater(NEW);
    expect(await secrets()).toEqual([
      { number: 1, hits: 2, lastAt: '2026-01-01T12:00:05.000Z', mayGo: false },
      { number: 2, hits: 4, lastAt: '2026-01-01T12:00:04.000Z', mayGo: true },
    ]);
    for (const part of [receiver.verifier, receiver.health]) part.useSecrets([NEW]);
    await sendLater(NEW);
    expect(await secrets()).toMatchObject([{ number: 1, hits: 3, mayGo: false }]);
  });

  test('keep their counts over a restart, even if their order has changed', async () => {
    const first = await startReceiver({ secrets: [OLD] });
    await send(first);
    await first.status();
    const second = await startAgain(first, { secrets: [NEW, OLD] });
    await send(second);
    expect((await second.status()).secrets).toMatchObject([
      { number: 1, hits: 0 },
      { number: 2, hits: 2 },
    ]);
  });

  test('that were removed by mistake get their counts back within a day; after a day the counts are gone', async () => {
    const receiver = await startReceiver({ secrets: [OLD] });
    const hits = async (): Promise<number[]> => (await receiver.status()).secrets.map((secret) => secret.hits);
    await send(receiver);
    receiver.health.useSecrets([NEW]);
    receiver.health.useSecrets([NEW, OLD]);
    expect(await hits()).toEqual([0, 1]);
    receiver.health.useSecrets([NEW]);
    receiver.clock.at += 86_400_001;
    receiver.health.useSecrets([NEW]);
    receiver.health.useSecrets([NEW, OLD]);
    expect(await hits()).toEqual([0, 0]);
  });

  test('that are configured twice count as one', async () => {
    const receiver = await startReceiver({ secrets: [OLD, OLD] });
    await send(receiver);
    expect((await receiver.status()).secrets).toMatchObject([{ number: 1, hits: 1 }]);
    const [row] = receiver.query<{ value: string }>("select value from state where name = 'signers'");
    expect(JSON.parse(row?.value ?? '')).toMatchObject([{ aloneAt: T0 }]);
  });

  test('do not appear in the store, not even in part', async () => {
    const receiver = await startReceiver();
    await send(receiver);
    await receiver.status();
    const facts = JSON.stringify(receiver.query('select * from state'));
    expect(facts).toContain('"hits');
    expect(facts).not.toMatch(/whsec_|0123456789abcdef/);
  });
});

describe('a delivery that was answered with a 2xx', () => {
  test('is written to the store at most once a second', async () => {
    const receiver = await startReceiver();
    await send(receiver);
    const lastGoodAt = async (): Promise<string | null> => {
      await receiver.groupCommit.probe();
      return (await receiver.store.read.status(0)).lastDeliveryAt;
    };
    receiver.health.flush();
    expect(await lastGoodAt()).toBe(NOON);
    receiver.clock.at += 999;
    const body = bodyOf({ cursor: String(++cursor) });
    await deliver(receiver.port, body, signed(body, SECONDS));
    expect(await lastGoodAt()).toBe(NOON);
    receiver.clock.at += 1;
    await send(receiver);
    expect(await lastGoodAt()).toBe(SECOND_LATER);
  });
});

/** Times at which a secret signed: first, last, and last alone. Null: never. */
type Row = [firstAt: number | null, lastAt: number | null, aloneAt: number | null];
const use = ([firstAt, lastAt, aloneAt]: Row) => ({ firstAt, lastAt, aloneAt });

describe('whether the older and the newer secret are safe to remove', () => {
  test.each<[string, Row, Row, boolean[]]>([
    ['none has signed', [null, null, null], [null, null, null], [false, false]],
    ['the old one signs, the new one waits for the rotation', [1, 5, 5], [null, null, null], [false, false]],
    ['during the grace both sign', [1, 7, 5], [6, 7, null], [true, false]],
    ['during the grace, begun within one second', [1, 6, 5], [5, 6, null], [true, false]],
    ['the first delivery of the grace shares its second with the last before', [1, 5, 5], [5, 5, null], [false, false]],
    ['after the grace the new one signs alone', [1, 7, 5], [6, 9, 9], [true, false]],
    ['without a grace the new one signs alone', [1, 5, 5], [6, 9, 9], [true, false]],
    ['both were there from the start of the grace', [1, 5, null], [1, 5, null], [false, false]],
    ['both were there from the start, and the grace is over', [1, 5, null], [1, 9, 9], [true, false]],
    ['two webhooks, each with its own', [1, 8, 8], [2, 9, 9], [false, false]],
    ['a rotation that was taken back', [1, 9, 9], [6, 7, null], [false, true]],
  ])('%s', (_, older, newer, expected) => {
    const all = [use(older), use(newer)];
    expect(all.map((one) => mayGo(one, all))).toEqual(expected);
  });

  test('a single secret is never safe to remove', () => {
    const only = use([1, 9, 9]);
    expect(mayGo(only, [only])).toBe(false);
  });
});
