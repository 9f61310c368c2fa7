// Accepting: an event is one row however often it comes, and each reading gets its result. A batch is written whole or
// not at all, together with its counters and state.
import { beforeEach, describe, expect, test } from 'vitest';
import type { Store } from '../../src/store/store.ts';
import type { StoredEvent } from '../../src/store/work.ts';
import type { Cursor } from '../../src/wire/cursor.ts';
import { event, T0, unreadable, type Suite } from './harness.ts';

export function accepting(suite: Suite): void {
  const { another } = suite;
  let store: Store;
  beforeEach(() => void ({ store } = suite));

  describe('accepting', () => {
    test('each reading gets its verdict, in the order of the readings', async () => {
      const readings = [event('1'), event('1'), unreadable('{'), unreadable('{'), event('2')];
      const verdicts = (await store.ingest.accept({ readings, now: T0 })).map(({ verdict }) => verdict);
      expect(verdicts).toEqual(['new', 'duplicate', 'quarantined', 'quarantined', 'new']);
      expect(await store.read.status(T0)).toMatchObject({
        events: 2,
        quarantined: 1,
        newestCursor: '2',
        unassigned: 2,
      });
    });

    test('an event is one row, however often it arrives, through any process', async () => {
      const other = another();
      for (const one of [store, other, store]) await one.ingest.accept({ readings: [event('7')], now: T0 });
      expect(await store.read.status(T0)).toMatchObject({ events: 1, duplicates: 2 });
      expect((await other.read.event('7', T0))?.event).toMatchObject({ key: 'c:7', copies: 2 });
    });

    test('the body of an event is returned as received, by cursor and by key', async () => {
      const reading = event('7');
      await store.ingest.accept({ readings: [reading], now: T0 });
      const bytes = 'event' in reading ? Buffer.from(reading.event.body) : undefined;
      for (const one of ['7', 'c:7']) expect(Buffer.from((await store.read.body(one)) ?? [])).toEqual(bytes);
      expect(await store.read.body('8')).toBeNull();
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
      expect(await store.read.status(T0)).toMatchObject({ events: 0, quarantined: 0, gaps: 0 });
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
      expect((await store.read.status(T0)).newestCursor).toBe('9223372036854775807');
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
      expect((await store.read.status(T0)).gaps).toBe(1);
    });

    test('a gap whose end becomes known later stays one gap and one event, without a conflict', async () => {
      const gap = { after: '10' as Cursor, reason: 'expired' };
      await store.ingest.accept({ readings: [], now: T0, gap: { ...gap, upTo: null } });
      await store.ingest.accept({ readings: [], now: T0 + 1, gap: { ...gap, upTo: '20' as Cursor } });
      expect(await store.read.gaps()).toMatchObject([{ after: '10', upTo: '20' }]);
      expect(await store.read.status(T0)).toMatchObject({ events: 1, gaps: 1, conflicts: 0 });
    });

    test('counts are written together with readings, and counters and state are stored', async () => {
      await store.ingest.accept({ readings: [event('1')], now: T0, counts: { 'refused.stale': 2 } });
      await store.state.note({ 'refused.stale': 1 }, { failure_run: 4, reconcile_asked: T0 });
      expect(await store.read.counters()).toMatchObject({ events: 1, accepted: 1, 'refused.stale': 3 });
      expect((await store.read.status(T0)).failureRun).toBe(4);
      expect(await store.state.get('reconcile_asked')).toBe(T0);
    });
  });

  describe('delivery health', () => {
    test('is empty at first', async () => {
      const none = { causes: {}, badSignatures: 0, badSince: null, lastBadAt: null };
      expect(await store.state.books()).toEqual({
        failureRun: 0,
        failures: { ...none, lastGoodAt: null },
        signers: [],
      });
      expect(await store.read.status(T0)).toMatchObject({ failures: none, lastDeliveryAt: null, secrets: [] });
    });

    test('is written with the events of a batch; its secrets are shown in the order of the configuration', async () => {
      const at = new Date(T0).toISOString();
      const failures = { causes: { store: 2 }, badSignatures: 1, badSince: at, lastBadAt: at, lastGoodAt: at };
      const times = { firstAt: T0, lastAt: T0, aloneAt: null, goneAt: null };
      const signers = [
        { fingerprint: 'b', number: 2, hits: 9, mayGo: true, ...times },
        { fingerprint: 'c', number: null, hits: 7, mayGo: false, ...times, goneAt: T0 },
        { fingerprint: 'a', number: 1, hits: 1, mayGo: false, ...times },
      ];
      const state = { failure_run: 2, failures: JSON.stringify(failures), signers: JSON.stringify(signers) };
      await store.ingest.accept({ readings: [event('1')], now: T0, state });
      expect(await another().state.books()).toEqual({ failureRun: 2, failures, signers });
      const { lastGoodAt, ...shown } = failures;
      expect(await store.read.status(T0)).toMatchObject({ failureRun: 2, failures: shown, lastDeliveryAt: lastGoodAt });
      expect((await store.read.status(T0)).secrets).toEqual([
        { number: 1, hits: 1, lastAt: at, mayGo: false },
        { number: 2, hits: 9, lastAt: at, mayGo: true },
      ]);
    });
  });
}

function bodyOf(stored: StoredEvent | undefined): unknown {
  return JSON.parse(stored?.text ?? '');
}
