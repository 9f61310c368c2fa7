// Tests the explanation of silent webhooks, first with a table of observations. Then each cause is produced with real
// deliveries and replay over HTTP, one store and one clock. Then follow the cases that must raise no alarm.
import { describe, expect, onTestFinished, test } from 'vitest';
import { createAlarms } from '../../../src/alarms/alarms.ts';
import { createBudget } from '../../../src/service/budget.ts';
import { createReconciler } from '../../../src/reconcile/reconciler.ts';
import { explainSilence, type Evidence } from '../../../src/alarms/rules/webhook-silent.ts';
import { FIRST_RETRIES_MS } from '../../../src/receive/bad-signatures.ts';
import { createService } from '../../../src/service/service.ts';
import type { DeliveredType } from '../../../src/store/keep.ts';
import { bodyOf, deliver, SECRET, signed, startReceiver } from '../../receive/harness.ts';
import { API_KEY, failure, fields, item, startReplayServer } from '../../reconcile/replay-server.ts';
import { createTestLog, INTERVAL_MS, OVERLAP_MS } from '../../reconcile/harness.ts';
import { COMPOSE } from '../alert-endpoint.ts';

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const NOW = Date.UTC(2026, 0, 1, 12);
const isoOf = (ms: number) => new Date(ms).toISOString();

describe('the explanation', () => {
  const calm: Evidence['status'] = {
    failureRun: 0,
    failures: { causes: {}, badSignatures: 0, badSince: null, lastBadAt: null },
    lastDeliveryAt: isoOf(NOW - HOUR),
    reconcile: { state: 'idle', since: null, lastAt: null, progress: null, reason: null, recovered: 0 },
  };
  const missing: DeliveredType = {
    type: 'MessageReceived',
    deliveredAt: NOW - HOUR,
    missed: 3,
    missedSince: NOW - FIRST_RETRIES_MS - 1,
  };
  const heard: DeliveredType = { type: 'MessageReceived', deliveredAt: NOW - MINUTE, missed: 0, missedSince: null };
  const explain = (status: Partial<Evidence['status']> = {}, types = [missing]) =>
    explainSilence({ now: NOW, status: { ...calm, ...status }, types, refused: [] });
  const stopped = (reason: string, since = NOW - HOUR / 2) =>
    ({ ...calm.reconcile, state: 'stopped', since: isoOf(since), reason }) as const;

  test.each<[string, Parameters<typeof explain>, RegExp | null]>([
    ['nothing, where nothing was ever learnt', [{}, []], null],
    ['nothing, where nothing is missing', [{}, [heard]], null],
    [
      'nothing, within the time of the first repeats',
      [{}, [{ ...missing, missedSince: NOW - FIRST_RETRIES_MS }]],
      null,
    ],
    ['nothing, of types that webhooks never brought', [{}, [{ ...missing, deliveredAt: null }]], null],
    [
      'a guess, where all is missing and nothing was refused',
      [{}],
      /Known: nothing was refused .* Guess: the webhook is switched off/,
    ],
    [
      'our failures, at the limit',
      [{ failureRun: 15, failures: { ...calm.failures, causes: { store_unwritable: 15 } } }],
      /Known: we answered 15 .*15 × store_unwritable.*Guess: the service has switched/,
    ],
    [
      'the clock',
      [{ failureRun: 4, failures: { ...calm.failures, causes: { clock_skew: 4 } } }],
      /Known: 4 deliveries .* right signature .* clock of this machine/,
    ],
    [
      'the secret',
      [{ failures: { ...calm.failures, badSignatures: 4, badSince: isoOf(NOW) } }],
      /Known: 4 deliveries .* Guess: .*WEBHOOK_SECRET/,
    ],
    [
      'one type, where others come',
      [{}, [missing, { ...heard, type: 'MessageSent' }]],
      /3 × MessageReceived.*others did.*Guess: .*subscribed/,
    ],
    [
      'nothing, where one event of a type was lost alone',
      [
        {},
        [
          { ...missing, missed: 1 },
          { ...heard, type: 'MessageSent' },
        ],
      ],
      null,
    ],
    [
      'all, where one type was missing long before',
      [
        {},
        [
          { ...missing, type: 'A', deliveredAt: NOW - 9 * HOUR, missedSince: NOW - 8 * HOUR },
          { ...missing, type: 'B' },
        ],
      ],
      /3 × A, 3 × B, and no delivery came .*switched off/,
    ],
    [
      'the key, revoked',
      [
        { reconcile: stopped('ReplayEvents: 401 UNAUTHENTICATED (API_AUTH_REVOKED)') },
        [{ ...heard, deliveredAt: NOW - HOUR }],
      ],
      /Known: the service refuses our key.*401.*Guess: the key is revoked or expired/,
    ],
    [
      'the address, refused',
      [
        { reconcile: stopped('ReplayEvents: 403 FORBIDDEN (API_KEY_IP_FORBIDDEN)') },
        [{ ...heard, deliveredAt: NOW - HOUR }],
      ],
      /address is not among those .*Guess: nothing happened; allow/,
    ],
    [
      'the scope, gone',
      [{ reconcile: stopped('ReplayEvents: 403 FORBIDDEN') }, [{ ...heard, deliveredAt: NOW - HOUR }]],
      /Guess: the key has lost events:read/,
    ],
    [
      'nothing, where the key is refused and deliveries come',
      [{ reconcile: stopped('ReplayEvents: 403 FORBIDDEN') }, [heard]],
      null,
    ],
    [
      'nothing, where the key was refused just now',
      [{ reconcile: stopped('ReplayEvents: 403 FORBIDDEN', NOW - MINUTE) }, [{ ...heard, deliveredAt: NOW - HOUR }]],
      null,
    ],
  ])('%s', (_, given, words) => {
    const said = explain(...given);
    if (words === null) expect(said).toBeNull();
    else expect(said).toMatch(words);
  });
});

