// Errors, retries and the call budget, over real HTTP.
import { expect, test, vi } from 'vitest';
import { createBudget, retryWait } from '../../src/service/pace.ts';
import { API_KEY, errorOf, json, setUp, statuses } from './server.ts';

test('7.1: an error has code, reason and requestId; it shows neither the message nor the key', async () => {
  const fields = { code: 'FORBIDDEN', requestId: 'r-1', reason: 'API_KEY_IP_FORBIDDEN' };
  const { service } = await setUp(json({ error: { ...fields, message: API_KEY } }, 403));
  const error = await errorOf(service.call('X', {}));
  expect(error).toMatchObject({ ...fields, name: 'ServiceError', status: 403 });
  expect(`${error.message} ${error.stack} ${JSON.stringify(error)}`).not.toContain(API_KEY);
});

test.each([429, 500, 503, 504, 0])('7.2: a call that only reads is retried after %i', async (status) => {
  const { service, got, waits } = await setUp(statuses(status, status));
  expect(await service.call('ListCrmTags', {})).toEqual({});
  expect([got.length, waits.length]).toEqual([3, 2]);
});

test.each([400, 401, 402, 403, 404, 409])(
  '7.2: no call is retried after %i, also without an envelope',
  async (status) => {
    const { service, got } = await setUp(statuses(status));
    expect(await errorOf(service.call('GetSession', {}))).toMatchObject({ status, retryable: false });
    expect(got).toHaveLength(1);
  },
);

test.each([500, 503, 504, 0])('7.3: after %i a call with an effect is uncertain, not retried', async (status) => {
  const { service, got } = await setUp(statuses(status, status));
  const uncertain = { uncertain: true, retryable: false };
  expect(await errorOf(service.call('DeleteCrmList', {}))).toMatchObject(uncertain);
  expect(await errorOf(service.send({}, { quoteId: 'q' }))).toMatchObject(uncertain);
  expect(got).toHaveLength(2);
});

test.each([
  [504, 'DEADLINE_EXCEEDED', undefined, true],
  [409, 'CONFLICT', 'OUTCOME_UNCERTAIN', true],
  [422, 'SOMETHING_NEW', undefined, false],
])('7.3: a send that is answered %i %s %s is uncertain: %s', async (status, code, reason, uncertain) => {
  const { service } = await setUp(json({ error: { code, reason } }, status));
  expect(await errorOf(service.send({}, { quoteId: 'q' }))).toMatchObject({ code, uncertain });
});

test('7.3: a paid call is not retried, whatever its name', async () => {
  const { service, got } = await setUp(statuses(503, 503));
  expect(await errorOf(service.call('ResumeCampaign', {}))).toMatchObject({ uncertain: true });
  expect(await errorOf(service.call('ListSomething', {}, { quoteId: 'q' }))).toMatchObject({ uncertain: true });
  expect(got).toHaveLength(2);
});

test('a send whose connection was refused is not uncertain', async () => {
  const { service, server } = await setUp(json({}));
  await new Promise((done) => server.close(done));
  const error = await errorOf(service.send({}, { quoteId: 'q' }));
  expect(error).toMatchObject({ code: 'unreachable', uncertain: false, retryable: true });
});

test('the retries of a call and their deadlines end within its time limit', async () => {
  const { service, got, waits, clock } = await setUp((response) => response.writeHead(503).end());
  expect(await errorOf(service.call('ListCrmTags', {}))).toMatchObject({ code: 'UNAVAILABLE', retryable: true });
  expect(clock.at).toBeLessThan(24_000);
  const elapsed = waits.map((_, i) => waits.slice(0, i + 1).reduce((sum, ms) => sum + ms, 0));
  expect(got.map(({ body }) => body['deadlineMs'])).toEqual([0, ...elapsed].map((ms) => 24_000 - ms));
});

test('an answer that does not end in time is unreachable, not aborted', async () => {
  const soon = AbortSignal.timeout(20);
  vi.spyOn(AbortSignal, 'timeout').mockReturnValueOnce(soon);
  const { service } = await setUp((response) => response.writeHead(200).write('{"a":'));
  const error = await errorOf(service.send({}, { quoteId: 'q' }));
  expect(error).toMatchObject({ code: 'unreachable', uncertain: true });
});

test('an abort before the call, or between two attempts, ends it', async () => {
  const stop = new AbortController();
  const { service, got } = await setUp(statuses(503), { onWait: () => stop.abort() });
  const more = { quoteId: 'q', signal: stop.signal };
  expect(await errorOf(service.call('ListCrmTags', {}, { signal: stop.signal }))).toMatchObject({ code: 'aborted' });
  expect(await errorOf(service.send({}, more))).toMatchObject({ code: 'aborted', uncertain: false });
  expect(got).toHaveLength(1);
});

test('8: the wait before a retry has full jitter, and doubles up to 60 s', () => {
  expect([0, 3, 6, 99].map((failures) => retryWait(failures, 1))).toEqual([1_000, 8_000, 60_000, 60_000]);
  expect(retryWait(99, 0)).toBe(0);
});

test('8: a call waits for the call budget, and fails with RATE_LIMITED if its time limit is too short', async () => {
  const { service, got, waits, clock } = await setUp(statuses(), { callsPerMinute: 2 });
  await service.call('ListCrmTags', {});
  clock.at += 50_000;
  await service.call('DeleteCrmList', {});
  expect(waits).toEqual([10_000]);
  const error = await errorOf(service.call('DeleteCrmList', {}));
  expect(error).toMatchObject({ code: 'RATE_LIMITED', status: 0, uncertain: false, retryable: true });
  expect(got).toHaveLength(2);
});

test('8: routes with a lower limit keep to it, and share the calls of all', async () => {
  const { service, got } = await setUp(json({ id: 'q' }));
  for (let i = 0; i < 12; i++) await service.quote('SendMessage', {});
  const hurry = { withinMs: 500 };
  const limited = { code: 'RATE_LIMITED', status: 0 };
  expect(await errorOf(service.quote('SendMessage', {}, hurry))).toMatchObject(limited);
  for (let i = 0; i < 8; i++) await service.call('ListCrmTags', {});
  expect(await errorOf(service.media('a', hurry))).toMatchObject(limited);
  expect(got).toHaveLength(20);
});

test.each([1, 2, 20, 100])('8: of %i calls a minute, no 60 seconds have more, and most are used', (most) => {
  const clock = { at: 0, now: () => 0, monotonic: () => clock.at };
  const budget = createBudget(most, clock);
  const calls: number[] = [];
  while (clock.at < 600_000) {
    const waitMs = budget.take();
    if (waitMs === 0) calls.push(clock.at);
    clock.at += waitMs;
  }
  const within = calls.map((at) => calls.filter((other) => other >= at && other < at + 60_000).length);
  expect(Math.max(...within)).toBeLessThanOrEqual(most);
  expect(calls.length).toBeGreaterThanOrEqual(Math.floor(most / 2) * 10);
});
