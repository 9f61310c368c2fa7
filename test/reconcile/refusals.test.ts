// Reconciliation against a service that refuses or fails: when replay stops, waits and resumes, and what it says.
import { describe, expect, test } from 'vitest';
import { API_KEY, failure, item, type Lie } from './replay-server.ts';
import { caughtUp, INTERVAL_MS, quiet, upTo } from './harness.ts';

describe('a service that refuses', () => {
  test.each([
    ['401', failure(401, 'UNAUTHENTICATED', 'API_AUTH_REVOKED')],
    ['403', failure(403, 'FORBIDDEN', 'API_KEY_IP_FORBIDDEN')],
    ['403 of a proxy', { status: 403, body: '<html>Forbidden</html>' }],
  ])('F31: after %s replay stops, `status` says so, and the call is not repeated', async (_, refusal) => {
    const { server, pass, state, text } = await quiet();
    server.lieAlways(refusal);
    const before = server.requests.length;
    await pass(24 * INTERVAL_MS);
    expect(server.requests.length - before).toBe(1);
    expect(await state()).toMatchObject({ state: 'stopped', reason: expect.stringContaining(`${refusal.status}`) });
    expect(text()).toContain('npx kit reconcile');
    expect(text()).not.toContain(API_KEY);
  });

  test('F31: webhooks are still accepted, and replay resumes when a person asks', async () => {
    const { server, pass, webhook, ask, state, stored, watermark } = await quiet();
    server.lie(failure(401, 'UNAUTHENTICATED'));
    server.publish(...upTo(8, 6));
    await pass(INTERVAL_MS);
    await webhook(7);
    expect(await watermark()).toBe('5');
    await ask();
    await pass(5_000);
    expect(await state()).toMatchObject({ state: 'idle', reason: null });
    expect(stored()).toEqual(['1', '2', '3', '4', '5', '6', '7', '8']);
    expect(await watermark()).toBe('8');
  });

  test('F31: a key that is still refused stops replay again after one call', async () => {
    const { server, pass, ask, state } = await quiet();
    server.lieAlways(failure(401, 'UNAUTHENTICATED'));
    await pass(INTERVAL_MS);
    const before = server.requests.length;
    await ask();
    await pass(10 * INTERVAL_MS);
    expect(server.requests.length - before).toBe(1);
    expect(await state()).toMatchObject({ state: 'stopped' });
  });

  test('F31: if a person asks while the budget is used up, replay resumes with the next allowed call', async () => {
    const rig = await caughtUp({ callsPerMinute: 3, intervalMs: 1_000, overlapMs: 0 });
    const { server, pass, ask, state } = rig;
    server.lie(failure(401, 'UNAUTHENTICATED'));
    while ((await state()).state !== 'stopped') await pass(1_000);
    server.publish(item(6));
    await ask();
    await pass(180_000);
    expect(await rig.watermark()).toBe('6');
  });

  test.each([
    ['F32: 429', failure(429, 'RATE_LIMITED', 'RATE_LIMITED')],
    ['F33: 500', failure(500, 'INTERNAL')],
    ['F33: 503', failure(503, 'UNAVAILABLE', 'ACCESS_CONTROL_UNAVAILABLE')],
    ['F33: 504 RPC_DEADLINE_EXCEEDED', failure(504, 'UNAVAILABLE', 'RPC_DEADLINE_EXCEEDED')],
    ['F33: 502 of a proxy', { status: 502, body: 'bad gateway' }],
    ['F36: a cut connection', 'destroy' as const],
  ] satisfies [string, Lie][])('%s: pauses grow, with jitter, up to a minute', async (_, refusal) => {
    const { server, pass, state, watermark } = await quiet();
    server.lieAlways(refusal);
    const before = server.requests.length;
    await pass(15 * 60_000);
    const times = server.requests.slice(before).map(({ at }) => at);
    const waits = times.slice(1).map((at, i) => at - (times[i] ?? 0));
    for (const [i, wait] of waits.entries()) {
      const ceiling = Math.min(60_000, 1_000 * 2 ** i);
      expect(wait).toBeGreaterThanOrEqual(ceiling / 2);
      expect(wait).toBeLessThanOrEqual(ceiling + 1);
    }
    const late = waits.slice(6);
    expect(late.length).toBeGreaterThan(8);
    expect(new Set(late).size, 'jitter').toBeGreaterThan(1);
    expect(await state()).toMatchObject({ state: 'backing-off' });
    expect(await watermark()).toBe('5');
  });

  test('F33: the log has the request id of a failed call, and after a success the back-off begins anew', async () => {
    const { server, pass, settle, text, state, clock } = await quiet();
    server.lie(...Array.from({ length: 6 }, () => failure(503, 'UNAVAILABLE')));
    await pass(3 * 60_000);
    expect(text()).toContain('req-503');
    expect(await state()).toMatchObject({ state: 'idle', reason: null });
    clock.time += INTERVAL_MS;
    server.lie(failure(503, 'UNAVAILABLE'));
    await settle();
    const before = server.requests.length;
    await pass(1_001);
    expect(server.requests.length - before).toBe(1);
  });
});

describe('an error with words that the contract does not have', () => {
  test.each([
    ['the key', API_KEY],
    ['a hundred kilobytes', 'A'.repeat(100_000)],
    ['escape characters', 'X\u001b[2J\u0007'],
  ])('%s, in the fields of an error, is neither shown nor logged', async (_, word) => {
    const { server, pass, state, text } = await quiet();
    const requestId = word === API_KEY ? 'r' : word;
    const error = { code: word, message: word, requestId, reason: word };
    server.lie({ status: 503, body: { error } }, { status: 503, body: { error: { ...error, code: 'UNAVAILABLE' } } });
    server.lieAlways({ status: 401, body: { error: { ...error, code: 'UNAUTHENTICATED', requestId: 'r' } } });
    await pass(INTERVAL_MS);
    expect(await state()).toMatchObject({ state: 'stopped', reason: 'ReplayEvents: 401 UNAUTHENTICATED' });
    expect(text().includes(word)).toBe(false);
    expect(text().length).toBeLessThan(10_000);
  });
});
