// Reconciliation when an answer is too large or breaks off: the limit of a page.
import { describe, expect, test } from 'vitest';
import { ServiceError } from '../../src/service/errors.ts';
import { failure } from './replay-server.ts';
import { INTERVAL_MS, openRig, quiet, upTo, type Rig } from './harness.ts';

describe('answers that are too large', () => {
  const most = 64 * 1024 * 1024;
  let rig: Rig;
  const limits = (from: number) => rig.server.requests.slice(from).map(({ limit }) => limit);

  test('after an answer above 64 MiB the limit is halved until a page fits, and later raised again', async () => {
    rig = await quiet();
    const { server, pass, watermark } = rig;
    server.publish(...upTo(600, 6));
    const before = server.requests.length;
    server.lieAlways(({ limit = 0 }, truth) => (limit > 250 ? { body: Buffer.alloc(most + 1) } : truth));
    await pass(10_000);
    expect(limits(before).slice(0, 3)).toEqual([1_000, 500, 250]);
    server.lieAlways();
    await pass(2 * INTERVAL_MS);
    expect(await watermark()).toBe('600');
    expect(limits(before).at(-1)).toBe(1_000);
  });

  test('the limit is halved after RPC_DEADLINE_EXCEEDED, too', async () => {
    rig = await quiet();
    const { server, pass } = rig;
    const before = server.requests.length;
    server.lie(failure(504, 'UNAVAILABLE', 'RPC_DEADLINE_EXCEEDED'), failure(503, 'UNAVAILABLE'));
    await pass(30_000);
    expect(limits(before).slice(0, 3), '503 says nothing of its size').toEqual([1_000, 500, 500]);
  });

  test.each<[string, unknown]>([
    ['breaks off', new TypeError('terminated')],
    ['does not come to its end in time', new DOMException('', 'TimeoutError')],
  ])('the limit is halved after an answer that %s', async (_, cause) => {
    rig = await openRig();
    const asked: unknown[] = [];
    rig.restart({
      service: {
        call: async (_operation, { limit }) => {
          asked.push(limit);
          if (asked.length < 3) throw new ServiceError({ code: 'unreachable', message: 'test', cause });
          return { events: [], next_cursor: '', has_more: false, reset_required: false };
        },
      },
    });
    await rig.webhook(1);
    await rig.pass(3 * INTERVAL_MS);
    expect(asked.slice(0, 5)).toEqual([1_000, 500, 250, 500, 1_000]);
  });
});
