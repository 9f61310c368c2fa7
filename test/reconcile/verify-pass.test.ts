// The pass of `npx kit verify`: what it counts, how it continues after a restart, and how it ends.
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { VerifyAccount } from '../../src/store/keep.ts';
import { readItem } from '../../src/wire/event.ts';
import { failure, item, page, type Item } from './replay-server.ts';
import { createRig, INTERVAL_MS, OVERLAP_MS, type Rig } from './harness.ts';

let rig: Rig;
beforeEach(async () => {
  rig = await createRig({ callsPerMinute: 20 });
  // The watermark is 10, and the overlap pass has nothing to read.
  rig.server.publish(item(10));
  await rig.webhook(10);
  await rig.settle();
  await rig.pass(OVERLAP_MS + 2.5 * INTERVAL_MS);
});
afterEach(() => rig.close());

/** Asks for a verify as `npx kit verify` does. */
async function ask(from: string): Promise<number> {
  const asked = rig.clock.time;
  const account = { state: 'running', reason: null, asked, from, at: from, pages: 0, events: 0, types: [] };
  await rig.store.state.note({}, { verify: JSON.stringify(account) });
  rig.saw(from);
  return asked;
}

async function toTheEnd(): Promise<VerifyAccount> {
  for (let seconds = 0; seconds < 1_000; seconds++) {
    const account = await rig.store.state.get('verify');
    if (account && account.state !== 'running') return account;
    await rig.pass(1_000);
  }
  throw new Error('it never ends');
}

/** An event that a webhook brings and that the service can replay. */
async function both(cursor: number, type = 'MessageReceived'): Promise<void> {
  rig.server.publish(item(cursor, type));
  await rig.webhook(cursor, { type });
}

const small = (most: number): void =>
  rig.server.lieAlways((_, truth) => {
    const { events = [] } = truth.body as { events?: Item[] };
    return events.length > most ? page(events.slice(0, most), { has_more: true }) : truth;
  });

describe('the result', () => {
  test('present, missing and only-here events are counted by type, and missing events are stored', async () => {
    await both(11);
    await both(12, 'MessageSent');
    await rig.webhook(13);
    await rig.webhook(14, { type: 'MessageSent' });
    // Beyond the newest cursor of the service, as a forged one can be.
    await rig.webhook(30);
    await both(20);
    await rig.pass(OVERLAP_MS + 2.5 * INTERVAL_MS);
    // Event 15 becomes visible so late that no overlap pass looks for it.
    rig.server.publish(item(15));
    await rig.pass(2 * INTERVAL_MS);
    expect(rig.stored()).not.toContain('15');
    rig.clock.time += 1;
    await ask('10');
    const account = await toTheEnd();
    expect(account).toMatchObject({ state: 'done', events: 4, at: '20' });
    expect(account.types.toSorted((a, b) => (a.type < b.type ? -1 : 1))).toEqual([
      { type: 'MessageReceived', present: 2, missing: 1, older: 0, onlyHere: 2, handled: 0, dead: 0 },
      { type: 'MessageSent', present: 1, missing: 0, older: 0, onlyHere: 1, handled: 0, dead: 0 },
    ]);
    expect(rig.stored()).toContain('15');
  });

  test.each(['__proto__', 'constructor', 'toString'])('an event type may be named %s', async (type) => {
    rig.server.publish({ cursor: '11', json_payload: `{${JSON.stringify(type)}:{"a":1}}` });
    await rig.pass(2 * INTERVAL_MS);
    rig.clock.time += 1;
    await ask('10');
    const account = await toTheEnd();
    expect(account.types.map((sum) => [sum.type, sum.present])).toEqual([[type, 1]]);
    expect((await rig.store.read.arrivals()).map((sum) => sum.type)).toContain(type);
  });

  test('an event that a page shows twice is counted once', async () => {
    await both(11);
    await rig.pass(2 * INTERVAL_MS);
    rig.clock.time += 1;
    await ask('10');
    rig.server.lie(page([item(11), item(11)]));
    expect((await toTheEnd()).types).toMatchObject([{ present: 1, missing: 0, onlyHere: 0 }]);
  });

  test('a long range is read over many pages, and its sums are right', async () => {
    for (let cursor = 11; cursor <= 40; cursor++) await both(cursor);
    await rig.pass(2 * INTERVAL_MS);
    rig.clock.time += 1;
    small(3);
    await ask('10');
    const account = await toTheEnd();
    expect(account).toMatchObject({ state: 'done', events: 30, at: '40' });
    expect(account.types).toMatchObject([{ present: 30, missing: 0, onlyHere: 0 }]);
  });
});

