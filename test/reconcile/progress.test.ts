// The progress of a catch-up: its figures, its estimated end, and when the budget is too small.
import { expect, test } from 'vitest';
import { createCatchUp, wordsOf } from '../../src/reconcile/progress.ts';
import { createClock } from './harness.ts';

const MINUTE = 60_000;

function begin() {
  const clock = createClock();
  const catchUp = createCatchUp(clock);
  /** Reads a page after `ms` milliseconds. Its newest event happened `lagMs` ago. */
  const page = (ms: number, lagMs: number | null, events = 1_000): void => {
    clock.time += ms;
    catchUp.page(events, lagMs === null ? null : clock.time - lagMs);
  };
  return { clock, catchUp, page };
}

test('one page is no catch-up', () => {
  const { catchUp, page } = begin();
  expect(catchUp.show()).toBeNull();
  page(0, 10 * MINUTE);
  expect(catchUp.show()).toBeNull();
});

test('it shows pages, events, their rate, and the end at the rate of the last minutes', () => {
  const { clock, catchUp, page } = begin();
  page(0, 100 * MINUTE);
  page(MINUTE, 90 * MINUTE);
  page(MINUTE, 80 * MINUTE);
  const shown = catchUp.show();
  expect(shown).toEqual({
    pages: 3,
    events: 3_000,
    perMinute: 1_500,
    endsAt: new Date(clock.time + 8 * MINUTE).toISOString(),
    behind: false,
  });
  expect(shown && wordsOf(shown)).toMatch(/3 pages, 3000 events, 1500 a minute, done about 2026-/);
});

test('the first pages do not exaggerate the rate', () => {
  const { catchUp, page } = begin();
  page(0, MINUTE);
  page(10, MINUTE);
  expect(catchUp.show()?.perMinute).toBe(2_000);
});

test('a catch-up is behind if it came no closer to the present in five minutes', () => {
  const { catchUp, page } = begin();
  page(0, 60 * MINUTE);
  for (let i = 0; i < 9; i++) page(30_000, 60 * MINUTE);
  expect(catchUp.show()).toMatchObject({ behind: false, endsAt: null });
  page(30_000, 61 * MINUTE);
  expect(catchUp.show()).toMatchObject({ behind: true, endsAt: null });
  for (let i = 1; i < 6; i++) page(30_000, (61 - i) * MINUTE);
  expect(catchUp.show()).toMatchObject({ behind: false });
});

test('with events without a time, it is behind after ten minutes, and the end is unknown', () => {
  const { catchUp, page } = begin();
  page(0, null);
  page(9 * MINUTE, null);
  expect(catchUp.show()).toMatchObject({ behind: false, endsAt: null });
  page(MINUTE, null);
  expect(catchUp.show()).toMatchObject({ behind: true, endsAt: null });
});

test('after the end of history the figures begin anew', () => {
  const { catchUp, page } = begin();
  page(0, MINUTE);
  page(MINUTE, 0);
  catchUp.end();
  expect(catchUp.show()).toBeNull();
  page(0, MINUTE);
  expect(catchUp.show()).toBeNull();
});

test('an event from the future gives no end, and a tiny gain no error', () => {
  const { catchUp, page } = begin();
  page(0, -MINUTE);
  page(MINUTE, -MINUTE);
  expect(catchUp.show()?.endsAt).toBeNull();
  const slow = begin();
  slow.page(0, 1e12);
  slow.page(MINUTE, 1e12 - 1);
  expect(() => slow.catchUp.show()).not.toThrow();
});
