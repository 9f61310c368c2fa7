// When a handler's call is made and retried, over real HTTP. A wait takes no real time: it advances the test's clock.
import { createServer } from 'node:http';
import { once as happened } from 'node:events';
import type { AddressInfo } from 'node:net';
import { expect, onTestFinished, test } from 'vitest';
import { ServiceError } from '../../src/service/errors.ts';
import { createPace, repeatWait } from '../../src/service/pace.ts';
import { createService } from '../../src/service/service.ts';
import { createEndpoint } from '../tools/simulator/endpoint.ts';

const UNAVAILABLE = { error: { code: 'UNAVAILABLE', message: '', reason: 'ACCESS_CONTROL_UNAVAILABLE' } };

/** Answers with these statuses in turn, then always with an empty object. 0 cuts the connection. */
async function setUp(statuses: number[], { callsPerMinute = 100 }: { callsPerMinute?: number } = {}) {
  const bodies: { deadlineMs?: number }[] = [];
  const server = createServer((request, response) => {
    void request.toArray().then((chunks: Buffer[]) => {
      bodies.push(JSON.parse(Buffer.concat(chunks).toString() || '{}') as { deadlineMs?: number });
      const status = statuses.shift() ?? 200;
      if (status === 0) return void response.destroy();
      const { code, ...error } = UNAVAILABLE.error;
      const body = status === 200 ? {} : { error: { ...error, code: CODES[status] ?? code } };
      return void response.writeHead(status).end(JSON.stringify(body));
    });
  });
  server.listen(0, '127.0.0.1');
  await happened(server, 'listening');
  onTestFinished(() => {
    server.close();
    server.closeAllConnections();
  });
  const waits: number[] = [];
  const clock = { at: Date.UTC(2026, 0, 1), now: () => clock.at, monotonic: () => clock.at };
  const stop = new AbortController();
  const pause = (ms: number): Promise<void> => {
    waits.push(ms);
    clock.at += ms;
    return Promise.resolve();
  };
  const service = createService({
    baseUrl: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`,
    apiKey: 'svc_test_0',
    paid: true,
    pace: createPace({ callsPerMinute, clock, pause }),
  });
  return { service, bodies, waits, clock, stop };
}

const CODES: Record<number, string> = {
  400: 'VALIDATION_FAILED',
  401: 'UNAUTHENTICATED',
  402: 'PAYMENT_REQUIRED',
  403: 'FORBIDDEN',
  404: 'NOT_FOUND',
  409: 'CONFLICT',
  429: 'RATE_LIMITED',
  500: 'INTERNAL',
};

async function errorOf(calling: Promise<unknown>): Promise<ServiceError> {
  const error = await calling.catch((thrown: unknown) => thrown);
  expect(error).toBeInstanceOf(ServiceError);
  return error as ServiceError;
}

test.each([429, 500, 503, 504, 0])('7.2: a call that only reads is retried after %i', async (status) => {
  const { service, bodies, waits } = await setUp([status, status]);
  expect(await service.call('ListCrmTags', {})).toEqual({});
  expect(bodies).toHaveLength(3);
  expect(waits).toHaveLength(2);
});

test.each([429, 500, 503, 504])(
  'E25: a call that only reads is retried after %i without an envelope',
  async (status) => {
    const answers = [status];
    const { url, got } = await createEndpoint((_, response) => {
      response.writeHead(answers.shift() ?? 200).end(got.length > 1 ? '{}' : '<html>');
    });
    const clock = { now: () => 0, monotonic: () => 0 };
    const pace = createPace({ callsPerMinute: 10, clock, pause: () => Promise.resolve() });
    const service = createService({ baseUrl: url, apiKey: 'k', paid: false, pace });
    expect(await service.call('ListCrmTags', {})).toEqual({});
    expect(got).toHaveLength(2);
  },
);

test.each([400, 401, 402, 403, 404, 409])('7.2: no call is retried after %i', async (status) => {
  const { service, bodies } = await setUp([status]);
  expect(await errorOf(service.call('GetSession', {}))).toMatchObject({ status, retryable: false });
  expect(bodies).toHaveLength(1);
});

test.each([500, 503, 504, 0])('7.3: after %i a call with an effect is uncertain, not retried', async (status) => {
  const { service, bodies } = await setUp([status]);
  expect(await errorOf(service.call('DeleteCrmList', {}))).toMatchObject({ uncertain: true, retryable: false });
  expect(bodies).toHaveLength(1);
});

test('an idempotent call is retried; a paid call is not, even if it is marked idempotent', async () => {
  const { service, bodies } = await setUp([503, 200, 503]);
  await service.call('DeleteCrmList', {}, { idempotent: true });
  expect(bodies).toHaveLength(2);
  const paid = service.call('ResumeCampaign', {}, { quoteId: 'q', idempotent: true });
  expect(await errorOf(paid)).toMatchObject({ uncertain: true });
  expect(bodies).toHaveLength(3);
});

test('a send whose connection was refused is not uncertain', async () => {
  const closed = createServer().listen(0, '127.0.0.1');
  await happened(closed, 'listening');
  const { port } = closed.address() as AddressInfo;
  await new Promise((done) => closed.close(done));
  const service = createService({ baseUrl: `http://127.0.0.1:${port}/v1`, apiKey: 'k', paid: true });
  const error = await errorOf(service.send({}, { quoteId: 'q' }));
  expect(error).toMatchObject({ code: 'unreachable', uncertain: false, retryable: true });
});

test.each([
  [0, 500, 1_000],
  [1, 1_000, 2_000],
  [3, 4_000, 8_000],
  [6, 30_000, 60_000],
  [99, 30_000, 60_000],
])('8: after %i earlier failures, the wait is from %i to %i ms', (failures, least, most) => {
  expect([repeatWait(failures, 1), repeatWait(failures, 0)]).toEqual([least, most]);
});

test('the retries of a call and their deadlines end within its time limit', async () => {
  const { service, bodies, waits, clock } = await setUp(Array.from({ length: 50 }, () => 503));
  const began = clock.at;
  expect(await errorOf(service.call('ListCrmTags', {}))).toMatchObject({ code: 'UNAVAILABLE', retryable: true });
  expect(clock.at - began).toBeLessThan(24_000);
  const elapsed = waits.map((_, i) => waits.slice(0, i + 1).reduce((sum, ms) => sum + ms, 0));
  expect(bodies.map(({ deadlineMs }) => deadlineMs)).toEqual([0, ...elapsed].map((ms) => Math.floor(24_000 - ms)));
  expect(await errorOf(service.call('ListCrmTags', {}, { withinMs: 1 }))).toMatchObject({ code: 'UNAVAILABLE' });
});

test('8: a call waits for the call budget, and fails with RATE_LIMITED if its time limit is too short', async () => {
  const { service, bodies, waits, clock } = await setUp([], { callsPerMinute: 2 });
  await service.call('ListCrmTags', {});
  clock.at += 50_000;
  await service.call('ListCrmTags', {});
  await service.call('DeleteCrmList', {});
  expect(waits).toEqual([10_000]);
  const error = await errorOf(service.call('DeleteCrmList', {}));
  expect(error).toMatchObject({ code: 'RATE_LIMITED', status: 0, uncertain: false, retryable: true });
  expect(bodies).toHaveLength(3);
  await service.call('DeleteCrmList', {}, { withinMs: 60_001 });
  expect(bodies).toHaveLength(4);
});

test('E24, 5.6: calls of all routes share the calls of the handlers', async () => {
  const { service, bodies } = await setUp([], { callsPerMinute: 4 });
  const quick = { withinMs: 1_000 };
  const calls = [
    () => service.call('ListCrmTags', {}, quick),
    () => service.send({}, { quoteId: 'q', ...quick }),
    () => service.quote('SendMessage', {}, quick),
    () => service.media('a', quick),
    () => Array.fromAsync(service.resume('s', quick)),
  ];
  for (const call of calls.slice(0, 4)) await call().catch(() => {});
  expect(bodies).toHaveLength(4);
  for (const call of calls) expect(await errorOf(call())).toMatchObject({ code: 'RATE_LIMITED', status: 0 });
  expect(bodies).toHaveLength(4);
});

test('8: routes with a lower limit keep to it, and leave the other calls to others', async () => {
  const { service, bodies } = await setUp([], { callsPerMinute: 12 });
  const resume = () => errorOf(Array.fromAsync(service.resume('s', { withinMs: 1_000 })));
  for (let i = 0; i < 10; i++) expect(await resume()).toMatchObject({ code: 'unreadable' });
  for (let i = 0; i < 10; i++) expect(await resume()).toMatchObject({ code: 'RATE_LIMITED', status: 0 });
  for (let i = 0; i < 2; i++) await service.call('ListCrmTags', {});
  expect(bodies).toHaveLength(12);
});

test('a call that is aborted before it is sent reaches nobody', async () => {
  const { service, bodies, stop } = await setUp([503]);
  stop.abort();
  const error = await errorOf(service.send({}, { quoteId: 'q', signal: stop.signal }));
  expect(error).toMatchObject({ code: 'aborted', uncertain: false });
  expect(bodies).toEqual([]);
});

test('an abort between two attempts ends the wait', async () => {
  const { url, got } = await createEndpoint((_, response) => void response.writeHead(503).end());
  const clock = { now: () => 0, monotonic: () => 0 };
  const stop = new AbortController();
  const pace = createPace({
    callsPerMinute: 10,
    clock,
    pause(_, signal) {
      const aborted = happened(signal ?? new AbortController().signal, 'abort');
      stop.abort();
      return aborted;
    },
  });
  const service = createService({ baseUrl: url, apiKey: 'k', paid: false, pace });
  const error = await errorOf(service.call('ListCrmTags', {}, { signal: stop.signal }));
  expect(error).toMatchObject({ code: 'aborted', retryable: false });
  expect(got).toHaveLength(1);
});
