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

test('an idempotent call is retried; a paid call is not, even if it is marked idempotent', async () => {
  const { service, got } = await setUp(statuses(503, 200, 503, 503));
  await service.call('DeleteCrmList', {}, { idempotent: true });
  expect(got).toHaveLength(2);
  const more = { quoteId: 'q', idempotent: true };
  expect(await errorOf(service.call('ResumeCampaign', {}, more))).toMatchObject({ uncertain: true });
  expect(await errorOf(service.call('ListSomething', {}, more))).toMatchObject({ uncertain: true });
  expect(got).toHaveLength(4);
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
  await service.call('ListCrmTags', {});
  await service.call('DeleteCrmList', {});
  expect(waits).toEqual([10_000]);
  const error = await errorOf(service.call('DeleteCrmList', {}));
  expect(error).toMatchObject({ code: 'RATE_LIMITED', status: 0, uncertain: false, retryable: true });
  expect(got).toHaveLength(3);
});

test('8: routes with a lower limit keep to it, and share the calls of all', async () => {
  const { service, got } = await setUp(statuses(), { callsPerMinute: 12 });
  const resume = () => errorOf(Array.fromAsync(service.resume('s', { withinMs: 1_000 })));
  for (let i = 0; i < 10; i++) expect(await resume()).toMatchObject({ code: 'unreadable' });
  for (let i = 0; i < 10; i++) expect(await resume()).toMatchObject({ code: 'RATE_LIMITED', status: 0 });
  for (let i = 0; i < 2; i++) await service.call('ListCrmTags', {});
  const error = await errorOf(service.media('a', { withinMs: 1_000 }));
  expect([error.code, got.length]).toEqual(['RATE_LIMITED', 12]);
});

test('5.6: an answer 429 halves the budget once; each hour without one doubles it again', () => {
  const clock = { at: 0, now: () => 0, monotonic: () => clock.at };
  const budget = createBudget(8, clock);
  function burst(atMinute: number): number {
    clock.at = atMinute * 60_000;
    return Array.from({ length: 9 }, () => budget.take()).filter((ms) => ms === 0).length;
  }
  expect(burst(0)).toBe(8);
  budget.lower();
  budget.lower();
  expect([burst(1), burst(61), burst(121)]).toEqual([4, 8, 8]);
});
