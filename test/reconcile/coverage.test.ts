// Events that webhooks bring and replay does not show. They are found after two complete passes and counted once. They
// do not count if replay had no chance to show them.
import { afterEach, expect, test } from 'vitest';
import { failure, item } from './replay-server.ts';
import { createRig, INTERVAL_MS, OVERLAP_MS, type Rig, type RigOptions } from './harness.ts';

let rig: Rig;
afterEach(() => rig.close());

/** Event 10 was delivered, replay has shown it, and nothing is left to read. */
async function begin(options?: RigOptions): Promise<Rig> {
  rig = await createRig(options);
  rig.server.publish(item(10));
  await rig.webhook(10);
  await rig.settle();
  await rig.pass(OVERLAP_MS + 2.5 * INTERVAL_MS);
  return rig;
}

const unseen = async () => (await rig.store.read.counters())['unseen'] ?? 0;
const searched = () =>
  Number(rig.query<{ value: number }>(`select value from state where name = 'searched'`)[0]?.value);

test('an event that two complete passes did not show is counted once, by its type', async () => {
  const { webhook, pass, store } = await begin();
  await webhook(11, { type: 'MessageSent' });
  const arrived = await store.keep.newestEvent();
  expect(await unseen()).toBe(0);
  await pass(5 * INTERVAL_MS);
  expect(await unseen()).toBe(1);
  expect(await store.state.get('blind')).toEqual(['MessageSent']);
  expect(searched()).toBe(arrived);
  await pass(10 * INTERVAL_MS);
  expect(await unseen()).toBe(1);
});

test('an event above the watermark counts as searched for within seconds, after two complete passes', async () => {
  const { webhook, pass, prove, store } = await begin();
  await pass(1_000);
  await webhook(11);
  prove();
  const arrived = await store.keep.newestEvent();
  await pass(500);
  expect(searched()).toBeLessThan(arrived);
  await pass(10_000);
  expect(searched()).toBe(arrived);
});

test('events that replay shows are not counted', async () => {
  const { webhook, pass, server, prove } = await begin();
  for (let cursor = 11; cursor < 40; cursor++) {
    server.publish(item(cursor));
    await webhook(cursor);
    prove();
    await pass(7_000);
  }
  await pass(5 * INTERVAL_MS);
  expect(await unseen()).toBe(0);
});

test('an event below the watermark that the overlap pass shows is not counted', async () => {
  const { webhook, pass, server, prove } = await begin();
  server.publish(item(20));
  await webhook(20);
  prove();
  await pass(2_000);
  expect(await rig.watermark()).toBe('20');
  // Event 15 becomes visible late and is delivered, while other events arrive all the time.
  server.publish(item(15));
  await webhook(15);
  for (let cursor = 21; cursor < 45; cursor++) {
    server.publish(item(cursor));
    await webhook(cursor);
    prove();
    await pass(5_000);
  }
  await pass(5 * INTERVAL_MS);
  expect(await unseen()).toBe(0);
});

test('an event below the watermark is not counted while overlap passes do not come to their end', async () => {
  const { webhook, pass, server, prove } = await begin();
  server.publish(item(20));
  await webhook(20);
  prove();
  await pass(2_000);
  // A page after a cursor below the watermark promises more and shows nothing.
  const stuck = JSON.stringify({ events: [], next_cursor: '', has_more: true, reset_required: false });
  let refused = 0;
  server.lieAlways(({ after }, truth) => {
    if (after === undefined || Number(after) >= 20) return truth;
    refused++;
    return { body: Buffer.from(stuck) };
  });
  await webhook(15);
  await pass(4 * INTERVAL_MS);
  expect(refused).toBeGreaterThan(1);
  expect(await unseen()).toBe(0);
  server.lieAlways();
  server.publish(item(15));
  await pass(8 * INTERVAL_MS);
  expect(await unseen()).toBe(0);
});

test('while replay fails, no event is counted', async () => {
  const { webhook, pass, server } = await begin();
  server.lieAlways(failure(503, 'UNAVAILABLE'));
  await webhook(11);
  await pass(10 * INTERVAL_MS);
  expect(await unseen()).toBe(0);
});

test('events of types that EVENT_TYPES leaves out are not counted', async () => {
  const { webhook, pass } = await begin({ types: ['MessageReceived'] });
  await webhook(11, { type: 'MessageSent' });
  await pass(5 * INTERVAL_MS);
  expect(await unseen()).toBe(0);
});

test('events from before the beginning of replay are not counted', async () => {
  const { webhook, pass } = await begin();
  await webhook(4);
  await pass(5 * INTERVAL_MS);
  expect(await unseen()).toBe(0);
});

test('an event with a cursor that the service does not have is counted', async () => {
  const { webhook, pass } = await begin();
  await webhook(String(2n ** 62n));
  await pass(20 * INTERVAL_MS);
  expect(await unseen()).toBe(1);
});
