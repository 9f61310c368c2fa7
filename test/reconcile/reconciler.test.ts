// Reconciliation against an honest service: where it begins, what it reads, how many calls it makes, and one row per
// event.
import { afterEach, describe, expect, test } from 'vitest';
import { item, page, type Answer, type Item } from './replay-server.ts';
import { createRig, INTERVAL_MS, OVERLAP_MS, type Rig, type RigOptions } from './harness.ts';
import { onPostgres } from '../stores.ts';

let rig: Rig;
afterEach(() => rig.close());

async function begin(options?: RigOptions): Promise<Rig> {
  rig = await createRig(options);
  return rig;
}

const upTo = (last: number, first = 1) => Array.from({ length: last - first + 1 }, (_, i) => item(first + i));
const cursors = (last: number, first = 1) => upTo(last, first).map(({ cursor }) => cursor);

/** The same page with fewer items and the promise of more. */
function shorten(truth: Answer, most: number): Answer {
  const { events } = truth.body as { events: Item[] };
  return events.length > most ? page(events.slice(0, most), { has_more: true }) : truth;
}

describe('where replay begins', () => {
  test('a fresh install waits for the first webhook, says so, and makes no call', async () => {
    const { server, pass, state, watermark } = await begin();
    server.publish(...upTo(5));
    await pass(10 * INTERVAL_MS);
    expect(await state()).toMatchObject({ state: 'idle', reason: 'waiting for the first webhook' });
    expect(server.requests).toHaveLength(0);
    expect(await watermark()).toBeNull();
  });

  test('a fresh install begins at the cursor of its first webhook', async () => {
    const { server, webhook, settle, asked, stored, watermark } = await begin();
    server.publish(...upTo(8));
    await webhook(5);
    await settle();
    expect(asked()[0]).toBe('5');
    expect(stored()).toEqual(['5', '6', '7', '8']);
    expect(await watermark()).toBe('8');
  });

  test('if no event follows the first webhook, an empty page raises the watermark to it', async () => {
    const { server, webhook, settle, watermark } = await begin();
    server.publish(item(5));
    await webhook(5);
    expect(await watermark()).toBeNull();
    await settle();
    expect(await watermark()).toBe('5');
  });

  test('a webhook with a far too high cursor does not raise the watermark (I40)', async () => {
    const { server, webhook, settle, pass, watermark, stored } = await begin();
    server.publish(...upTo(6));
    await webhook(5);
    await settle();
    await webhook('4611686018427387904');
    server.publish(item(7));
    await pass(INTERVAL_MS + 5_000);
    expect(await watermark()).toBe('7');
    expect(stored()).toEqual(['5', '6', '7', '4611686018427387904']);
  });

  test('with an API key that is added later, replay begins at a cursor older than the overlap period', async () => {
    const { server, clock, webhook, settle, asked, stored } = await begin();
    server.publish(...upTo(12));
    await webhook(2);
    await webhook(4);
    clock.time += OVERLAP_MS + 1;
    await webhook(9);
    await settle();
    expect(asked()[0]).toBe('4');
    expect(stored()).toEqual(['2', '4', '5', '6', '7', '8', '9', '10', '11', '12']);
  });

  test('REPLAY_FROM=start asks without a cursor', async () => {
    const { server, settle, asked, stored, watermark } = await begin({ from: 'start' });
    server.publish(...upTo(3));
    await settle();
    expect(asked()[0]).toBeUndefined();
    expect(stored()).toEqual(['1', '2', '3']);
    expect(await watermark()).toBe('3');
  });

  test('REPLAY_FROM=start reports a refusal, and retries with pauses', async () => {
    const { server, pass, state } = await begin({ from: 'start' });
    const error = { code: 'VALIDATION_FAILED', message: '', requestId: 'r', reason: 'EVENT_CURSOR_INVALID' };
    server.lieAlways({ status: 400, body: { error } });
    await pass(10 * 60_000);
    expect(await state()).toMatchObject({
      state: 'backing-off',
      reason: expect.stringContaining('EVENT_CURSOR_INVALID'),
    });
    expect(server.requests.length).toBeLessThan(40);
  });

  test('REPLAY_FROM=<cursor> begins there, and not at a webhook', async () => {
    const { server, webhook, settle, asked, stored } = await begin({ from: '3' });
    server.publish(...upTo(7));
    await webhook(6);
    await settle();
    expect(asked()[0]).toBe('3');
    expect(stored()).toEqual(['4', '5', '6', '7']);
  });

  test('a restart continues at the watermark', async () => {
    const { server, webhook, settle, restart, asked } = await begin();
    server.publish(...upTo(8));
    await webhook(5);
    await settle();
    restart();
    const before = asked().length;
    await settle();
    expect(asked()[before]).toBe('8');
  });

  test('with REPLAY_FROM, the end of history is set once, at the first end of replay', async () => {
    const { server, settle, pass, query } = await begin({ from: 'start' });
    const history = () =>
      query<{ value: unknown }>(`select value from state where name = 'history'`).map(({ value }) => Number(value));
    server.publish(...upTo(3));
    await settle();
    expect(history()).toEqual([3]);
    server.publish(item(4));
    await pass(2 * INTERVAL_MS);
    expect(history()).toEqual([3]);
  });
});