/** Starts receiver, replay and alarms together. Time passes only when a test says so. */
async function begin({ from = 'first-webhook', key = API_KEY } = {}) {
  const receiver = await startReceiver();
  const { clock, store, port } = receiver;
  const server = await startReplayServer(() => clock.at);
  onTestFinished(() => server.close());
  const { log } = createTestLog();
  function start() {
    return createReconciler({
      store,
      service: createService({ baseUrl: server.url, apiKey: key, paid: false }),
      clock,
      log,
      budget: createBudget(20, clock),
      from,
      types: ['*'],
      intervalMs: 10 * INTERVAL_MS,
      overlapMs: OVERLAP_MS,
      onEvents: () => {},
      silent: () => alarms.silent(),
    });
  }
  let reconciler = start();
  const alarms = createAlarms({
    store,
    clock,
    log,
    alertUrl: undefined,
    compose: COMPOSE,
    freeBytes: () => 1e12,
    reconcileNow: () => reconciler.now(),
  });
  let cursor = 0;
  let nextStep = 0;
  const envelope = (type: string) => ({
    cursor: String(cursor),
    type,
    created_at: isoOf(clock.at),
    data: { [type]: fields(cursor, { timestamp_unix_ms: clock.at }) },
  });
  const all = {
    ...receiver,
    server,
    alarms,
    /** Makes an event. Resolves to the status of its delivery; undefined: the event was not delivered. */
    happen: async ({ type = 'MessageReceived', delivered = true, secret = SECRET, skew = 0 } = {}) => {
      cursor++;
      server.publish(item(cursor, type, { timestamp_unix_ms: clock.at }));
      const body = bodyOf(envelope(type));
      if (delivered) return deliver(port, body, signed(body, clock.at / 1000 + skew, secret));
      return undefined;
    },
    pass: async (ms: number, every = 2_000) => {
      for (const end = clock.at + ms; clock.at < end; clock.at += every) {
        receiver.health.flush();
        await receiver.groupCommit.probe();
        for (let calls = 0; clock.at >= nextStep && calls < 50; calls++)
          nextStep = clock.at + (await reconciler.step());
        await store.processes.beat({ role: 'run', pid: 1, started: '', boot: 1 }, clock.at);
        await alarms.step();
        nextStep = Math.min(nextStep, clock.at + 1_000);
      }
    },
    restart: () => void (reconciler = start()),
    raised: async () => {
      return Object.fromEntries((await store.read.status(clock.at)).alarms.map(({ name, detail }) => [name, detail]));
    },
    /** Two deliveries arrive, and replay shows them. Then 15 minutes pass, after which no alarm is up. */
    rest: async () => {
      for (const type of ['MessageReceived', 'MessageSent']) expect(await all.happen({ type })).toBe(204);
      await all.pass(15 * MINUTE, 10_000);
      expect(await all.raised()).toEqual({});
    },
  };
  return all;
}

