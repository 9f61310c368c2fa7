// Reconciliation when the service does not know the cursor that replay asks for.
import { describe, expect, test } from 'vitest';
import { failure, item, page, type Lie } from './replay-server.ts';
import { caughtUp, INTERVAL_MS, openRig, OVERLAP_MS, quiet, upTo, type Rig } from './harness.ts';

describe('a cursor that the service does not know', () => {
  const unknown = failure(400, 'VALIDATION_FAILED', 'EVENT_CURSOR_INVALID');
  /** Refuses these cursors as unknown. */
  const without =
    (...cursors: string[]): Lie =>
    ({ after }, truth) =>
      after !== undefined && cursors.includes(after) ? unknown : truth;

  test('F34: replay tries an older cursor, stores the new events, and continues after them', async () => {
    const { server, pass, stored, watermark, asked, state } = await quiet();
    server.publish(...upTo(9, 6));
    server.lieAlways(without('5'));
    await pass(2 * INTERVAL_MS);
    expect(stored()).toEqual(['1', '2', '3', '4', '5', '6', '7', '8', '9']);
    expect(await watermark(), 'replay has shown everything up to here').toBe('9');
    // Until the overlap period has passed, an overlap pass may still begin at the refused cursor.
    await pass(OVERLAP_MS + 2 * INTERVAL_MS);
    const before = asked().length;
    await pass(5 * INTERVAL_MS);
    expect(new Set(asked().slice(before))).toEqual(new Set(['9']));
    expect(await state()).toMatchObject({ state: 'idle', reason: null });
  });

  test('F34: while the watermark is refused and nothing is newer, calls are few; the next event is found', async () => {
    const { server, pass, stored, asked } = await quiet();
    server.lieAlways(without('5'));
    const before = asked().length;
    await pass(10 * INTERVAL_MS);
    expect(asked().length - before).toBeLessThanOrEqual(30);
    server.publish(item(6));
    await pass(2 * INTERVAL_MS);
    expect(stored()).toContain('6');
  });

  test('F34: an overlap pass whose first cursor is refused does not delay the forward pass', async () => {
    const { server, pass, stored, watermark, state } = await caughtUp();
    server.lieAlways(without('1'));
    server.publish(...upTo(7, 6));
    await pass(2 * INTERVAL_MS);
    expect(stored()).toContain('7');
    server.publish(item(8));
    await pass(INTERVAL_MS + 5_000);
    expect(await watermark()).toBe('8');
    await pass(OVERLAP_MS + INTERVAL_MS);
    expect(await state()).toMatchObject({ state: 'idle', reason: null });
  });

  test('F34: if every cursor is refused, replay tries an older one once and backs off', async () => {
    const { server, pass, state, asked } = await quiet();
    server.lieAlways(unknown);
    const before = asked().length;
    await pass(60 * INTERVAL_MS);
    expect(asked().length - before).toBeLessThanOrEqual(90);
    expect(asked().slice(before, before + 2)).toEqual(['5', '3']);
    expect(await state()).toMatchObject({
      state: 'backing-off',
      reason: expect.stringContaining('EVENT_CURSOR_INVALID'),
    });
  });

  test('F34: if the older cursor is refused, too, replay tries the watermark again', async () => {
    const rig = await quiet();
    const { server, pass, stored, watermark } = rig;
    server.publish(item(6));
    server.lie(unknown);
    server.lieAlways(without('1'));
    await pass(30 * INTERVAL_MS);
    expect(stored()).toContain('6');
    expect(await watermark()).toBe('6');
  });
});

describe('an expired watermark that the service reports as unknown', () => {
  const unknown = failure(400, 'VALIDATION_FAILED', 'EVENT_CURSOR_INVALID');
  /** Refuses cursors below this one as unknown. Without a cursor, it shows an event that is not of this account. */
  const expired =
    (below: bigint): Lie =>
    ({ after }, truth) => {
      if (after === undefined) return page([item(7_000)]);
      return BigInt(after) < below ? unknown : truth;
    };
  let rig: Rig;
  const foreign = () => rig.asked().filter((after) => after === undefined);

  test('a gap is stored, and replay continues at the lowest known cursor that is accepted', async () => {
    rig = await quiet();
    const { server, webhook, pass, store, stored, watermark } = rig;
    server.publish(...upTo(200, 6));
    for (const cursor of [60, 120, 170, 180]) await webhook(cursor);
    server.lieAlways(expired(150n));
    await pass(5 * INTERVAL_MS);
    expect(await store.read.gaps()).toMatchObject([{ after: '5', upTo: '170', reason: 'cursor_unknown' }]);
    expect(await watermark()).toBe('200');
    expect(stored().slice(-31)).toEqual(upTo(200, 170).map(({ cursor }) => cursor));
    expect(foreign()).toEqual([]);
  });

  test('a gap is also stored if no older cursor is known, but not after a single refusal', async () => {
    rig = await openRig();
    rig.server.publish(...upTo(200));
    await rig.webhook(10);
    rig.server.lie(unknown);
    await rig.pass(3 * INTERVAL_MS);
    expect(await rig.watermark()).toBe('200');
    expect(await rig.store.read.gaps()).toEqual([]);

    rig = await openRig();
    rig.server.publish(...upTo(200));
    await rig.webhook(10);
    rig.server.lieAlways(failure(503, 'UNAVAILABLE'));
    await rig.pass(INTERVAL_MS);
    await rig.webhook(170);
    rig.server.lieAlways(expired(150n));
    await rig.pass(5 * INTERVAL_MS);
    expect(await rig.store.read.gaps()).toMatchObject([{ after: '10', upTo: '170' }]);
    expect(await rig.watermark()).toBe('200');
  });

  test('if every cursor is refused, there is no gap, few calls, and no event of another account', async () => {
    rig = await quiet();
    const { server, webhook, pass, store, state, watermark } = rig;
    for (const cursor of [60, 120, 170]) await webhook(cursor);
    server.lieAlways(expired(10_000n));
    const before = server.requests.length;
    await pass(30 * INTERVAL_MS);
    expect(server.requests.length - before).toBeLessThanOrEqual(30 * 6);
    expect(await store.read.gaps()).toEqual([]);
    expect(await watermark()).toBe('5');
    expect(foreign()).toEqual([]);
    const words = async () => (await state()).reason ?? '';
    for (let seconds = 0; seconds < 300 && !(await words()).includes('of this account?'); seconds++) await pass(1_000);
    expect(await words()).toContain('of this account?');
  });
});
