// Reconciliation when a page has faulty items: out of order, repeated, or unreadable.
import { describe, expect, test } from 'vitest';
import { item, page } from './replay-server.ts';
import { INTERVAL_MS, itemsOf, openRig, OVERLAP_MS, quiet, upTo } from './harness.ts';

describe('faulty items', () => {
  test('F40: items that are out of order, repeated or below after_cursor are sorted, and each is one row', async () => {
    const { server, settle, stored, watermark, text } = await quiet();
    server.publish(...upTo(12, 6));
    server.lie(page([item(9), item(7), item(3), item(12), item(7), item(10), item(6), item(11), item(8)]));
    await settle();
    expect(stored()).toHaveLength(12);
    expect(await watermark()).toBe('12');
    expect(text()).toContain('out of order');
  });

  test('F40: cursors are compared as integers', async () => {
    const rig = await openRig({ from: '5' });
    rig.server.publish(item(5), item(9), item(10), item('9007199254740993'), item('9223372036854775807'));
    rig.server.lie((_, truth) => page(itemsOf(truth).toReversed()));
    await rig.settle();
    expect(rig.stored()).toEqual(['9', '10', '9007199254740993', '9223372036854775807']);
    expect(await rig.watermark()).toBe('9223372036854775807');
  });

  test('F40: a page with more than a thousand items loses none', async () => {
    const { server, settle, stored, watermark } = await quiet();
    server.publish(...upTo(1_505, 6));
    server.lie(page(upTo(1_505, 6)));
    await settle();
    expect(stored()).toHaveLength(1_505);
    expect(await watermark()).toBe('1505');
  });

  test.each([
    ['without a cursor', { json_payload: item(7).json_payload }],
    ['with a number for a cursor', { ...item(7), cursor: 7 }],
    ['with an odd cursor', item('0x7')],
    ['that is null', null],
    ['that is text', 'seven'],
  ])('F40: an item %s goes to quarantine, and its neighbours are stored', async (_, odd) => {
    const rig = await openRig({ from: '5' });
    rig.server.publish(item(5), item(6), item(8));
    rig.server.lie(page([item(6), odd, item(8)]));
    await rig.settle();
    expect(rig.stored()).toEqual(['6', '8']);
    expect(await rig.watermark()).toBe('8');
    const kept = await rig.store.read.quarantine(10);
    expect(kept).toMatchObject([{ origin: 'replay', cursor: null }]);
  });

  test('F40: faulty pages are logged once, and again only after a page without faults', async () => {
    const rig = await openRig({ from: '5' });
    const odd = page([item(6), item(8), item(7)]);
    const said = (): number => rig.text().split('was odd').length - 1;
    rig.server.publish(...upTo(8, 5));
    rig.server.lieAlways(odd);
    await rig.pass(5 * INTERVAL_MS);
    const once = said();
    expect(once).toBeGreaterThan(0);
    await rig.pass(5 * INTERVAL_MS);
    expect(said()).toBe(once);
    rig.server.lieAlways();
    await rig.pass(5 * INTERVAL_MS);
    expect(said()).toBe(once);
    rig.server.lieAlways(odd);
    await rig.pass(5 * INTERVAL_MS);
    expect(said()).toBeGreaterThan(once);
  });

  test('F40: a page whose items all lack a cursor causes no loop of calls', async () => {
    const { server, pass, watermark } = await quiet();
    server.lieAlways(page([{ json_payload: item(7).json_payload }], { has_more: true, next_cursor: '7' }));
    const before = server.requests.length;
    await pass(10 * INTERVAL_MS);
    expect(server.requests.length - before).toBeLessThanOrEqual(22);
    expect(await watermark()).toBe('5');
  });

  test.each([
    ['is not JSON', '{"MessageReceived":'],
    ['is empty', ''],
    ['holds no key', '{}'],
    ['holds two keys', JSON.stringify({ MessageReceived: {}, MessageSent: {} })],
    ['is an array', '[]'],
    ['is null', 'null'],
    ['holds a type without fields', '{"MessageReceived":5}'],
    ['is nested two hundred thousand deep', '['.repeat(200_000)],
    ['is no text', 17],
    ['is missing', undefined],
  ])(
    'F41: an item whose json_payload %s goes to quarantine with its cursor, and the watermark passes it',
    async (_, payload) => {
      const { server, settle, stored, watermark, store, query } = await quiet();
      server.publish(item(6), item(8));
      server.lie(page([item(6), { cursor: '7', json_payload: payload }, item(8)]));
      await settle();
      expect(stored()).toEqual(['1', '2', '3', '4', '5', '6', '8']);
      expect(await watermark()).toBe('8');
      const [kept] = await store.read.quarantine(10);
      expect(kept).toMatchObject({ origin: 'replay', cursor: '7', reason: expect.any(String) });
      if (typeof payload === 'string') {
        const raw = query<{ body: Buffer }>('select body from quarantine').map(({ body }) => body.toString());
        expect(raw, 'the raw bytes').toEqual([payload]);
      }
    },
  );

  test('F41: the same unreadable bytes at two cursors are two entries in quarantine', async () => {
    const { server, settle, store } = await quiet();
    server.publish({ cursor: '6', json_payload: 'broken' }, { cursor: '7', json_payload: 'broken' });
    await settle();
    expect(await store.read.quarantine(10)).toMatchObject([{ cursor: '7' }, { cursor: '6' }]);
  });

  test('F41: the watermark passes an unreadable last item, which is stored once', async () => {
    const rig = await quiet();
    const { server, settle, pass, store, watermark, asked } = rig;
    server.publish(item(6), { cursor: '7', json_payload: 'broken' });
    await settle();
    expect(await watermark()).toBe('7');
    await pass(INTERVAL_MS + 5_000);
    expect(asked().at(-1)).not.toBe('6');
    expect((await store.read.status(rig.clock.now())).quarantined).toBe(1);
  });

  test('F41: an unreadable last item costs no additional call per interval', async () => {
    const { server, settle, pass } = await quiet();
    server.publish({ cursor: '6', json_payload: 'broken' });
    await settle();
    await pass(OVERLAP_MS + 2 * INTERVAL_MS);
    const before = server.requests.length;
    await pass(10 * INTERVAL_MS);
    expect(server.requests.length - before).toBeLessThanOrEqual(10);
  });
});