describe('pages and events', () => {
  test('all pages are read, a thousand events at a time, and `run` is notified', async () => {
    const { server, settle, stored, watermark, woken, asked } = await begin({ from: '1' });
    server.publish(...upTo(2_501));
    await settle();
    expect(stored()).toHaveLength(2_500);
    expect(await watermark()).toBe('2501');
    expect(asked().slice(0, 3)).toEqual(['1', '1001', '2001']);
    expect(server.requests.every(({ limit }) => limit === 1_000)).toBe(true);
    expect(woken()).toBe(3);
  });

  test('status shows how many events were recovered, and when', async () => {
    const { server, webhook, settle, store, clock } = await begin();
    server.publish(...upTo(9));
    await webhook(5);
    await webhook(7);
    await settle();
    const { reconcile, duplicates } = await store.read.status(clock.now());
    expect(reconcile).toMatchObject({ state: 'idle', recovered: 3, reason: null });
    expect(Date.parse(reconcile.lastAt ?? '')).toBeGreaterThan(0);
    expect(duplicates, 'items of replay are no deliveries').toBe(0);
  });

  test('F43: events that EVENT_TYPES leaves out are counted, not stored, and passed by the watermark', async () => {
    const { server, settle, stored, watermark, store } = await begin({ from: '1', types: ['MessageReceived'] });
    server.publish(item(1), item(2), item(3, 'CampaignFinished'), item(4), item(5, 'CampaignFinished'));
    await settle();
    expect(stored()).toEqual(['2', '4']);
    expect(await watermark()).toBe('5');
    expect((await store.read.counters())['other_types']).toBe(2);
  });

  test('F43: if EVENT_TYPES leaves out all new events, replay still costs one call an interval', async () => {
    const { server, webhook, settle, pass } = await begin({ types: ['MessageReceived'] });
    server.publish(item(1), ...Array.from({ length: 30 }, (_, i) => item(2 + i, 'CampaignFinished')));
    await webhook(1);
    await settle();
    await pass(OVERLAP_MS + 2 * INTERVAL_MS);
    const before = server.requests.length;
    await pass(10 * INTERVAL_MS);
    expect(server.requests.length - before).toBeLessThanOrEqual(10);
  });

  test('F44: an event from replay, then from a webhook, is one row, which gets its id', async () => {
    const { server, webhook, settle, query } = await begin({ from: '1' });
    server.publish(item(1), item(2));
    await settle();
    expect(query('select id, origin from events')).toEqual([{ id: null, origin: 'replay' }]);
    await webhook(2);
    expect(query('select id, origin from events')).toEqual([{ id: 'e2', origin: 'replay' }]);
    expect(query('select * from conflicts')).toEqual([]);
  });

  test('F44: an event from a webhook, then from replay, is one row, which keeps its id', async () => {
    const { server, webhook, settle, query } = await begin({ from: '1' });
    server.publish(item(1), item(2));
    await webhook(2);
    await settle();
    expect(query('select id, origin from events')).toEqual([{ id: 'e2', origin: 'webhook' }]);
    expect(query('select * from conflicts')).toEqual([]);
  });

  test('F45: a lower cursor that becomes visible late is found by the overlap pass', async () => {
    const { server, webhook, settle, pass, stored, watermark } = await begin();
    server.publish(item(1), item(2), item(4), item(5));
    await webhook(1);
    await settle();
    expect(await watermark()).toBe('5');
    server.publish(item(3));
    await pass(INTERVAL_MS + 5_000);
    expect(stored()).toEqual(cursors(5));
    expect(await watermark()).toBe('5');
  });

  test('an event that happens between the forward pass and the overlap pass does not count as late', async () => {
    const { server, webhook, settle, pass, state } = await begin();
    server.publish(item(1), item(2), item(5));
    await webhook(1);
    await settle();
    server.publish(item(3));
    server.lie((_, truth) => {
      server.publish(item(6));
      return truth;
    });
    await pass(INTERVAL_MS + 5_000);
    expect(await state()).toMatchObject({ state: 'idle', reason: expect.stringMatching(/visible late: 1$/) });
  });

  test('F45: an event that becomes visible late is found, even below an event of a left-out type', async () => {
    const { server, webhook, settle, pass, clock, stored, watermark } = await begin({ types: ['MessageReceived'] });
    server.publish(item(1), item(2));
    await webhook(1);
    await settle();
    clock.time += 2 * OVERLAP_MS;
    await settle();
    server.publish(item(4, 'CampaignFinished'));
    await pass(INTERVAL_MS + 5_000);
    expect(await watermark()).toBe('4');
    server.publish(item(3));
    await pass(2 * INTERVAL_MS);
    expect(stored()).toEqual(['1', '2', '3']);
  });

  test('F45: the overlap pass reads more than one page', async () => {
    const { server, settle, pass, stored } = await begin({ from: '1' });
    server.publish(...upTo(2_200).filter(({ cursor }) => cursor !== '2100'));
    await settle();
    server.publish(item(2_100));
    await pass(INTERVAL_MS + 5_000);
    expect(stored()).toContain('2100');
  });

  test('F45: events that are older than the overlap period are not read again', async () => {
    const { server, webhook, settle, pass, clock, asked } = await begin();
    server.publish(...upTo(4));
    await webhook(1);
    await settle();
    clock.time += 2 * OVERLAP_MS;
    server.publish(item(5));
    const before = asked().length;
    await pass(5_000);
    expect(asked().slice(before), 'the forward pass, then the overlap pass').toEqual(['4', '4']);
  });
});

