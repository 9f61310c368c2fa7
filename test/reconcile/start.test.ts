// Recovery as a whole: the call budget survives a restart, and stopping does not wait for the service to answer.
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { expect, onTestFinished, test } from 'vitest';
import { loadConfig } from '../../src/config.ts';
import { startRecovery } from '../../src/reconcile/start.ts';
import { readDelivery } from '../../src/wire/event.ts';
import { API_KEY, fields, page } from './replay-server.ts';
import { createClock, createStoreFile, createTestLog } from './harness.ts';

/** A store with one webhook event, and a service that counts calls. It answers them or leaves them open. */
async function begin({ answers }: { answers: boolean }) {
  const file = createStoreFile();
  const clock = createClock();
  let calls = 0;
  const called: (() => void)[] = [];
  const server = createServer((req, res) => {
    calls++;
    called.splice(0).forEach((tell) => tell());
    req.resume();
    if (answers) res.setHeader('content-type', 'application/json').end(JSON.stringify(page([]).body));
  });
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
  onTestFinished(async () => {
    server.closeAllConnections();
    await new Promise((done) => server.close(done));
    file.remove();
  });
  const rest = { created_at: '2026-01-01T12:00:00.000Z', session_id: null, webhook_id: 'w' };
  const body = { id: 'e1', type: 'MessageReceived', cursor: '1', ...rest, data: { MessageReceived: fields(1) } };
  await file.store.ingest.accept({ readings: [readDelivery(Buffer.from(JSON.stringify(body)))], now: clock.now() });
  const config = loadConfig({
    WEBHOOK_SECRET: `whsec_${'s'.repeat(32)}`,
    API_BASE_URL: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`,
    API_KEY,
    RECONCILE_CALLS_PER_MINUTE: '1',
  });
  const start = async () => {
    const recovery = await startRecovery({
      config,
      store: file.store,
      clock,
      log: createTestLog().log,
      recover: (error) => {
        throw error;
      },
      onEvents: () => {},
      silent: () => false,
    });
    if (!recovery) throw new Error('recovery is off');
    return recovery;
  };
  return { ...file, start, calls: () => calls, nextCall: () => new Promise<void>((done) => called.push(done)) };
}

test('a stop does not wait for an answer that the service never sends', async () => {
  const { start, nextCall, calls } = await begin({ answers: false });
  const call = nextCall();
  const recovery = await start();
  await call;
  await recovery.stop();
  expect(calls(), 'nor does it ask again').toBe(1);
});

test('a restart does not refill the budget', async () => {
  const { start, nextCall, calls, store } = await begin({ answers: true });
  const call = nextCall();
  const first = await start();
  await call;
  await first.stop();
  expect(await store.state.get('calls')).toHaveLength(1);
  const second = await start();
  const waiting = async () => (await store.read.status(0)).reconcile.reason?.includes('call budget');
  second.now();
  await expect.poll(waiting).toBe(true);
  await second.stop();
  expect(calls()).toBe(1);
});

test('the state `off` of an earlier start without a key is replaced before the first answer', async () => {
  const { start, store } = await begin({ answers: false });
  await store.state.note(
    {},
    { replay: JSON.stringify({ state: 'off', since: null, lastAt: null, reason: 'x', progress: null }) },
  );
  const recovery = await start();
  expect((await store.read.status(0)).reconcile.state).not.toBe('off');
  await recovery.stop();
});