describe('causes, with real deliveries', () => {
  test('the webhook was switched off: the text guesses so, and reconciliation runs every minute until a delivery comes', async () => {
    const { rest, happen, pass, raised, server, clock, alarms, store } = await begin();
    await rest();
    for (let i = 0; i < 3; i++) await happen({ delivered: false });
    await pass(14 * MINUTE);
    expect((await raised())['webhook_silent']).toMatch(
      /3 × MessageReceived.*Known: nothing was refused.*Guess: .*switched off/,
    );
    server.requests.length = 0;
    await pass(10 * MINUTE);
    expect(server.requests.length).toBeGreaterThanOrEqual(9);
    expect(server.requests.length).toBeLessThanOrEqual(12);
    await happen({ delivered: false });
    await pass(2 * MINUTE);
    expect((await store.replay.types()).find(({ type }) => type === 'MessageReceived')?.missed).toBe(4);
    await pass(30_000);
    server.requests.length = 0;
    const heardAt = clock.at;
    await happen();
    await pass(6_000);
    expect(server.requests.length).toBeGreaterThan(0);
    expect((server.requests[0]?.at ?? Infinity) - heardAt).toBeLessThanOrEqual(5_000);
    expect(alarms.silent()).toBe(false);
    expect(await raised()).toEqual({});
  });

  test('the secret was changed: bad signatures are stated as known, and the change as a guess', async () => {
    const { rest, happen, pass, raised } = await begin();
    await rest();
    for (let i = 0; i < 4; i++) expect(await happen({ secret: 'whsec_another' })).toBe(401);
    await pass(15 * MINUTE);
    const alarms = await raised();
    expect(alarms['webhook_silent']).toMatch(/Known: 4 deliveries .*Guess: .*WEBHOOK_SECRET/);
    expect(alarms['secret_mismatch']).toMatch(/^4 deliveries since .* Guess: the secret of the webhook has changed/);
    expect(await happen()).toBe(204);
    await pass(10_000);
    expect(await raised()).toEqual({});
  });

  test('the clock is wrong: the text states the cause as known', async () => {
    const { rest, happen, pass, raised } = await begin();
    await rest();
    for (let i = 0; i < 4; i++) expect(await happen({ skew: -900 })).toBe(401);
    await pass(MINUTE);
    expect((await raised())['clock_skew']).toContain('seems 900 s ahead of the service');
    await pass(14 * MINUTE);
    expect((await raised())['webhook_silent']).toMatch(/Known: 4 deliveries .* right signature .*synchronise/);
    expect((await raised())['failure_run']).toContain('4 × clock_skew');
  });

  test('fifteen deliveries failed: the text states the failures as known, and guesses that the webhook is off', async () => {
    const { rest, happen, pass, raised } = await begin();
    await rest();
    for (let i = 0; i < 15; i++) await happen({ skew: -900 });
    await pass(15 * MINUTE);
    expect((await raised())['webhook_silent']).toMatch(
      /Known: we answered 15 deliveries.*clock_skew.*Guess: the service has switched the webhook off/,
    );
  });

  test('one type is no longer subscribed', async () => {
    const { rest, happen, pass, raised } = await begin();
    await rest();
    for (let i = 0; i < 5; i++) {
      await happen({ delivered: false });
      await happen({ type: 'MessageSent' });
      await pass(4 * MINUTE);
    }
    expect((await raised())['webhook_silent']).toMatch(
      /× MessageReceived, and no delivery of these types.*Guess: .*subscribed/,
    );
    expect((await raised())['webhook_silent']).not.toMatch(/MessageSent/);
  });

  test.each([
    [
      'revoked',
      failure(401, 'UNAUTHENTICATED', 'API_AUTH_REVOKED'),
      /API_AUTH_REVOKED.*stop with it.*Guess: the key is revoked or expired/,
    ],
    [
      'not allowed from here',
      failure(403, 'FORBIDDEN', 'API_KEY_IP_FORBIDDEN'),
      /Known: this machine's address.*Guess: nothing happened/,
    ],
    ['without events:read', failure(403, 'FORBIDDEN'), /Guess: the key has lost events:read/],
  ])('the key is %s', async (_, answer, words) => {
    const { rest, pass, raised, server } = await begin();
    await rest();
    server.lieAlways(answer);
    await pass(20 * MINUTE, 10_000);
    const alarms = await raised();
    expect(Object.keys(alarms).toSorted()).toEqual(['reconcile_stopped', 'webhook_silent']);
    expect(alarms['webhook_silent']).toMatch(words);
  });
});

