// The pace after a 429. Handlers and reconciliation have a store connection each, as in their processes, and call the
// simulator over HTTP. The clock is simulated.
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { expect, onTestFinished, test } from 'vitest';
import { loadConfig } from '../../src/config.ts';
import { createReconciler } from '../../src/reconcile/reconciler.ts';
import { startRecovery } from '../../src/reconcile/start.ts';
import { createBudget } from '../../src/service/budget.ts';
import { createCallLimit } from '../../src/service/call-limit.ts';
import { ServiceError } from '../../src/service/errors.ts';
import { createPace } from '../../src/service/pace.ts';
import { createService } from '../../src/service/service.ts';
import { serviceOf } from '../../src/service/start.ts';
import { StoreError } from '../../src/store/store.ts';
import { createSimulatedService } from '../../src/tools/simulator/service.ts';
import { createClock, createStoreFile, createTestLog, type TestClock } from '../store-file.ts';
import { storeKind } from '../stores.ts';

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
const KEY_LIMIT = 10;

function createStores() {
  const file = createStoreFile();
  const second = storeKind.open(file.path, {});
  onTestFinished(() => {
    second.close();
    file.remove();
  });
  return { ...file, second };
}

/** Answers requests to these routes with 429, and keeps all others waiting. */
async function refusing(routes = /./): Promise<string> {
  const error = { code: 'RATE_LIMITED', reason: 'API_KEY_RATE_LIMITED', message: '' };
  const server = createServer(({ url }, response) => {
    if (routes.test(url ?? '')) response.writeHead(429).end(JSON.stringify({ error }));
  });
  server.listen(0, '127.0.0.1');
  await new Promise((done) => server.once('listening', done));
  onTestFinished(() => {
    server.close();
    server.closeAllConnections();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`;
}

async function createLimits(clock: TestClock = createClock()) {
  const { store, second } = createStores();
  const { log, text } = createTestLog();
  const url = await refusing();
  const create = (one = store) => createCallLimit({ all: 120, store: one, clock, log });
  return { create, first: create(), other: create(second), store, clock, url, log, text };
}

test('E24: a 429 halves the pace of all processes, and each hour doubles it again', async () => {
  const { first, other, create, clock, url, text } = await createLimits();
  expect(first.share()).toBe(1);
  await Promise.all(Array.from({ length: 20 }, () => first.fetch(url, {})));
  expect(first.share(), 'calls that were sent together lower it once').toBe(0.5);
  await other.refresh();
  expect(other.share()).toBe(0.5);
  clock.time += 89_000;
  await other.fetch(url, {});
  expect(other.share(), 'calls from before may have caused it').toBeCloseTo(0.5, 1);
  clock.time += 1_000;
  await other.fetch(url, {});
  await first.refresh();
  for (const one of [first, other]) expect(one.share()).toBeCloseTo(0.25, 1);
  const restarted = create();
  await restarted.refresh();
  expect(restarted.share()).toBe(first.share());
  clock.time += HOUR_MS;
  expect(first.share()).toBeCloseTo(0.5, 1);
  clock.time += 24 * HOUR_MS;
  for (const one of [first, other]) expect(one.share()).toBe(1);
  expect(text().match(/set API_CALLS_PER_MINUTE/g)).toHaveLength(2);
});

test('E24: the pace never stands below one call a minute for all processes', async () => {
  const { first, clock, url } = await createLimits();
  for (let i = 0; i < 20; i++) {
    await first.fetch(url, {});
    clock.time += 90_000;
  }
  expect(first.share()).toBeGreaterThanOrEqual(1 / 120);
});

test('E24: a clock that is set back does not prolong a low pace', async () => {
  const { first, other, clock, url } = await createLimits();
  await first.fetch(url, {});
  await other.refresh();
  clock.step(-365 * 24 * HOUR_MS);
  clock.time += HOUR_MS;
  for (const one of [first, other]) {
    await one.refresh();
    expect(one.share()).toBe(1);
  }
});

test('E24: while the store cannot be used, the process that met the 429 slows down all the same', async () => {
  const busy = (): Promise<never> => Promise.reject(new StoreError('busy', 'locked'));
  const state = { get: busy, note: busy, change: busy, books: busy };
  const options = { store: { state }, clock: createClock(), log: createTestLog().log };
  const alone = createCallLimit({ all: 120, ...options });
  await alone.fetch(await refusing(), {});
  await alone.refresh();
  expect(alone.share()).toBe(0.5);
});

test.each([
  [1, 0.05, 1, 20 * MINUTE_MS],
  [20, 0.05, 1, MINUTE_MS],
  [20, 0.0625, 1, MINUTE_MS],
  [100, 0.25, 25, MINUTE_MS],
])('E24: of %i calls a minute, a share of %f is %i in %i ms', (callsPerMinute, share, most, ms) => {
  const clock = createClock();
  const budget = createBudget(callsPerMinute, clock, { share: () => share });
  for (let i = 0; i < most; i++) expect(budget.take()).toBe(0);
  expect(budget.take()).toBe(ms);
  expect(budget.spacing()).toBe((2 * ms) / most);
});

test('E24: `run` and `keep` slow down for each other', async () => {
  const { store, clock, url, log } = await createLimits();
  const more = { API_CALLS_PER_MINUTE: '60', RECONCILE_CALLS_PER_MINUTE: '10', REPLAY_FROM: 'start' };
  const config = loadConfig({ WEBHOOK_SECRET: 'whsec_1', API_BASE_URL: url, API_KEY: 'key', ...more });
  const ctx = serviceOf({ config, store, clock, log })(new AbortController().signal);
  await expect(ctx.call('DeleteCrmList', {})).rejects.toMatchObject({ reason: 'API_KEY_RATE_LIMITED' });
  expect(await store.state.get('call_pace')).toEqual({ calls: 30, at: clock.time });
  clock.time += 2 * MINUTE_MS;
  const rest = { recover: () => 1_000, onEvents() {}, silent: () => false };
  const recovery = await startRecovery({ config, store, clock, log, ...rest });
  await expect.poll(async () => (await store.state.get('call_pace'))?.at).toBe(clock.time);
  await recovery?.stop();
});

test('E24: a 429 of the stream counts, too', async () => {
  const { store, clock, log } = await createLimits();
  const access = { API_BASE_URL: await refusing(/\/events/), API_KEY: 'key', STREAM: 'on' };
  const config = loadConfig({ WEBHOOK_SECRET: 'whsec_1', ...access });
  const rest = { recover: () => 1_000, onEvents() {}, silent: () => false };
  const recovery = await startRecovery({ config, store, clock, log, ...rest });
  await expect.poll(() => store.state.get('call_pace')).toEqual({ calls: 60, at: clock.time });
  await recovery?.stop();
});

test('E24: with a key of 10 calls a minute, recovery and handlers go on, and a 429 becomes rare', async () => {
  const clock = createClock();
  const { store, second, query } = createStores();
  const { log } = createTestLog();
  const simulator = createSimulatedService({ seed: 24, clock });
  const attributes = { name: 'slow', scopes: ['events:read'], validDays: null, perMinute: KEY_LIMIT };
  const { secret: apiKey } = simulator.keys.create(attributes);
  const baseUrl = await simulator.listen();
  onTestFinished(() => simulator.close());

  /** By hour: the calls that were answered, and those that were refused. */
  const hours = Array.from({ length: 4 }, () => ({ handlers: 0, recovery: 0, refused: 0 }));
  const began = clock.time;
  const count = (what: 'handlers' | 'recovery' | 'refused'): void => {
    const hour = hours[Math.floor((clock.time - began) / HOUR_MS)];
    if (hour) hour[what]++;
  };
  const process = (one: typeof store, who: 'handlers' | 'recovery') => {
    const callLimit = createCallLimit({ all: 120, store: one, clock, log });
    const fetch: typeof callLimit.fetch = async (url, init) => {
      const response = await callLimit.fetch(url, init);
      count(response.status === 429 ? 'refused' : who);
      return response;
    };
    return { callLimit, access: { baseUrl, apiKey, fetch, paid: false } };
  };
  const run = process(second, 'handlers');
  const pace = createPace({ callsPerMinute: 100, clock, callLimit: run.callLimit });
  const ctx = createService({ ...run.access, pace });
  const keep = process(store, 'recovery');
  const reconciler = createReconciler({
    store,
    service: createService(keep.access),
    clock,
    log,
    budget: createBudget(20, clock, { share: keep.callLimit.share }),
    from: 'start',
    types: ['*'],
    intervalMs: MINUTE_MS,
    overlapMs: 0,
    onEvents() {},
  });

  for (let due = 0; clock.time < began + hours.length * HOUR_MS; clock.time += 10_000) {
    simulator.happen();
    reconciler.prove();
    // 8 handlers call at once, and none of them waits for its share.
    const calls = Array.from({ length: 8 }, () => ctx.call('GetApiKeyIdentity', {}, { withinMs: 1 }));
    for (const { reason } of (await Promise.allSettled(calls)).filter((one) => one.status === 'rejected'))
      expect(reason).toBeInstanceOf(ServiceError);
    for (let steps = 0; due <= clock.time && steps < 20; steps++) {
      await keep.callLimit.refresh();
      due = clock.time + (await reconciler.step());
    }
  }

  for (const { handlers, recovery, refused } of hours.slice(1)) {
    expect(handlers).toBeGreaterThan(HOUR_MS / MINUTE_MS);
    expect(recovery).toBeGreaterThan(20);
    expect(refused).toBeLessThanOrEqual(3);
  }
  const stored = query<{ n: number }>('select count(*) as n from events')[0]?.n ?? 0;
  expect(simulator.history.all().length - stored, 'recovery keeps up').toBeLessThan(60);
});