describe('how it runs', () => {
  test('after restarts of `keep` it continues, and counts no event twice', async () => {
    for (let cursor = 11; cursor <= 30; cursor++) await both(cursor);
    await rig.pass(2 * INTERVAL_MS);
    rig.clock.time += 1;
    small(3);
    await ask('10');
    for (let restarts = 0; restarts < 5; restarts++) {
      for (let steps = 0; steps < 3; steps++) await rig.step();
      rig.restart({ callsPerMinute: 20 });
    }
    expect(await rig.store.state.get('verify')).toMatchObject({ state: 'running' });
    expect((await toTheEnd()).types).toMatchObject([{ present: 20, missing: 0, onlyHere: 0 }]);
  });

  test('after its end, the state of reconciliation is idle', async () => {
    await ask('10');
    await toTheEnd();
    expect(await rig.state()).toMatchObject({ state: 'idle' });
  });

  test('a second verify replaces the first, even while a page of the first is on its way', async () => {
    await both(11);
    await rig.pass(2 * INTERVAL_MS);
    rig.clock.time += 1;
    await ask('10');
    let second = 0;
    rig.server.lie((_, truth) => {
      // The second verify begins between the request and its answer.
      rig.clock.time += 1;
      second = rig.clock.time;
      const account = {
        state: 'running',
        reason: null,
        asked: second,
        from: '11',
        at: '11',
        pages: 0,
        events: 0,
        types: [],
      };
      rig.exec(`update state set value = '${JSON.stringify(account)}' where name = 'verify'`);
      return truth;
    });
    expect(await toTheEnd()).toMatchObject({ state: 'done', asked: second, from: '11', events: 0 });
  });

  test('it leaves calls for the forward pass', async () => {
    for (let cursor = 11; cursor <= 400; cursor++) await both(cursor);
    await rig.pass(OVERLAP_MS + 2.5 * INTERVAL_MS);
    small(2);
    rig.clock.time += 1;
    await ask('10');
    await rig.pass(5 * INTERVAL_MS);
    for (let cursor = 500; cursor < 505; cursor++) {
      await both(cursor);
      rig.prove();
      const since = rig.clock.time;
      while ((await rig.watermark()) !== String(cursor)) await rig.pass(500);
      expect(rig.clock.time - since).toBeLessThanOrEqual(15_000);
      await rig.pass(20_000);
    }
    expect(await rig.store.state.get('verify')).toMatchObject({ state: 'running' });
  });
});

describe('how it fails', () => {
  test.each([
    [
      'a cursor that the service does not know',
      failure(400, 'VALIDATION_FAILED', 'EVENT_CURSOR_INVALID'),
      /does not know the cursor/,
    ],
    ['a cursor that has expired', page([], { reset_required: true }), /no longer has what comes after/],
  ])('%s: it says what to do, and the forward pass goes on', async (_, answer, words) => {
    rig.saw('3');
    await ask('3');
    rig.server.lie(answer);
    const account = await toTheEnd();
    expect(account).toMatchObject({ state: 'failed', reason: expect.stringMatching(words) });
    expect(await rig.store.read.gaps()).toEqual([]);
    rig.server.publish(item(12));
    await rig.pass(2 * INTERVAL_MS);
    expect(await rig.watermark()).toBe('12');
    expect(await rig.state()).toMatchObject({ state: 'idle' });
  });

  test('it fails if the service promises more and shows nothing twice', async () => {
    await ask('10');
    rig.server.lie(page([], { has_more: true }), page([], { has_more: true }));
    expect(await toTheEnd()).toMatchObject({ state: 'failed', reason: expect.stringMatching(/does not advance/) });
  });
});

test('events that the stream has brought count as present', async () => {
  const one = item(11);
  rig.server.publish(one);
  rig.saw('11');
  await rig.store.ingest.accept({
    readings: [readItem('stream', '11' as never, one.json_payload)],
    now: rig.clock.time,
    watermark: '11' as never,
  });
  rig.clock.time += 1;
  await ask('10');
  expect((await toTheEnd()).types).toMatchObject([{ present: 1, missing: 0, onlyHere: 0 }]);
});

test('E1: events that pruning removed count as older, are not fetched, and run no handler again', async () => {
  for (const cursor of [11, 12, 13]) await both(cursor);
  await rig.pass(OVERLAP_MS + 2.5 * INTERVAL_MS);
  const { from, events } = await rig.store.work.pending(100);
  const fanOut = { from, upTo: events.at(-1)?.seq ?? from, tasks: [] };
  const turn = { now: rig.clock.time, boot: 1, settle: [], room: 0, handlers: [] };
  await rig.store.work.turn({ ...turn, fanOut });
  const before = rig.clock.time + 1;
  await rig.store.keep.prune({ now: 0, before, settled: 0, after: null, limit: 100 });
  const left = rig.stored();
  expect(left).toEqual(['13']);
  await ask('10');
  expect((await toTheEnd()).types).toMatchObject([{ present: 1, missing: 0, older: 2, onlyHere: 0 }]);
  expect(rig.stored()).toEqual(left);
});