describe('calls', () => {
  test('an idle account costs one call an interval', async () => {
    const { server, webhook, settle, pass } = await begin();
    server.publish(...upTo(5));
    await webhook(1);
    await settle();
    await pass(OVERLAP_MS + 2 * INTERVAL_MS);
    const before = server.requests.length;
    await pass(60 * INTERVAL_MS);
    expect(server.requests.length - before).toBeGreaterThanOrEqual(59);
    expect(server.requests.length - before).toBeLessThanOrEqual(60);
  });

  test('no 60 seconds have more calls than RECONCILE_CALLS_PER_MINUTE, however much there is to read', async () => {
    const { server, pass } = await begin({ from: '0', callsPerMinute: 5 });
    server.publish(item(0));
    let cursor = 0;
    server.lieAlways(() => {
      cursor += 1;
      return { body: { events: [item(cursor)], next_cursor: String(cursor), has_more: true, reset_required: false } };
    });
    await pass(5 * 60_000);
    const times = server.requests.map(({ at }) => at);
    const most = Math.max(...times.map((from) => times.filter((at) => at >= from && at < from + 60_000).length));
    expect(most).toBeLessThanOrEqual(5);
    expect(times.length).toBeGreaterThanOrEqual(20);
  });

  test('status says that replay waits for the call budget, and replay continues when a call is allowed', async () => {
    const { server, step, pass, state, stored } = await begin({ from: '1', callsPerMinute: 1 });
    server.publish(...upTo(1_500));
    await step();
    await step();
    expect(await state()).toMatchObject({ state: 'running', reason: 'waiting for the call budget' });
    await pass(61_000);
    expect(stored()).toHaveLength(1_499);
  });

  test('a long overlap pass does not delay new events, because the forward pass comes first', async () => {
    const { server, pass, stored, watermark } = await begin({ from: '1', callsPerMinute: 5 });
    server.publish(...upTo(200));
    server.lieAlways((_, truth) => shorten(truth, 10));
    while ((await watermark()) !== '200') await pass(1_000);
    server.publish(item(201));
    await pass(INTERVAL_MS + 15_000);
    expect(stored()).toContain('201');
  });

  test('if a person asks, replay reads before the interval is over', async () => {
    const { server, webhook, settle, pass, ask, stored } = await begin();
    server.publish(...upTo(2));
    await webhook(1);
    await settle();
    server.publish(item(3));
    await pass(2_000);
    expect(stored()).not.toContain('3');
    await ask();
    await pass(2_000);
    expect(stored()).toContain('3');
  });

  test('a person’s request while the call budget is used up is not lost', async () => {
    const { server, webhook, settle, pass, ask, stored } = await begin({ callsPerMinute: 2, intervalMs: 3_600_000 });
    server.publish(...upTo(2));
    await webhook(1);
    await settle();
    server.publish(item(3));
    await pass(1_000);
    await ask();
    await pass(120_000);
    expect(stored()).toContain('3');
  });
});

