// A watermark that is too high. One odd cursor, from a webhook or from replay, can raise it so far that replay finds
// nothing more. Only a lower first delivery, three deliveries below it, or a person lowers it.
import { afterEach, describe, expect, test } from 'vitest';
import { createAlarms, type Alarms } from '../../src/alarms/alarms.ts';
import type { Cursor } from '../../src/wire/cursor.ts';
import { readDelivery } from '../../src/wire/event.ts';
import { fields, item } from './replay-server.ts';
import { createRig, INTERVAL_MS, OVERLAP_MS, START, type Rig, type RigOptions } from './harness.ts';
import { COMPOSE } from '../alarms/alert-endpoint.ts';

let rig: Rig;
afterEach(() => rig.close());

const FAR = String(2n ** 62n);
const LAST = String(2n ** 63n - 1n);

/** Delivers an event that happens now. */
async function live(cursor: number | string, more: object = {}): Promise<void> {
  await rig.webhook(cursor, { data: fields(cursor, { timestamp_unix_ms: rig.clock.time, ...more }) });
}

let alarms: Alarms;

async function raised(): Promise<Map<string, string>> {
  await alarms.step();
  return new Map(
    (await rig.store.alarms.raised()).filter(({ cleared }) => !cleared).map(({ name, detail }) => [name, detail]),
  );
}

function watch(): Alarms {
  const { store, clock, log } = rig;
  return createAlarms({ store, clock, log, alertUrl: undefined, compose: COMPOSE, freeBytes: () => 1e12 });
}

/** Events 1 to 5 are stored. Then replay shows an event with the highest cursor, and two overlap periods pass. */
async function farAhead(options: RigOptions = {}): Promise<Rig> {
  rig = await createRig(options);
  rig.server.publish(...[1, 2, 3, 4, 5].map((cursor) => item(cursor)));
  await rig.webhook(1);
  await rig.settle();
  rig.server.publish(item(LAST));
  await rig.pass(OVERLAP_MS + 3 * INTERVAL_MS);
  expect(await rig.watermark()).toBe(LAST);
  await rig.pass(OVERLAP_MS + 2 * INTERVAL_MS);
  alarms = watch();
  await alarms.step();
  return rig;
}

describe('E80: where replay begins in a fresh install', () => {
  test.each([
    ['before replay was asked', false],
    ['after it was asked', true],
  ])(
    'E80: if the first delivery has a far too high cursor, replay works once a lower cursor arrives %s',
    async (_, asked) => {
      rig = await createRig();
      const { server, pass, webhook, stored, watermark } = rig;
      server.publish(...[10, 11, 12, 13].map((cursor) => item(cursor)));
      // The service answers that nothing follows after the cursor FAR, so replay must begin at a lower cursor.
      server.lieAlways(({ after }, truth) =>
        after === FAR ? { body: { events: [], next_cursor: FAR, has_more: false } } : truth,
      );
      await webhook(FAR);
      if (asked) await pass(2 * INTERVAL_MS);
      await webhook(10);
      await pass(2 * INTERVAL_MS);
      expect(stored()).toEqual(['10', '11', '12', '13', FAR]);
      server.publish(item(14));
      await pass(2 * INTERVAL_MS);
      expect(await watermark()).toBe('14');
    },
  );

  test('E80: replay begins at the lowest cursor of the first overlap period, also after a clock step', async () => {
    rig = await createRig();
    const { server, pass, webhook, stored, restart, clock } = rig;
    server.publish(...Array.from({ length: 30 }, (_, i) => item(i + 1)));
    await webhook(20);
    await pass(INTERVAL_MS);
    clock.step(-3_600_000);
    restart();
    await webhook(15);
    await pass(2 * INTERVAL_MS);
    expect(stored()[0]).toBe('15');
    expect(stored()).toHaveLength(16);
    await pass(OVERLAP_MS);
    await webhook(3);
    await pass(3 * INTERVAL_MS);
    expect(stored(), 'later than that it is a straggler').not.toContain('4');
  });

  test('E80: if an API key is added later, one odd cursor does not decide where replay begins', async () => {
    rig = await createRig();
    const { server, pass, webhook, clock, asked } = rig;
    server.publish(...Array.from({ length: 30 }, (_, i) => item(i + 1)));
    for (let cursor = 1; cursor <= 20; cursor++) await webhook(cursor);
    await webhook(FAR);
    clock.time += OVERLAP_MS + 1_000;
    await webhook(25);
    await pass(INTERVAL_MS);
    expect(Number(asked()[0])).toBeLessThanOrEqual(20);
    expect(Number(asked()[0])).toBeGreaterThan(5);
  });
});

