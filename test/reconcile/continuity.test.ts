// Events of a live stream have just happened. Events that the stream resends after a pause are of unknown age.
import { describe, expect, test } from 'vitest';
import { createContinuity } from '../../src/reconcile/continuity.ts';
import type { Ended } from '../../src/reconcile/pass.ts';
import { staleness } from '../../src/run/settlement.ts';
import type { Cursor } from '../../src/wire/cursor.ts';
import { readItem } from '../../src/wire/event.ts';
import { createClock, createStoreFile } from './harness.ts';

const SECOND = 1_000;
const c = (cursor: number): Cursor => String(cursor) as Cursor;

function begin() {
  const clock = createClock();
  let end: Ended | null = null;
  const stream = createContinuity(clock, () => end);
  return {
    ...stream,
    clock,
    wait: (seconds: number) => void (clock.time += seconds * SECOND),
    readUpTo: (cursor: number) => void (end = { at: clock.monotonic(), watermark: c(cursor) }),
  };
}

describe('E22', () => {
  test('E22: the events of a stream that was opened without a cursor are live', () => {
    const { opened, isLive, wait, heard } = begin();
    opened(null);
    expect(isLive(c(5))).toBe(true);
    for (let i = 0; i < 10; i++) {
      wait(25);
      heard();
    }
    expect(isLive(c(6)), 'pings alone keep it so').toBe(true);
  });

  test('E22: all events that are resent after a start are of unknown age', () => {
    const { opened, isLive, wait } = begin();
    opened(c(1));
    expect([isLive(c(2)), isLive(c(3))]).toEqual([false, false]);
    wait(1);
    expect(isLive(c(4))).toBe(false);
  });

  test('E22: an event above the watermark of a recent forward pass is live, and so are later ones', () => {
    const { opened, isLive, wait, readUpTo } = begin();
    opened(c(1));
    expect(isLive(c(2))).toBe(false);
    readUpTo(10);
    expect(isLive(c(10))).toBe(false);
    expect(isLive(c(11))).toBe(true);
    wait(59);
    expect(isLive(c(12))).toBe(true);
  });

  test('E22: a forward pass that ended while the stream was unbroken counts until the next pause', () => {
    const { opened, heard, isLive, wait, readUpTo } = begin();
    opened(c(1));
    heard();
    readUpTo(10);
    for (let i = 0; i < 40; i++) {
      wait(25);
      heard();
    }
    expect(isLive(c(11))).toBe(true);
  });

  test('E22: a forward pass that ended long before the stream was opened does not count', () => {
    const { opened, isLive, wait, readUpTo } = begin();
    readUpTo(10);
    wait(121);
    opened(c(5));
    expect(isLive(c(11))).toBe(false);
  });

  test('E22: after a pause of more than a minute events are not live, after a shorter one they are', () => {
    const { opened, isLive, wait } = begin();
    opened(null);
    expect(isLive(c(2))).toBe(true);
    wait(60);
    opened(c(2));
    expect(isLive(c(3))).toBe(true);
    wait(61);
    opened(c(3));
    expect([isLive(c(4)), isLive(c(5))]).toEqual([false, false]);
  });

  test('E22: events after a refresh are of unknown age until replay has shown those that were left out', () => {
    const { opened, broken, isLive, readUpTo } = begin();
    opened(null);
    broken();
    expect(isLive(c(2))).toBe(false);
    readUpTo(2);
    expect(isLive(c(3))).toBe(true);
  });

  test.each([3_600_000, -3_600_000, 60 * 86_400_000])('E22: events stay live if the clock is set by %d ms', (ms) => {
    const { opened, isLive, wait, clock } = begin();
    opened(null);
    wait(30);
    clock.step(ms);
    expect(isLive(c(2))).toBe(true);
  });

  test('E22: for maxAgeMs, a live event without a time is as old as its receipt; a resent one is stale', async () => {
    const file = createStoreFile();
    try {
      const now = createClock().now();
      const readings = [true, false].map((live, i) => {
        const reading = readItem('stream', c(i + 1), '{"Thing":{}}');
        return 'event' in reading ? { event: { ...reading.event, live } } : reading;
      });
      await file.store.ingest.accept({ readings, now });
      const { events } = await file.store.work.pending(10);
      const stale = (at: number) =>
        events.map((event) => staleness({ event } as Parameters<typeof staleness>[0], { maxAgeMs: 60_000 }, at));
      expect(stale(now + 60_000)).toEqual([undefined, 'stale: recovered, of unknown age']);
      expect(stale(now + 61_000)[0]).toBe('stale: 61 s old, at most 60 s wanted');
      expect(
        events.map(({ createdAt }) => createdAt),
        'nothing is made up',
      ).toEqual([null, null]);
    } finally {
      file.remove();
    }
  });
});
