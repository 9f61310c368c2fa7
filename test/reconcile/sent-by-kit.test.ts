// Deliveries that `trigger` and `doctor` send, with an API key set. Replay does not begin at them, they do not count as
// missing in replay, and they take no cursor from a real event that only replay has shown.
import { afterEach, expect, test } from 'vitest';
import { readDelivery } from '../../src/wire/event.ts';
import { item } from './replay-server.ts';
import { createRig, INTERVAL_MS, type Rig } from './harness.ts';

const CURSORS = ['0', '1005', '9000000000000', String(2n ** 62n), String(2n ** 63n - 1n)];

let rig: Rig;
afterEach(() => rig.close());

async function trigger(cursor: string): Promise<void> {
  const body = { id: `trigger_${cursor}`, type: 'MessageReceived', cursor, sent_by: 'kit' };
  const reading = readDelivery(Buffer.from(JSON.stringify({ ...body, data: { MessageReceived: {} } })));
  expect(await rig.store.ingest.accept({ readings: [reading], now: rig.clock.time })).toEqual([{ verdict: 'new' }]);
}

test.each(CURSORS)('E80: in a fresh store, replay does not begin at a trigger with cursor %s', async (cursor) => {
  rig = await createRig();
  rig.server.publish(item(1), item(2));
  await trigger(cursor);
  await rig.pass(10 * INTERVAL_MS);
  expect(rig.server.requests).toEqual([]);
  expect(await rig.watermark()).toBeNull();
  expect(await rig.state()).toMatchObject({ state: 'idle', reason: 'waiting for the first webhook' });
  await rig.webhook(2);
  rig.server.publish(item(3));
  await rig.settle();
  expect([rig.asked()[0], rig.stored(), await rig.watermark()]).toEqual(['2', ['2', '3'], '3']);
});

test.each(CURSORS)(
  'E80: a trigger with cursor %s takes no cursor from an event that only replay has shown',
  async (cursor) => {
    rig = await createRig();
    rig.server.publish(item(1004));
    await rig.webhook(1004);
    await rig.settle();
    await trigger(cursor);
    rig.server.publish(item(1005), item(1006));
    await rig.pass(2 * INTERVAL_MS);
    expect(rig.stored()).toEqual(['1004', '1005', '1006']);
    expect(await rig.watermark()).toBe('1006');
    expect(rig.query('select origin from events where cursor = 1005')).toEqual([{ origin: 'replay' }]);
    expect(await rig.store.replay.unseen(0, rig.clock.time, 100)).toMatchObject({ types: [] });
  },
);