describe('E81: deliveries show that the watermark is too high', () => {
  test('E81: three deliveries below the watermark lower it, and the alarm names both cursors', async () => {
    const { server, pass, stored, watermark } = await farAhead();
    for (let cursor = 6; cursor <= 20; cursor++) server.publish(item(cursor));
    for (const cursor of [9, 12]) await live(cursor);
    await pass(2 * INTERVAL_MS);
    expect(await watermark(), 'two are not enough').toBe(LAST);
    await live(15);
    await pass(2 * INTERVAL_MS);
    expect(stored()).toEqual([...Array.from({ length: 20 }, (_, i) => String(i + 1)), LAST]);
    expect(await watermark(), 'the same item does not raise it again').toBe('20');
    const words = (await raised()).get('watermark_ahead');
    expect(words).toContain(LAST);
    expect(words).toContain('went down to 5');
    await pass(20 * INTERVAL_MS);
    expect(await watermark()).toBe('20');
    expect([...(await raised()).keys()]).not.toContain('watermark_ahead');
    server.publish(item(21));
    await pass(2 * INTERVAL_MS);
    expect(await watermark()).toBe('21');
  });

  test('E81: deliveries after a restart lower the watermark, and another restart does not raise it again', async () => {
    const { server, pass, stored, watermark, restart } = await farAhead();
    for (let cursor = 6; cursor <= 20; cursor++) server.publish(item(cursor));
    restart();
    for (const cursor of [9, 12, 15]) await live(cursor);
    await pass(2 * INTERVAL_MS);
    restart();
    await pass(2 * INTERVAL_MS);
    expect(stored()).toHaveLength(21);
    expect(await watermark()).toBe('20');
  });

  test('E81: once a delivery has the cursor that was too high, the watermark may rise to it again', async () => {
    const { server, pass, watermark } = await farAhead();
    for (const cursor of [6, 7, 8]) {
      server.publish(item(cursor));
      await live(cursor);
    }
    await pass(2 * INTERVAL_MS);
    expect(await watermark()).toBe('8');
    await live(LAST);
    await pass(2 * INTERVAL_MS);
    expect(await watermark()).toBe(LAST);
  });

  test.each<[string, () => Promise<void>]>([
    ['one of them lies above it', async () => live(FAR.replace('4', '5'))],
    ['they are repetitions, signed long after they happened', async () => {}],
    ['replay has shown them', async () => {}],
    ['they happened before the event at the watermark', async () => {}],
    ['EVENT_TYPES leaves their type out', async () => {}],
  ])('E81: deliveries do not lower the watermark if %s', async (why, also) => {
    rig = await createRig(why.startsWith('EVENT_TYPES') ? { types: ['MessageReceived'] } : {});
    const { server, pass, webhook, watermark, clock } = rig;
    server.publish(item(1), item(900, 'MessageReceived', { timestamp_unix_ms: START + 1_000 }));
    await webhook(1);
    await rig.settle();
    await pass(2 * OVERLAP_MS);
    alarms = watch();
    await alarms.step();
    expect(await watermark()).toBe('900');
    for (const cursor of [9, 12, 15, 18]) {
      if (why.includes('replay has shown')) server.publish(item(cursor));
      const timestamp_unix_ms = why.includes('repetitions')
        ? clock.time - 600_000
        : why.includes('happened before')
          ? START - 1_000
          : clock.time;
      if (why.startsWith('EVENT_TYPES'))
        await webhook(cursor, { type: 'MessageSent', data: fields(cursor, { timestamp_unix_ms }) });
      else await live(cursor, { timestamp_unix_ms });
      if (why.includes('replay has shown')) {
        const reading = { origin: 'replay', id: null, cursor: String(cursor) as Cursor } as const;
        await rig.store.ingest.accept({
          readings: [
            {
              event: {
                ...reading,
                type: 'MessageReceived',
                sessionId: null,
                createdAt: null,
                flags: [],
                body: Buffer.from(item(cursor).json_payload),
              },
            },
          ],
          now: clock.now(),
        });
      }
    }
    if (why.startsWith('one of them')) await live(2_000);
    else await also();
    await pass(3 * INTERVAL_MS);
    expect(Number(await watermark())).toBeGreaterThanOrEqual(900);
    expect([...(await raised()).keys()]).not.toContain('watermark_ahead');
  });

  test('E81: the watermark is never lowered below the floor', async () => {
    const { exec, pass, watermark, server } = await farAhead();
    for (let cursor = 6; cursor <= 20; cursor++) server.publish(item(cursor));
    exec(`insert into state values ('pruned_to', 10) on conflict (name) do update set value = 10`);
    exec('delete from events where cursor between 1 and 5');
    rig.saw('10');
    for (const cursor of [9, 12, 15]) await live(cursor);
    // Event 9 is below the floor (10), so its delivery does not count. With event 16, three deliveries count.
    await live(16);
    await pass(2 * INTERVAL_MS);
    expect(await watermark()).toBe('20');
    expect((await raised()).get('watermark_ahead')).toMatch(/went down to 1[02],/);
  });

  test('E81: strict tasks above the lowered watermark wait for replay again', async () => {
    const { store, server } = await farAhead();
    const handler = (await store.work.register(['strict'])).get('strict') ?? 0;
    const turn = (more: object = {}) =>
      store.work.turn({
        now: rig.clock.now(),
        boot: 1,
        settle: [],
        fanOut: null,
        room: 10,
        handlers: [handler],
        ...more,
      });
    const first = await store.work.pending(100);
    await turn({ fanOut: { from: first.from, upTo: first.events.at(-1)?.seq ?? 0, tasks: [] } });
    for (const cursor of [9, 12, 15]) await live(cursor);
    const { from, events } = await store.work.pending(100);
    const tasks = events.map(({ seq, cursor }) => ({
      event: seq,
      handler,
      lane: 'a',
      cursor,
      strict: true,
      releaseAt: 0,
    }));
    await turn({ room: 0, fanOut: { from, upTo: events.at(-1)?.seq ?? 0, tasks } });
    expect(await store.replay.lowerWatermark({ to: '5' as Cursor, why: 'asked', now: rig.clock.now() })).toMatchObject({
      done: true,
    });
    expect(await turn()).toMatchObject({ claims: [], unproven: 3 });
    for (let cursor = 6; cursor <= 15; cursor++) server.publish(item(cursor));
    await store.ingest.accept({ readings: [], now: rig.clock.now(), watermark: '12' as Cursor, after: '5' as Cursor });
    expect((await turn()).claims.map(({ event, unproven }) => [event.cursor, unproven])).toEqual([['9', false]]);
  });
});

