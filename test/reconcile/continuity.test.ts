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
  test('E22: opened without a cursor, it brings what happens from then on', () => {
    const { opened, isLive, wait, heard } = begin();
    opened(null);
    expect(isLive(c(5))).toBe(true);
    for (let i = 0; i < 10; i++) {
      wait(25);
      heard();
    }
    expect(isLive(c(6)), 'pings alone keep it so').toBe(true);
  });

  test('E22: what it resends at a start is of unknown age, the second as well as the first', () => {
    const { opened, isLive, wait } = begin();
    opened(c(1));
    expect([isLive(c(2)), isLive(c(3))]).toEqual([false, false]);
    wait(1);
    expect(isLive(c(4))).toBe(false);
  });

  test('E22: behind what replay has shown lately it is live, and from there on', () => {
    const { opened, isLive, wait, readUpTo } = begin();
    opened(c(1));
    expect(isLive(c(2))).toBe(false);
    readUpTo(10);
    expect(isLive(c(10))).toBe(false);
    expect(isLive(c(11))).toBe(true);
    wait(59);
    expect(isLive(c(12))).toBe(true);
  });

  test('E22: a reading that ended while it was heard counts for as long as it is heard', () => {
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

  test('E22: a reading that ended long before it was heard again does not', () => {
    const { opened, isLive, wait, readUpTo } = begin();
    readUpTo(10);
    wait(121);
    opened(c(5));
    expect(isLive(c(11))).toBe(false);
  });

  test('E22: a pause of more than a minute ends it, a shorter one between two connections does not', () => {
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

  test('E22: what comes after a refresh is of unknown age until replay has shown what was left out', () => {
    const { opened, broken, isLive, readUpTo } = begin();
    opened(null);
    broken();
    expect(isLive(c(2))).toBe(false);
    readUpTo(2);
    expect(isLive(c(3))).toBe(true);
  });

  test.each([3_600_000, -3_600_000, 60 * 86_400_000])('E22: a clock that is set by %d ms changes nothing', (ms) => {
    const { opened, isLive, wait, clock } = begin();
    opened(null);
    wait(30);
    clock.step(ms);
    expect(isLive(c(2))).toBe(true);
  });

  test('E22: a live event without a time is as old as its receipt to maxAgeMs; one that was resent is stale', async () => {
    const file = createStoreFile();
    try {
      const now = createClock().now();
      const readings = [true, false].map((live, i) => {
        const reading = readItem('stream', c(i + 1), '{"Thing":{}}');
        return 'event' in reading ? { event: { ...reading.event, live } } : reading;
      });
      await file.store.accept({ readings, now });
      const { events } = await file.store.pending(10);
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