test('E44: a new key alone does not end the alarm about a revoked key, but the next delivery does', async () => {
  const { rest, pass, raised, server, restart, happen, store, clock } = await begin();
  await rest();
  server.lieAlways(failure(401, 'UNAUTHENTICATED', 'API_AUTH_REVOKED'));
  await pass(20 * MINUTE, 10_000);
  expect((await raised())['reconcile_stopped']).toMatch(/^reconciliation stopped.*register the webhook again/);
  server.lieAlways();
  restart();
  await pass(10 * MINUTE);
  expect((await store.read.status(clock.at)).reconcile.state).not.toBe('stopped');
  expect((await raised())['reconcile_stopped']).toMatch(/^API_KEY was refused at .*register the webhook again/);
  expect(await happen()).toBe(204);
  await pass(10_000);
  expect(await raised()).toEqual({});
});

describe('no false alarm', () => {
  test('a quiet night', async () => {
    const { rest, pass, raised } = await begin();
    await rest();
    await pass(8 * HOUR, MINUTE);
    expect(await raised()).toEqual({});
  });

  test('a restart after an outage of the kit, before the service retries', async () => {
    const { rest, happen, pass, raised, clock, restart, store, server } = await begin();
    await rest();
    for (let i = 0; i < 20; i++) {
      await happen({ delivered: false });
      clock.at += MINUTE;
    }
    restart();
    server.requests.length = 0;
    await pass(20 * MINUTE);
    expect((await store.read.status(clock.at)).events).toBe(22);
    expect(await raised()).toEqual({});
  });

  test('an outage of the network, with the kit up', async () => {
    const { rest, happen, pass, raised, server, store, clock } = await begin();
    await rest();
    server.lieAlways('destroy');
    for (let i = 0; i < 20; i++) {
      await happen({ delivered: false });
      await pass(MINUTE);
    }
    server.lieAlways();
    await pass(20 * MINUTE);
    expect((await store.read.status(clock.at)).events).toBe(22);
    expect(await raised()).toEqual({});
  });

  test('forged deliveries with bad signatures', async () => {
    const { rest, pass, raised, port } = await begin();
    await rest();
    for (let i = 0; i < 50; i++) {
      const body = bodyOf({ cursor: String(900 + i) });
      expect(await deliver(port, body, signed(body, undefined, 'whsec_stranger'))).toBe(401);
    }
    await pass(30 * MINUTE);
    expect(await raised()).toEqual({});
  });

  test('a single event is lost while others arrive', async () => {
    const { rest, happen, pass, raised, store, clock } = await begin();
    await rest();
    await happen({ delivered: false });
    for (let i = 0; i < 20; i++) {
      await pass(2 * MINUTE);
      await happen({ type: i % 2 ? 'MessageSent' : 'MessageReceived' });
      expect(await raised()).toEqual({});
    }
    expect((await store.read.status(clock.at)).reconcile.recovered).toBe(1);
  });

  test('REPLAY_FROM=start fetches history', async () => {
    const { happen, pass, raised, store, clock } = await begin({ from: 'start' });
    for (let i = 0; i < 30; i++) await happen({ delivered: false });
    await pass(20 * MINUTE);
    expect((await store.read.status(clock.at)).events).toBe(30);
    expect(await happen()).toBe(204);
    await pass(20 * MINUTE);
    expect(await raised()).toEqual({});
  });
});
