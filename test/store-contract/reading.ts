// Queries for people: samples, lanes, pages and filters, alarms, and the quarantine.
import { beforeEach, describe, expect, test } from 'vitest';
import type { Store } from '../../src/store/store.ts';
import type { Cursor } from '../../src/wire/cursor.ts';
import { readItem } from '../../src/wire/event.ts';
import { incoming, range, T0, tasksOf, unreadable, type Desk, type Suite, event } from './harness.ts';

export function looking(suite: Suite<Store>): void {
  let store: Store;
  let desk: Desk;
  beforeEach(() => void ({ store, desk } = suite));

  test('the conflicts of an event are listed in order of arrival, as their bodies are', async () => {
    const delivered = (n: number) => ({
      event: { ...incoming('1'), body: Buffer.from(JSON.stringify({ data: { Thing: { n } } })) },
    });
    const replayed = readItem('replay', '1' as Cursor, JSON.stringify({ Thing: { n: 1 } }));
    await store.ingest.accept({ readings: [event('1')], now: T0 });
    await store.ingest.accept({ readings: [delivered(0), replayed, delivered(2)], now: T0 });
    const found = await store.read.event('c:1', T0);
    expect(found?.conflicts.map(({ id }) => id)).toEqual(['id-1', null, 'id-1']);
    const bodies = (await store.read.contradictions('c:1')).map(({ body }) => Buffer.from(body).toString());
    expect(bodies.map((body) => /"n":(\d)/.exec(body)?.[1])).toEqual(['0', '1', '2']);
  });

  describe('figures and quarantine', () => {
    const sampled = async (step: number) =>
      (await store.read.samples(T0, T0 + 86_400_000, step)).map(({ at }) => at - T0);

    test('samples are the counters at their time; each step returns its last sample', async () => {
      await store.state.note({ accepted: 5, 'refused.path': 2, 'refused.method': 1, 'ack.5': 3, 'ack.Infinity': 1 });
      await store.read.sample(T0 + 10_300);
      await store.state.note({ accepted: 1 });
      await store.read.sample(T0 + 20_000);
      await store.read.sample(T0 + 60_000);
      expect(await sampled(10_000)).toEqual([10_000, 20_000, 60_000]);
      expect(await sampled(60_000)).toEqual([20_000, 60_000]);
      const [first, second] = await store.read.samples(T0, T0 + 20_000, 10_000);
      expect(first).toMatchObject({ accepted: 5, refused: 3, duplicates: 0, handled: 0 });
      expect(first?.acks).toEqual([0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
      expect(second?.accepted).toBe(6);
      // Takes the count back, because the suite compares counters with rows, and no row was written.
      await store.state.note({ accepted: -6 });
    });

    test('after a day one sample a minute is kept, after eight days none', async () => {
      for (const at of [0, 10_000, 60_000]) await store.read.sample(T0 + at);
      await store.keep.thinSamples(T0 + 86_400_000 + 120_000);
      expect(await sampled(10_000)).toEqual([0, 60_000]);
      await store.keep.thinSamples(T0 + 9 * 86_400_000);
      expect(await sampled(10_000)).toEqual([]);
    });

    test('the lanes with the most waiting tasks come first, each with the task that the others wait for', async () => {
      expect(await store.read.waitingLanes(5)).toEqual([]);
      await desk.arrive('long', [3, 1, 2]);
      await desk.arrive('short', [4, 5]);
      await desk.arrive('alone', [6]);
      expect(await store.read.waitingLanes(5)).toMatchObject([
        { handler: 'first', lane: 'long', waiting: 3, more: false, head: { key: 'c:1', attempts: 0, error: null } },
        { handler: 'first', lane: 'short', waiting: 2, head: { key: 'c:4' } },
      ]);
    });

    test('quarantined bytes are shown as received, can be read again, and leave the quarantine once they are an event', async () => {
      const text = JSON.stringify({ id: 'e1', type: 'X', cursor: '9', data: { X: {} } });
      await store.ingest.accept({ readings: [unreadable('{'), unreadable(text)], now: T0 });
      const [second, first] = await store.read.quarantine(10);
      const ids = [first?.id ?? 0, second?.id ?? 0] as const;
      expect(Buffer.from((await store.read.quarantined(ids[1]))?.body ?? []).toString()).toBe(text);
      expect(await store.admin.retryQuarantined(ids[0], T0)).toEqual({ verdict: 'quarantined' });
      expect(await store.admin.retryQuarantined(ids[1], T0)).toEqual({ verdict: 'new' });
      expect(await store.admin.retryQuarantined(ids[1], T0)).toBeUndefined();
      expect(await store.read.quarantined(ids[1])).toBeUndefined();
      expect(await store.read.status(T0)).toMatchObject({ events: 1, quarantined: 1 });
      expect((await store.read.event('e1', T0))?.event.key).toBe('c:9');
    });
  });

  describe('lists and single values', () => {
    test('changes of a document at the same time are all kept', async () => {
      const names = range(1, 20).map(String);
      await Promise.all(names.map((name) => store.state.change('sessions', (kept) => ({ ...kept, [name]: T0 }))));
      expect(Object.keys(await store.state.get('sessions'))).toEqual(names);
    });

    test('pages of events follow each other without a hole, newest first', async () => {
      await desk.accept('a', range(1, 7));
      const keys: string[] = [];
      for (let before: number | null | undefined; before !== null;) {
        const page = await store.read.events({ limit: 3, before: before ?? undefined }, T0);
        keys.push(...page.events.map(({ key }) => key));
        before = page.next;
      }
      expect(keys).toEqual(
        range(1, 7)
          .toReversed()
          .map((cursor) => `c:${cursor}`),
      );
    });

    test('events are found by type, session, the state of a task, key, id and cursor', async () => {
      await desk.arrive('a', [1, 2]);
      await desk.claim();
      await store.ingest.accept({
        readings: [{ event: { ...incoming('3'), type: 'Other', sessionId: 'b' } }],
        now: T0,
      });
      const found = async (filter: object): Promise<string[]> =>
        (await store.read.events({ limit: 10, ...filter }, T0)).events.map(({ key }) => key);
      expect(await found({ type: 'Other' })).toEqual(['c:3']);
      expect(await found({ session: 'a' })).toEqual(['c:2', 'c:1']);
      expect(await found({ state: 'running' })).toEqual(['c:1']);
      for (const q of ['3', 'c:3', 'id-3', 'i:id-3']) expect(await found({ q })).toEqual(['c:3']);
      expect(await found({ q: "' or 1=1 --" })).toEqual([]);
    });

    test('events that webhooks alone brought are found: replay and the stream have not shown them', async () => {
      await store.ingest.accept({ readings: [event('1'), event('2'), event(null)], now: T0 });
      const item = (cursor: string) => readItem('replay', cursor as Cursor, JSON.stringify({ Thing: {} }));
      await store.ingest.accept({ readings: [item('1'), item('3')], now: T0 });
      const { events } = await store.read.events({ limit: 10, unseen: true }, T0);
      expect(events.map(({ cursor }) => cursor)).toEqual([null, '2']);
    });

    test('pages of tasks of one state follow each other', async () => {
      await desk.arrive(null, range(1, 5));
      const first = await store.read.tasks({ state: 'ready', limit: 3 }, T0);
      const second = await store.read.tasks({ state: 'ready', limit: 3, before: first.next ?? undefined }, T0);
      expect([...first.tasks, ...second.tasks].map(({ key }) => key)).toEqual(['c:5', 'c:4', 'c:3', 'c:2', 'c:1']);
      expect(second.next).toBeNull();
    });

    test('E48: the first tasks of lanes that fail are found, with the tasks behind them, until a retry begins anew', async () => {
      await desk.arrive('stuck', [1, 2, 3]);
      await desk.arrive('well', [4, 5]);
      const again = async (): Promise<void> => {
        const claims = await desk.claim();
        await desk.settle(
          claims.map((claim) =>
            claim.event.sessionId === 'stuck'
              ? { claim, state: 'ready', error: 'Error: no', dueAt: desk.now, holdMs: 3_600_000 }
              : { claim, state: 'done', error: null },
          ),
        );
      };
      await again();
      desk.now += 60_000;
      await again();
      const [head, ...others] = await store.alarms.failingHeads(10);
      expect(head).toMatchObject({ handler: 'first', key: 'c:1', since: T0, behind: 2 });
      expect(others).toEqual([]);
      desk.now += 1_000;
      await store.admin.retry([head?.task ?? 0], desk.now);
      expect(await store.alarms.failingHeads(10)).toEqual([]);
      desk.now += 60_000;
      await again();
      expect(await store.alarms.failingHeads(10)).toMatchObject([{ key: 'c:1', since: desk.now }]);
    });

    test('E49: dead letters are listed by when they died, the newest first, over all pages', async () => {
      await desk.arrive(null, range(1, 5));
      const claims = await desk.claim();
      for (const cursor of ['4', '1', '5', '2', '3']) {
        desk.now += 1_000;
        const claim = claims.find((one) => one.event.cursor === cursor);
        if (claim) await desk.settle([{ claim, state: 'dead', error: 'Error: no' }]);
      }
      const [group] = (await store.read.groups({ limit: 1 })).groups;
      expect(group).toMatchObject({ dead: 5, key: 'c:3' });
      for (const filter of [{ group: group?.id }, { state: 'dead' as const }]) {
        const keys: string[] = [];
        for (let before: number | null | undefined; before !== null;) {
          const page = await store.read.tasks({ ...filter, limit: 2, before: before ?? undefined }, desk.now);
          keys.push(...page.tasks.map(({ key }) => key));
          before = page.next;
        }
        expect(keys).toEqual(['c:3', 'c:2', 'c:5', 'c:1', 'c:4']);
      }
    });

    test('a rare match is found after empty pages, because each page looks at a limited number of tasks', async () => {
      await desk.accept(null, [1]);
      const { from, events } = await store.work.pending(10);
      const rare = (await store.work.register(['first', 'rare'])).get('rare') ?? 0;
      await desk.turn({ fanOut: { from, upTo: from + 1, tasks: tasksOf(events, rare, T0) } });
      await desk.arrive(null, range(2, 12_000));
      const pages: string[][] = [];
      for (let before: number | undefined; ;) {
        const { tasks, next } = await store.read.tasks({ handler: 'rare', before }, T0);
        pages.push(tasks.map(({ key }) => key));
        if (next === null) break;
        before = next;
      }
      expect(pages).toEqual([[], ['c:1']]);
    });

    test('the age of the oldest waiting task is that of its event', async () => {
      await desk.arrive('a', [1, 2]);
      expect((await store.read.status(T0 + 9_000)).oldestReadySeconds).toBe(9);
      await desk.workOff();
      expect((await store.read.status(T0 + 9_000)).oldestReadySeconds).toBeNull();
      desk.now = T0 + 5_000;
      await desk.arrive('a', [3]);
      expect((await store.read.status(T0 + 9_000)).oldestReadySeconds).toBe(4);
    });

    test('the lowest cursor, the newest, the median before a time, and the neighbours of a cursor are found', async () => {
      expect(await store.replay.anchors(T0)).toEqual({ lowest: null, older: null, young: false });
      expect(await store.replay.newestCursor()).toBeNull();
      await desk.accept('a', [20, 10]);
      desk.now = T0 + 10;
      await desk.accept('a', [30]);
      expect(await store.replay.anchors(T0 + 10)).toEqual({ lowest: '10', older: '20', young: true });
      expect(await store.replay.newestCursor()).toBe('30');
      expect(await store.replay.cursorAbove(null)).toBe('10');
      expect(await store.replay.cursorAbove('10' as Cursor)).toBe('20');
      expect(await store.replay.cursorAbove('30' as Cursor)).toBeNull();
      expect(await store.replay.cursorBelow(null)).toBe('30');
      expect(await store.replay.cursorBelow('30' as Cursor)).toBe('20');
      expect(await store.replay.cursorBelow('10' as Cursor)).toBeNull();
    });

    test('the end of history is set once', async () => {
      await store.replay.endHistory('10' as Cursor);
      await store.replay.endHistory('20' as Cursor);
      expect((await store.work.pending(1)).birth.end).toBe('10');
    });

    test('an alarm keeps the time at which it was raised, until it is cleared', async () => {
      await store.alarms.raise('dead_letters', 'one', T0);
      await store.alarms.raise('dead_letters', 'two', T0 + 1_000);
      const since = new Date(T0).toISOString();
      expect((await store.read.status(T0)).alarms).toEqual([{ name: 'dead_letters', since, detail: 'two' }]);
      await store.alarms.clear('dead_letters');
      expect((await store.read.status(T0)).alarms).toEqual([]);
    });
  });

  test('the body of an event is returned as received, by cursor and by key', async () => {
    const reading = event('7');
    await store.ingest.accept({ readings: [reading], now: T0 });
    const bytes = 'event' in reading ? Buffer.from(reading.event.body) : undefined;
    for (const one of ['7', 'c:7']) expect(Buffer.from((await store.read.body(one)) ?? [])).toEqual(bytes);
    expect(await store.read.body('8')).toBeNull();
  });
}
