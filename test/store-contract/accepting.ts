// Accepting: an event is one row however often it comes, and each reading gets its result. A batch is written whole or
// not at all, together with its counters and state.
import { beforeEach, describe, expect, test } from 'vitest';
import type { StoredEvent } from '../../src/store/work.ts';
import type { Cursor } from '../../src/wire/cursor.ts';
import { event, T0, unreadable, type Suite, sums, type WorkingStore } from './harness.ts';

export function accepting(suite: Suite): void {
  const { another } = suite;
  let store: WorkingStore;
  beforeEach(() => void ({ store } = suite));

  describe('accepting', () => {
    test('each reading gets its verdict, in the order of the readings', async () => {
      const readings = [event('1'), event('1'), unreadable('{'), unreadable('{'), event('2')];
      const verdicts = (await store.ingest.accept({ readings, now: T0 })).map(({ verdict }) => verdict);
      expect(verdicts).toEqual(['new', 'duplicate', 'quarantined', 'quarantined', 'new']);
      expect(await sums(store)).toMatchObject({ events: 2, quarantined: 1 });
      expect(await store.replay.newestCursor()).toBe('2');
      expect((await store.work.pending(10)).events).toHaveLength(2);
    });

    test('an event is one row, however often it arrives, through any process', async () => {
      const other = another();
      for (const one of [store, other, store]) await one.ingest.accept({ readings: [event('7')], now: T0 });
      expect(await sums(other)).toMatchObject({ events: 1, duplicates: 2 });
    });

    test('the watermark moves with the events of its page', async () => {
      expect(await store.state.get('watermark')).toBeNull();
      await store.ingest.accept({ readings: [event('5')], now: T0, watermark: '5' as Cursor });
      expect(await store.state.get('watermark')).toBe('5');
    });

    test('a batch that fails leaves nothing: no event, no watermark, no gap, no count', async () => {
      const gap = { after: '1' as Cursor, upTo: null, reason: 'test' };
      const readings = [event('5'), unreadable('{'), event('not a cursor')];
      const batch = { readings, now: T0, watermark: '9' as Cursor, gap, counts: { 'refused.stale': 1 } } as const;
      await expect(store.ingest.accept(batch)).rejects.toThrow();
      expect(await store.state.get('watermark')).toBeNull();
      expect(await store.read.gaps()).toEqual([]);
      expect(await store.read.counters()).toEqual({});
      expect(await sums(store)).toMatchObject({ events: 0, quarantined: 0 });
    });

    test('cursors are exact up to 2^63 - 1: two cursors that a float would merge are two events', async () => {
      const cursors = ['9007199254740992', '9007199254740993', '9223372036854775807'];
      const accepted = await store.ingest.accept({
        readings: cursors.map((c) => event(c)),
        now: T0,
        watermark: '9007199254740993' as Cursor,
      });
      expect(accepted.map(({ verdict }) => verdict)).toEqual(['new', 'new', 'new']);
      expect(await store.state.get('watermark')).toBe('9007199254740993');
      expect(await store.replay.newestCursor()).toBe('9223372036854775807');
      expect((await store.work.pending(10)).events.map(({ cursor }) => cursor)).toEqual(cursors);
    });

    test('a gap is one row and one kit.gap event, which handlers get like any other event', async () => {
      await store.ingest.accept({
        readings: [],
        now: T0,
        gap: { after: '10' as Cursor, upTo: '20' as Cursor, reason: 'expired' },
      });
      expect(await store.read.gaps()).toMatchObject([{ after: '10', upTo: '20', reason: 'expired', closedAt: null }]);
      const { events } = await store.work.pending(10);
      expect(events).toMatchObject([{ type: 'kit.gap', origin: 'kit', cursor: null, key: 'i:kit.gap·1' }]);
      expect(bodyOf(events[0])).toEqual({ 'kit.gap': { gap: 1, after: '10', upTo: '20', reason: 'expired' } });
    });

    test('a gap whose end becomes known later stays one gap and one event, without a conflict', async () => {
      const gap = { after: '10' as Cursor, reason: 'expired' };
      await store.ingest.accept({ readings: [], now: T0, gap: { ...gap, upTo: null } });
      await store.ingest.accept({ readings: [], now: T0 + 1, gap: { ...gap, upTo: '20' as Cursor } });
      expect(await store.read.gaps()).toMatchObject([{ after: '10', upTo: '20' }]);
      expect(await sums(store)).toMatchObject({ events: 1, conflicts: 0 });
    });

    test('counts are written together with readings, and counters and state are stored', async () => {
      await store.ingest.accept({ readings: [event('1')], now: T0, counts: { 'refused.stale': 2 } });
      await store.state.note({ 'refused.stale': 1 }, { failure_run: 4, reconcile_asked: T0 });
      expect(await store.read.counters()).toMatchObject({ events: 1, accepted: 1, 'refused.stale': 3 });
      expect(await store.state.get('reconcile_asked')).toBe(T0);
    });
  });
}

function bodyOf(stored: StoredEvent | undefined): unknown {
  return JSON.parse(stored?.text ?? '');
}