describe('page and watermark are one transaction', () => {
  test('if an item of a page cannot be written, nothing of the page is stored; the watermark stays (K8)', async () => {
    const { server, settle, refuse, stored, watermark } = await begin({ from: '1' });
    server.publish(...upTo(9));
    const allow = refuse('events', 'new.cursor > 6');
    await expect(settle()).rejects.toMatchObject({ code: 'unwritable' });
    expect(stored()).toEqual([]);
    expect(await watermark()).toBeNull();
    allow();
    await settle();
    expect(stored()).toEqual(cursors(9, 2));
    expect(await watermark()).toBe('9');
  });

  test('if the watermark cannot be written, nothing of its page is stored (K8)', async () => {
    const { server, settle, refuse, stored, watermark } = await begin({ from: '1' });
    server.publish(...upTo(9));
    const allow = refuse('state', `new.name = 'watermark'`);
    await expect(settle()).rejects.toMatchObject({ code: 'unwritable' });
    expect(stored()).toEqual([]);
    allow();
    await settle();
    expect(stored()).toEqual(cursors(9, 2));
    expect(await watermark()).toBe('9');
  });

  // PostgreSQL has no lock of the whole store.
  test.skipIf(onPostgres)(
    'F6: while the store is locked a step fails as busy, and the page is fetched again',
    async () => {
      const { server, settle, step, exec, stored, watermark } = await begin({ from: '1' });
      server.publish(...upTo(9));
      exec('begin immediate');
      await expect(step()).rejects.toMatchObject({ name: 'StoreError', code: 'busy' });
      exec('rollback');
      expect(stored()).toEqual([]);
      await settle();
      expect(stored()).toEqual(cursors(9, 2));
      expect(await watermark()).toBe('9');
    },
  );
});

test('F16: after a clock is set back an hour, replay does not wait for that hour', async () => {
  rig = await createRig();
  rig.server.publish(item(1));
  await rig.webhook(1);
  await rig.pass(INTERVAL_MS);
  rig.clock.step(-3_600_000);
  rig.server.publish(item(2));
  await rig.pass(2 * INTERVAL_MS);
  expect(await rig.watermark()).toBe('2');
});
