// Pruning removes finished events and idle lanes, but no event with open tasks. A removed event is still recognized
// when it comes again.
import { beforeEach, describe, expect, test } from 'vitest';
import type { Receipt } from '../../src/store/keep.ts';
import type { Store } from '../../src/store/store.ts';
import type { Cursor } from '../../src/wire/cursor.ts';
import { done, ended, event, T0, unreadable, type Desk, type Suite, cursorOf, laneOf } from './harness.ts';

export function pruning(suite: Suite<Store>): void {
  let store: Store;
  let desk: Desk;
  beforeEach(() => void ({ store, desk } = suite));

  describe('pruning', () => {
    /** Prunes in steps of two, as if the service repeated no delivery any more. Returns the number of steps. */
    async function prune(before = T0 + 1, watermark?: string): Promise<number> {
      if (watermark) await store.ingest.accept({ readings: [], now: T0, watermark: watermark as Cursor });
      let steps = 0;
      let after: Receipt | null = null;
      do {
        ({ next: after } = await store.keep.prune({ now: T0, before, settled: Infinity, after, limit: 2 }));
        steps++;
      } while (after !== null);
      return steps;
    }

    test('removes finished events in steps, moves the floor and keeps the newest row', async () => {
      await desk.arrive('a', [50, 10, 20, 40, 30]);
      await desk.workOff();
      expect(await prune(T0 + 1, '51')).toBe(3);
      expect(await store.read.status(T0)).toMatchObject({ events: 1, floor: '50', tasks: { done: 1 } });
      expect((await store.read.events({ limit: 10 }, T0)).events.map(({ key }) => key)).toEqual(['c:30']);
      await desk.arrive('a', [60]);
      expect((await store.read.events({ limit: 10 }, T0)).events.map(({ seq }) => seq)).toEqual([6, 5]);
    });

    test('never removes an event whose tasks are not made, or wait, run or are dead', async () => {
      await desk.arrive('a', [1]);
      await desk.settle((await desk.claim()).map((claim) => ended(claim, 'dead')));
      await desk.arrive('b', [2]);
      await desk.claim();
      await desk.arrive('c', [3]);
      await desk.accept('d', [4, 5]);
      await prune();
      expect(await store.read.status(T0)).toMatchObject({ events: 5, floor: null });
    });

    test('removes only events that were received before the given time', async () => {
      await desk.arrive('a', [1]);
      desk.now = T0 + 10;
      await desk.arrive('a', [2]);
      desk.now = T0 + 20;
      await desk.arrive('a', [3]);
      await desk.workOff();
      await prune(T0 + 10);
      expect((await store.read.events({ limit: 10 }, T0)).events.map(({ key }) => key)).toEqual(['c:3', 'c:2']);
    });

    test('a pruned event is a duplicate when it arrives again, and cursors are compared to their last digit', async () => {
      await desk.arrive('a', ['9007199254740993', '1']);
      await desk.workOff();
      await desk.arrive('a', [2]);
      await desk.workOff();
      await prune(T0 + 1, '9007199254740994');
      expect((await store.read.status(T0)).floor).toBe('9007199254740993');
      expect(await store.ingest.accept({ readings: [event('9007199254740993')], now: T0 })).toEqual([
        { verdict: 'duplicate', pruned: true },
      ]);
      expect(await store.ingest.accept({ readings: [event('9007199254740994')], now: T0 })).toEqual([
        { verdict: 'new' },
      ]);
    });

    test('purging removes bodies and keeps identity', async () => {
      await desk.arrive('a', [1, 2, 3]);
      await desk.workOff();
      let after: Receipt | null = null;
      do ({ next: after } = await store.keep.purge(T0 + 1, after, 1));
      while (after !== null);
      const { events } = await store.read.events({ limit: 10 }, T0);
      expect(events.map(({ key, bytes }) => [key, bytes === null])).toEqual([
        ['c:3', false],
        ['c:2', true],
        ['c:1', true],
      ]);
      expect(await store.ingest.accept({ readings: [event('1')], now: T0 })).toEqual([{ verdict: 'duplicate' }]);
      expect(await store.read.status(T0)).toMatchObject({ events: 3, conflicts: 0 });
    });

    test('sweeping removes old quarantine and idle lanes, but no lane in which a task waits', async () => {
      await store.ingest.accept({ readings: [unreadable('{'), unreadable('[')], now: T0 });
      await desk.arrive('a', [1]);
      await desk.workOff();
      await desk.arrive('b', [2, 3]);
      const running = await desk.claim();
      await store.keep.sweep(T0 + 1);
      expect(await store.read.quarantine(10)).toEqual([]);
      expect((await store.read.status(T0)).quarantined).toBe(0);
      await desk.settle(running.map(done));
      expect(await desk.claim()).toMatchObject([{ event: { cursor: '3' } }]);
      expect((await store.read.tasks({}, T0)).tasks.map(({ lane }) => lane)).toEqual(['b', 'b', null]);
    });
  });

  test('loses no missed event to pruning', async () => {
    const file = { of: new Map([['first', '/h/first.ts']]), broken: [] };
    await store.work.register(['first'], file);
    await store.work.register([], { of: new Map(), broken: ['/h/first.ts'] });
    await desk.accept('a', [1, 2, 3]);
    await desk.turn({ fanOut: { from: 0, upTo: 3, tasks: [] } });
    await store.keep.prune({ now: T0, before: T0 + 1, settled: 3, after: null, limit: 100 });
    await store.work.register(['first'], file);
    expect((await store.work.missed(0, 3, 10)).map(({ key }) => key)).toEqual(['c:1', 'c:2', 'c:3']);
  });

  test('a lane that was swept away and is created again is not confused with another', async () => {
    await desk.arrive('a', [1]);
    await desk.workOff();
    desk.now += 86_400_000;
    await store.keep.sweep(T0 + 1);
    await desk.arrive('b', [2]);
    await desk.arrive('a', [3]);
    expect((await desk.claim()).map(cursorOf).toSorted((a, b) => Number(a) - Number(b))).toEqual(['2', '3']);
    expect(await laneOf(store, 'c:3')).toBe('a');
  });
}
