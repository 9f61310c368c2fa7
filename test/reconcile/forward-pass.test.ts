// Forward passes for events above the watermark. A burst of events costs one call. If events arrive all the time, calls
// stay within the budget and are spread over the minute. No lie of the service causes an endless loop.
import { afterEach, describe, expect, test } from 'vitest';
import { failure, item } from './replay-server.ts';
import { createRig, INTERVAL_MS, OVERLAP_MS, type Rig, type RigOptions } from './harness.ts';

let rig: Rig;
afterEach(() => rig.close());

const MINUTE = 60_000;
const FAR_AHEAD = String(2n ** 62n);

/** The watermark is 1, the first overlap period is over, and the whole call budget is left. */
async function begin(options?: RigOptions): Promise<Rig> {
  rig = await createRig(options);
  rig.server.publish(item(1));
  await rig.webhook(1);
  await rig.settle();
  await rig.pass(OVERLAP_MS + 2.5 * INTERVAL_MS);
  rig.server.requests.length = 0;
  return rig;
}

/** An event happens, is delivered, and is above the watermark. */
async function arrive(cursor: number | string, { shown = true } = {}): Promise<void> {
  if (shown) rig.server.publish(item(cursor));
  await rig.webhook(cursor);
  rig.prove();
}

const times = () => rig.server.requests.map(({ at }) => at);
const mostInAMinute = () =>
  Math.max(0, ...times().map((from) => times().filter((at) => at >= from && at < from + MINUTE).length));
const gaps = () => times().flatMap((at, i, all) => (i === 0 ? [] : [at - (all[i - 1] ?? at)]));

describe('events above the watermark', () => {
  test('a hundred arrivals in a burst cost one call, and an overlap pass with the next interval', async () => {
    const { pass, watermark, clock, server } = await begin();
    for (let cursor = 2; cursor <= 101; cursor++) await arrive(cursor);
    const before = clock.time;
    await pass(1_000);
    expect(server.requests).toHaveLength(1);
    expect((server.requests[0]?.at ?? Infinity) - before).toBeLessThanOrEqual(100);
    expect(await watermark()).toBe('101');
  });

  test('no call is made if no event is above the watermark any more', async () => {
    const { pass, server } = await begin();
    rig.prove();
    await pass(5_000);
    expect(server.requests).toHaveLength(0);
  });

  test('an open stream has two seconds to raise the watermark before a call is made', async () => {
    const { pass, server, store, clock } = await begin({ streaming: () => true });
    await arrive(2);
    await pass(1_900);
    expect(server.requests).toHaveLength(0);
    await store.ingest.accept({ readings: [], now: clock.time, watermark: '2' as never });
    await pass(5_000);
    expect(server.requests).toHaveLength(0);
    await arrive(3);
    await pass(2_100);
    expect(server.requests).toHaveLength(1);
  });

  test.each([1, 2, 20])(
    'with %i calls a minute, five arrivals a second stay within the budget, and calls never pause for long',
    async (callsPerMinute) => {
      const { pass } = await begin({ callsPerMinute });
      for (let cursor = 2; cursor <= 2 + 5 * 300; cursor++) {
        await arrive(cursor);
        await pass(200);
      }
      expect(mostInAMinute()).toBeLessThanOrEqual(callsPerMinute);
      // While calls are spread, they use about half of the budget, apart from overlap passes.
      const spread = Math.max(...gaps().slice(callsPerMinute));
      expect(spread).toBeLessThanOrEqual(Math.max(INTERVAL_MS, (3 * MINUTE) / callsPerMinute) + 1_000);
      expect(spread, 'the budget was not used up at once').toBeLessThanOrEqual(
        callsPerMinute === 20 ? 10_000 : 2 * MINUTE,
      );
    },
  );

  test('a far too high cursor that replay never shows costs one call per interval in the long run', async () => {
    const { pass, server } = await begin({ callsPerMinute: 20 });
    await arrive(FAR_AHEAD, { shown: false });
    await pass(10 * MINUTE);
    const soFar = server.requests.length;
    expect(soFar, 'the pause doubles').toBeLessThanOrEqual(20);
    await pass(30 * MINUTE);
    expect(server.requests.length - soFar).toBeLessThanOrEqual(31);
  });

  test('a far too high cursor on a busy account does not use up the budget at once', async () => {
    const { pass } = await begin({ callsPerMinute: 20 });
    await arrive(FAR_AHEAD, { shown: false });
    for (let cursor = 2; cursor <= 2 + 300; cursor++) {
      await arrive(cursor);
      await pass(1_000);
    }
    expect(mostInAMinute()).toBeLessThanOrEqual(20);
    expect(Math.max(...gaps().slice(20))).toBeLessThanOrEqual(10_000);
  });

  test('if replay shows an arrival a little later, a pass finds it soon', async () => {
    const { pass, server, watermark } = await begin();
    await arrive(2, { shown: false });
    await pass(2_500);
    expect(await watermark()).toBe('1');
    server.publish(item(2));
    await pass(4_000);
    expect(await watermark()).toBe('2');
  });
});

describe('whether deliveries were possible when a new event happened', () => {
  test('yes, after a first pass has reached the end of history', async () => {
    rig = await createRig();
    expect(rig.fresh()).toBe(false);
    rig.server.publish(item(1));
    await rig.webhook(1);
    await rig.settle();
    expect(rig.fresh()).toBe(true);
  });

  test('no, if replay failed for a while, because webhooks may have failed, too', async () => {
    const { pass, server, store, watermark } = await begin();
    server.lieAlways(failure(503, 'UNAVAILABLE'));
    await pass(30 * MINUTE);
    for (let cursor = 2; cursor <= 9; cursor++) server.publish(item(cursor));
    server.lieAlways();
    await pass(3 * MINUTE);
    expect(await watermark()).toBe('9');
    expect((await store.replay.types()).map(({ missed }) => missed)).toEqual([0]);
    server.publish(item(10));
    await pass(2 * MINUTE);
    expect((await store.replay.types()).map(({ missed }) => missed)).toEqual([1]);
  });
});

test('F45: an event that becomes visible late, with a lower cursor, is found, and the watermark stays', async () => {
  const { pass, server, stored, watermark } = await begin();
  server.publish(item(9));
  await pass(2 * INTERVAL_MS);
  expect(await watermark()).toBe('9');
  server.publish(item(5));
  await pass(2 * INTERVAL_MS);
  expect(stored()).toEqual(['1', '5', '9']);
  expect(await watermark()).toBe('9');
});

test('reconcile_behind does not flap while the service refuses calls in between', async () => {
  const { pass, server, store, clock } = await begin({ callsPerMinute: 20 });
  const HISTORY = Array.from({ length: 400 }, (_, i) => item(i + 2, 'MessageReceived', { timestamp_unix_ms: 1_000 }));
  server.publish(...HISTORY);
  let calls = 0;
  server.lieAlways((_, truth) => {
    if (++calls % 4 === 0) return failure(429, 'RATE_LIMITED', 'RATE_LIMITED');
    const { events } = truth.body as { events: object[] };
    return { body: { events: events.slice(0, 1), next_cursor: '', has_more: true, reset_required: false } };
  });
  const said = new Set<boolean | undefined>();
  for (let seconds = 0; seconds < 480; seconds++) {
    await pass(1_000);
    if (seconds > 380) said.add((await store.read.status(clock.time)).reconcile.progress?.behind);
  }
  expect([...said]).toEqual([true]);
});