describe('E51: pages do not lower the watermark, nor raise it past unread events', () => {
  test('E51: no page or gap with a lower cursor lowers the watermark', async () => {
    const { store, watermark } = await farAhead();
    const now = rig.clock.now();
    for (const batch of [
      { watermark: '7' as Cursor },
      { watermark: '7' as Cursor, after: '5' as Cursor },
      {
        watermark: '7' as Cursor,
        from: '5' as Cursor,
        gap: { after: '5' as Cursor, upTo: '7' as Cursor, reason: 'reset_required' },
      },
    ]) {
      await store.ingest.accept({ readings: [], now, ...batch });
      expect(await watermark()).toBe(LAST);
    }
  });

  test('E51: a page from before the watermark was lowered does not raise it past unread events', async () => {
    const { store, watermark, exec } = await farAhead();
    exec(`update state set value = 1000 where name = 'watermark'`);
    await store.replay.lowerWatermark({ to: '5' as Cursor, why: 'asked', now: rig.clock.now() });
    await store.ingest.accept({
      readings: [],
      now: rig.clock.now(),
      watermark: '1010' as Cursor,
      after: '1000' as Cursor,
    });
    expect(await watermark()).toBe('5');
    await store.ingest.accept({
      readings: [],
      now: rig.clock.now(),
      watermark: '1010' as Cursor,
      after: '5' as Cursor,
    });
    expect(await watermark()).toBe('1010');
  });
});

