// Reconciliation when the cursor has expired: the gap, its event, and where replay continues.
import { describe, expect, test } from 'vitest';
import { failure, item, page } from './replay-server.ts';
import { caughtUp, INTERVAL_MS, openRig, quiet, upTo, type Rig } from './harness.ts';

describe('a cursor that has expired', () => {
  let rig: Rig;
  const gapEvents = () => rig.query<{ n: number }>(`select count(*) as n from events where type = 'kit.gap'`)[0]?.n;

  /** The service refuses requests without a cursor. */
  const noBeginning = (server: Rig['server']) =>
    server.lieAlways(({ after }, truth) => (after === undefined ? failure(400, 'VALIDATION_FAILED') : truth));

  test('F42: if the service shows its oldest event, the gap is exactly the expired events', async () => {
    const { server, webhook, settle, store, stored, watermark } = await quiet();
    server.publish(...upTo(30, 6));
    await webhook(25);
    server.forget('20');
    await settle();
    expect(await store.read.gaps()).toMatchObject([{ after: '5', upTo: '21' }]);
    expect(stored()).toEqual(['1', '2', '3', '4', '5', ...upTo(30, 21).map(({ cursor }) => cursor)]);
    expect(await watermark()).toBe('30');
  });

  test('F42: replay continues at the lowest known cursor that the service still accepts', async () => {
    const { server, webhook, settle, store, watermark } = await quiet();
    noBeginning(server);
    server.publish(...upTo(3_000, 6));
    for (const cursor of [9, 400, 800, 1_200, 1_600, 2_000, 2_400, 2_800]) await webhook(cursor);
    server.forget('1300');
    await settle();
    expect(await store.read.gaps()).toMatchObject([{ after: '5', upTo: '1600' }]);
    expect(await watermark()).toBe('3000');
    expect(server.requests.length).toBeLessThan(20);
  });

  test('F42: the gap is stored and raised as one kit.gap, and replay continues at a known cursor', async () => {
    rig = await quiet();
    const { server, webhook, settle, pass, store, stored, watermark, woken } = rig;
    noBeginning(server);
    server.publish(...upTo(30, 6));
    await webhook(25);
    server.forget('20');
    const before = woken();
    await settle();
    expect(await store.read.gaps()).toMatchObject([
      { after: '5', upTo: '25', reason: 'reset_required', closedAt: null },
    ]);
    expect(gapEvents()).toBe(1);
    expect(woken()).toBeGreaterThan(before);
    expect(stored()).toEqual(['1', '2', '3', '4', '5', '25', '26', '27', '28', '29', '30']);
    expect(await watermark()).toBe('30');
    await pass(10 * INTERVAL_MS);
    expect(await store.read.gaps()).toHaveLength(1);
    expect(gapEvents()).toBe(1);
  });

  test('F42: the kit.gap event tells a handler what is missing', async () => {
    const { server, webhook, settle, query } = await quiet();
    noBeginning(server);
    server.publish(...upTo(30, 6));
    await webhook(25);
    server.forget('20');
    await settle();
    const [raised] = query<{ body: Buffer; origin: string }>(`select body, origin from events where type = 'kit.gap'`);
    expect(raised?.origin).toBe('kit');
    expect(JSON.parse(String(raised?.body))).toEqual({
      'kit.gap': { gap: 1, after: '5', upTo: '25', reason: 'reset_required' },
    });
  });

  test('F42: without a newer known cursor, the gap is raised once and gets its end from the next webhook', async () => {
    rig = await quiet();
    const { server, webhook, pass, store, state, stored, watermark } = rig;
    noBeginning(server);
    server.publish(...upTo(30, 6));
    server.forget('20');
    const before = server.requests.length;
    await pass(5 * INTERVAL_MS);
    expect(server.requests.length - before, 'the watermark and the beginning, once an interval').toBeLessThanOrEqual(
      12,
    );
    expect(await store.read.gaps()).toMatchObject([{ after: '5', upTo: null }]);
    expect(gapEvents()).toBe(1);
    expect(await state()).toMatchObject({ state: 'backing-off', reason: expect.stringContaining('expired') });
    await webhook(28);
    await pass(2 * INTERVAL_MS);
    expect(await store.read.gaps()).toMatchObject([{ after: '5', upTo: '28' }]);
    expect(gapEvents()).toBe(1);
    expect(stored()).toEqual(['1', '2', '3', '4', '5', '28', '29', '30']);
    expect(await watermark()).toBe('30');
  });

  test('F42: the items of a page with reset_required are stored', async () => {
    const { server, settle, stored, watermark, store } = await quiet();
    server.publish(...upTo(9, 6));
    server.forget('7');
    server.lie(page([item(8), item(9)], { reset_required: true }));
    await settle();
    expect(stored()).toEqual(['1', '2', '3', '4', '5', '8', '9']);
    expect(await watermark()).toBe('9');
    expect(await store.read.gaps()).toHaveLength(1);
  });

  test('F42: if history expires a second time, there is a second gap', async () => {
    rig = await quiet();
    const { server, webhook, settle, pass, store } = rig;
    server.publish(...upTo(60, 6));
    await webhook(25);
    server.forget('20');
    await settle();
    await webhook(55);
    server.publish(...upTo(99, 61));
    server.lie((_, truth) => page([], { ...truth, reset_required: true }));
    await webhook(90);
    await pass(INTERVAL_MS + 5_000);
    expect((await store.read.gaps()).map(({ after, upTo: end }) => [after, end])).toEqual([
      ['5', '21'],
      ['60', '61'],
    ]);
    expect(gapEvents()).toBe(2);
  });

  test('F42: a gap and its event are one transaction with the watermark', async () => {
    const { server, webhook, settle, refuse, store, watermark } = await quiet();
    server.publish(...upTo(30, 6));
    await webhook(25);
    server.forget('20');
    const allow = refuse('events', `new.type = 'kit.gap'`);
    await expect(settle()).rejects.toMatchObject({ code: 'unwritable' });
    expect(await store.read.gaps()).toEqual([]);
    expect(await watermark()).toBe('5');
    allow();
    await settle();
    expect(await store.read.gaps()).toHaveLength(1);
    expect(await watermark()).toBe('30');
  });

  test('F45: an event that becomes visible late after a gap is found by an overlap pass from the end of the gap', async () => {
    const { server, webhook, settle, pass, stored, asked } = await quiet();
    server.publish(...upTo(30, 6));
    await webhook(8);
    server.forget('20');
    await settle();
    server.publish(...upTo(40, 32));
    await pass(INTERVAL_MS + 5_000);
    server.publish(item(31));
    const before = asked().length;
    await pass(INTERVAL_MS + 5_000);
    expect(stored()).toContain('31');
    expect(asked().slice(before)).toEqual(['40', '21']);
  });

  test('F42: an overlap pass over expired events leaves no gap', async () => {
    const { server, pass, store, state, watermark } = await caughtUp();
    server.publish(...upTo(9, 6));
    server.forget('3');
    await pass(INTERVAL_MS + 5_000);
    expect(await store.read.gaps()).toEqual([]);
    expect(await state()).toMatchObject({ state: 'idle', reason: null });
    expect(await watermark()).toBe('9');
  });

  test('F42: a fresh install whose first cursor has already expired makes few calls', async () => {
    rig = await openRig();
    rig.server.publish(...upTo(9));
    await rig.webhook(2);
    rig.server.forget('5');
    noBeginning(rig.server);
    await rig.pass(10 * INTERVAL_MS);
    expect(rig.server.requests.length).toBeLessThanOrEqual(22);
    await rig.webhook(9);
    await rig.pass(2 * INTERVAL_MS);
    expect(await rig.watermark()).toBe('9');
    expect(gapEvents()).toBe(1);
  });
});
