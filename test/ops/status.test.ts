// GET /api/status: its fields, for an empty store and for one in use.
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { INSTANCES, beat, createOps, deliver, end, fanOut, share, type Ops } from './harness.ts';

let ops: Ops;
beforeEach(async () => {
  ops = await createOps();
});
afterEach(() => ops.close());

describe('GET /api/status', () => {
  test('has exactly these fields for an empty store', async () => {
    expect((await ops.get('/api/status')).json()).toEqual({
      events: 0,
      unassigned: 0,
      undecided: 0,
      duplicates: 0,
      quarantined: 0,
      conflicts: 0,
      tasks: { held: 0, ready: 0, running: 0, done: 0, skipped: 0, dead: 0 },
      oldestReadySeconds: null,
      watermark: null,
      floor: null,
      newestCursor: null,
      reconcile: { state: 'off', since: null, lastAt: null, reason: null, progress: null, recovered: 0 },
      stream: { state: 'off', since: null, reason: null },
      gaps: 0,
      failureRun: 0,
      failures: { causes: {}, badSignatures: 0, badSince: null, lastBadAt: null },
      lastDeliveryAt: null,
      secrets: [],
      alarms: [],
      processes: { receive: 'down', run: 'down', keep: 'down' },
      instances: [],
      waiting: [],
      moving: null,
      paused: [],
    });
  });

  test('has the same fields, with values, for a store in use', async () => {
    const at = '2026-01-01T12:00:00.000Z';
    await deliver(ops, { cursor: '9007199254740993' }, { cursor: '5' }, { cursor: '6' }, { cursor: '5' });
    const [handler = 0] = await fanOut(ops, ['a']);
    await end(ops, handler, 'dead', 'broken');
    await end(ops, handler, 'done');
    await deliver(ops, { cursor: '7' });
    const unreadable = { origin: 'webhook' as const, cursor: null, body: Buffer.from('?'), reason: 'not JSON' };
    await ops.store.ingest.accept({ readings: [{ unreadable }], now: ops.clock.time, watermark: '6' as never });
    await ops.store.state.note(
      {},
      {
        failure_run: 2,
        replay: JSON.stringify({ state: 'idle', lastAt: at, reason: null }),
        failures: JSON.stringify({
          causes: { store: 2 },
          badSignatures: 1,
          badSince: at,
          lastBadAt: at,
          lastGoodAt: at,
        }),
        signers: JSON.stringify([
          { fingerprint: 'old', number: null, hits: 9, lastAt: 0, mayGo: false },
          { fingerprint: 'new', number: 1, hits: 3, lastAt: Date.parse(at), mayGo: false },
        ]),
      },
    );
    await ops.store.alarms.raise('gap_open', 'one', ops.clock.time);
    for (const role of ['receive', 'run']) await beat(ops, role);
    ops.clock.time += 2_000;
    const reply = await ops.get('/api/status');
    expect(reply.headers['content-type']).toMatch(/^application\/json/);
    expect(reply.json()).toEqual({
      events: 4,
      unassigned: 1,
      undecided: 0,
      duplicates: 1,
      quarantined: 1,
      conflicts: 1,
      tasks: { held: 0, ready: 1, running: 0, done: 1, skipped: 0, dead: 1 },
      oldestReadySeconds: expect.any(Number),
      watermark: '6',
      floor: null,
      newestCursor: '9007199254740993',
      reconcile: { state: 'idle', lastAt: '2026-01-01T12:00:00.000Z', reason: null, recovered: 0 },
      stream: { state: 'off', since: null, reason: null },
      gaps: 0,
      failureRun: 2,
      failures: { causes: { store: 2 }, badSignatures: 1, badSince: at, lastBadAt: at },
      lastDeliveryAt: at,
      secrets: [{ number: 1, hits: 3, lastAt: at, mayGo: false }],
      alarms: [{ name: 'gap_open', since: expect.stringMatching(/^2026-.*Z$/), detail: 'one' }],
      processes: { receive: 'up', run: 'up', keep: 'down' },
      instances: [],
      waiting: [],
      moving: null,
      paused: [],
    });
  });

  test('has the instances that share the store, with times in ISO 8601', async () => {
    await share(ops, INSTANCES);
    expect((await ops.get('/api/status')).json()).toMatchObject({ instances: INSTANCES });
  });
});
