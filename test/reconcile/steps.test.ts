// The wall clock is set while replay runs, or between two starts. No pause, budget or search depends on it.
import { afterEach, describe, expect, test } from 'vitest';
import { createBudget } from '../../src/service/budget.ts';
import { failure, item, page } from './replay-server.ts';
import { createClock, createRig, INTERVAL_MS, OVERLAP_MS, type Rig, type RigOptions } from './harness.ts';

const [HOUR, DAY, MINUTE] = [3_600_000, 86_400_000, 60_000];
const STEPS = [HOUR, DAY, 60 * DAY].flatMap((ms) => [ms, -ms]).map((ms) => [ms / HOUR, ms] as const);

let rig: Rig;
let open = false;
afterEach(async () => {
  if (open) await rig.close();
  open = false;
});

async function begin(options?: RigOptions): Promise<Rig> {
  rig = await createRig(options);
  open = true;
  rig.server.publish(item(1));
  await rig.webhook(1);
  await rig.settle();
  return rig;
}

const searched = () =>
  Number(rig.query<{ value: unknown }>(`select value from state where name = 'searched'`)[0]?.value ?? 0);

describe.each(STEPS)('E9: the clock is set by %d h', (_hours, ms) => {
  test.each(['up', 'restart'] as const)(
    'E9: (%s) replay continues within its interval, and skips no event',
    async (how) => {
      const { server, pass, clock, restart, stored, watermark } = await begin();
      await pass(OVERLAP_MS);
      clock.step(ms);
      if (how === 'restart') restart();
      server.publish(item(2), item(3));
      await pass(INTERVAL_MS + 5_000);
      expect(stored()).toEqual(['1', '2', '3']);
      clock.step(-2 * ms);
      if (how === 'restart') restart();
      server.publish(item(6));
      await pass(INTERVAL_MS + 5_000);
      // Event 5 becomes visible late, and the overlap pass finds it.
      server.publish(item(5));
      await pass(3 * INTERVAL_MS);
      expect(stored()).toEqual(['1', '2', '3', '5', '6']);
      expect(await watermark()).toBe('6');
    },
  );

  test('E9: an idle account still costs one call an interval', async () => {
    const { server, pass, clock } = await begin();
    await pass(OVERLAP_MS + 2 * INTERVAL_MS);
    const before = server.requests.length;
    for (let i = 0; i < 10; i++) {
      clock.step(i % 2 === 0 ? ms : -ms);
      await pass(INTERVAL_MS);
    }
    expect(server.requests.length - before).toBeGreaterThanOrEqual(9);
    expect(server.requests.length - before).toBeLessThanOrEqual(12);
  });

  test('E9: the pauses after a failure and after a page without progress keep their length', async () => {
    const { server, pass, clock, stored } = await begin();
    server.lieAlways(failure(503, 'UNAVAILABLE'));
    await pass(10 * MINUTE);
    clock.step(ms);
    const before = server.requests.length;
    await pass(5 * MINUTE);
    expect(server.requests.length - before).toBeGreaterThanOrEqual(4);
    expect(server.requests.length - before).toBeLessThanOrEqual(12);
    server.lieAlways(page([], { has_more: true, next_cursor: '1' }));
    await pass(2 * MINUTE);
    clock.step(-ms);
    server.lieAlways();
    server.publish(item(2));
    await pass(2 * MINUTE);
    expect(stored()).toEqual(['1', '2']);
  });

  test('E9: a person’s request after the clock was set is noticed', async () => {
    const { server, pass, clock, ask, stored } = await begin({ intervalMs: DAY });
    await pass(2_000);
    await ask();
    await pass(2_000);
    clock.step(ms);
    server.publish(item(2));
    await ask();
    await pass(3_000);
    expect(stored()).toContain('2');
  });

  test('E7: an event counts as searched for after two passes that began after its arrival', async () => {
    const { webhook, pass, prove, clock, store } = await begin();
    await pass(OVERLAP_MS);
    clock.step(ms);
    await webhook(11);
    prove();
    const arrived = await store.keep.newestEvent();
    expect(searched()).toBeLessThan(arrived);
    await pass(1_500);
    expect(searched(), 'the first of the two').toBeLessThan(arrived);
    await pass(15_000);
    expect(searched()).toBe(arrived);
    clock.step(-2 * ms);
    await webhook(12);
    prove();
    await pass(1_500);
    expect(searched()).toBe(arrived);
    await pass(5 * INTERVAL_MS);
    expect(searched()).toBe(arrived + 1);
    expect((await store.read.counters())['unseen']).toBe(2);
  });

  test('E9: a budget allows no extra calls and does not block, in one process and over a restart', () => {
    const clock = createClock();
    let calls: number[] = [];
    const start = () => createBudget(3, clock, { earlier: calls, onTake: (taken) => (calls = [...taken]) });
    let budget = start();
    const made: number[] = [];
    let longest = 0;
    for (let i = 0; made.length < 40; i++) {
      if (i % 3 === 0) clock.step(i % 2 === 0 ? ms : -ms);
      if (i % 5 === 0) budget = start();
      const wait = budget.take();
      longest = Math.max(longest, wait);
      if (wait === 0) made.push(clock.monotonic());
      else clock.time += wait;
    }
    const most = Math.max(...made.map((from) => made.filter((at) => at >= from && at < from + MINUTE).length));
    expect(most).toBeLessThanOrEqual(3);
    expect(longest).toBeLessThanOrEqual(MINUTE);
    expect(Math.max(...made.map((at, i) => at - (made[i - 1] ?? at)))).toBeLessThanOrEqual(2 * MINUTE);
  });

  test('E9: setting the clock does not make a catch-up count as behind', async () => {
    const { server, pass, clock, store } = await begin({ callsPerMinute: 20 });
    const at = clock.now() - 2 * DAY;
    server.publish(
      ...Array.from({ length: 400 }, (_, i) => item(i + 2, 'MessageReceived', { timestamp_unix_ms: at + i * 400_000 })),
    );
    server.lieAlways((_request, truth) => {
      const { events } = truth.body as { events: object[] };
      return events.length > 1 ? page(events.slice(0, 1), { has_more: true }) : truth;
    });
    await pass(4 * MINUTE);
    clock.step(ms);
    await pass(6 * MINUTE);
    const { progress } = (await store.read.status(clock.now())).reconcile;
    expect(progress).toMatchObject({ behind: false });
  });
});