describe('reconcile --from', () => {
  test('replay reads again from the given cursor; one that is not lower, or below the floor, is refused', async () => {
    const { store, server, pass, stored, ask, exec, watermark } = await farAhead();
    for (let cursor = 6; cursor <= 20; cursor++) server.publish(item(cursor));
    const lower = (to: string) => store.replay.lowerWatermark({ to: to as Cursor, why: 'asked', now: rig.clock.now() });
    await live(9);
    expect(await lower('5')).toEqual({ done: true, watermark: LAST });
    await ask();
    await pass(2 * INTERVAL_MS);
    expect(stored()).toHaveLength(21);
    expect(await watermark(), 'one delivery below it makes its height doubtful').toBe('20');
    expect(await lower('20')).toMatchObject({ done: false, why: 'not_lower' });
    exec(`insert into state values ('pruned_to', 10) on conflict (name) do update set value = 10`);
    expect(await lower('9')).toMatchObject({ done: false, why: 'floor', floor: '10' });
    expect(await lower('10')).toMatchObject({ done: true });
  });

  test('if no delivery shows that the old watermark was too high, replay raises the watermark to it again', async () => {
    rig = await createRig({ from: '1' });
    rig.server.publish(...Array.from({ length: 30 }, (_, i) => item(i + 1)));
    await rig.settle();
    await rig.store.replay.lowerWatermark({ to: '4' as Cursor, why: 'asked', now: rig.clock.now() });
    await rig.ask();
    await rig.pass(INTERVAL_MS);
    expect(await rig.watermark()).toBe('30');
  });
});

describe('reconcile --forget', () => {
  test('everything after the watermark is one gap, and the next API key starts without a watermark', async () => {
    rig = await createRig();
    const { server, webhook, settle, pass, store, clock, restart, asked, watermark, query } = rig;
    server.publish(...Array.from({ length: 40 }, (_, i) => item(i + 1)));
    await webhook(5);
    await settle();
    expect(await store.replay.giveUpWatermark(clock.now())).toBe('40');
    expect(await store.replay.giveUpWatermark(clock.now()), 'there is none any more').toBeNull();
    expect(await watermark()).toBeNull();
    expect(await store.read.status(clock.now())).toMatchObject({ watermark: null, floor: null, gaps: 1 });
    expect(await store.read.gaps()).toMatchObject([{ after: '40', upTo: null, reason: 'forgotten', closedAt: null }]);
    expect(query(`select id from events where type = 'kit.gap'`)).toHaveLength(1);
    server.publish(...[60, 61, 62].map((cursor) => item(cursor)));
    await webhook(60);
    await pass(OVERLAP_MS);
    clock.time += OVERLAP_MS;
    await webhook(61);
    const before = asked().length;
    restart();
    await pass(INTERVAL_MS);
    expect(Number(asked()[before])).toBeGreaterThanOrEqual(20);
    expect(await watermark()).toBe('62');
  });

  test('the gap and the removal of the watermark are one transaction', async () => {
    const { store, refuse, watermark } = await farAhead();
    refuse('events', `new.type = 'kit.gap'`);
    await expect(store.replay.giveUpWatermark(rig.clock.now())).rejects.toThrow('cannot be written');
    expect(await watermark()).toBe(LAST);
    expect(await store.read.gaps()).toEqual([]);
  });
});

test('E81: deliveries of events without a time of their own lower the watermark, too', async () => {
  const { server, pass, watermark, store, clock } = await farAhead();
  for (const cursor of [6, 7, 8]) {
    server.publish(item(cursor));
    const body = { id: `n${cursor}`, type: 'Thing', cursor: String(cursor), data: { Thing: {} } };
    await store.ingest.accept({ readings: [readDelivery(Buffer.from(JSON.stringify(body)))], now: clock.now() });
    rig.saw(String(cursor));
  }
  await pass(2 * INTERVAL_MS);
  expect(await watermark()).toBe('8');
});
