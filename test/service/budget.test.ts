// The call budget: never more calls in any minute than configured, and no call lost to rounding.
import { expect, test } from 'vitest';
import { createBudget } from '../../src/service/budget.ts';
import { createClock } from '../store-file.ts';

const MINUTE = 60_000;

/** The times of calls if each is made as soon as the budget allows. */
function spend(callsPerMinute: number, ms: number): number[] {
  const clock = createClock();
  const budget = createBudget(callsPerMinute, clock);
  const times: number[] = [];
  for (const end = clock.time + ms; clock.time < end;) {
    const wait = budget.take();
    if (wait === 0) times.push(clock.time);
    clock.time += wait;
  }
  return times;
}

test.each([1, 2, 20, 120])('with %i calls a minute, no 60 seconds have more calls than that', (callsPerMinute) => {
  const times = spend(callsPerMinute, 10 * MINUTE);
  const most = Math.max(...times.map((from) => times.filter((at) => at >= from && at < from + MINUTE).length));
  expect(most).toBeLessThanOrEqual(callsPerMinute);
});

test.each([1, 2, 20, 120])('with %i calls a minute, steady demand gets all calls of ten minutes', (callsPerMinute) => {
  expect(spend(callsPerMinute, 10 * MINUTE).length).toBeGreaterThanOrEqual(10 * callsPerMinute - 1);
});

test('the wait that `take` returns is long enough, and a whole number', () => {
  const clock = createClock();
  const budget = createBudget(7, clock);
  for (let i = 0; i < 7; i++) budget.take();
  const wait = budget.take();
  expect(wait).toBeGreaterThan(0);
  expect(Number.isInteger(wait)).toBe(true);
  clock.time += wait;
  expect(budget.take()).toBe(0);
});

test('an hour without calls saves up no more than the calls of a minute', () => {
  const clock = createClock();
  const budget = createBudget(5, clock);
  clock.time += 60 * MINUTE;
  const calls = Array.from({ length: 10 }, () => budget.take()).filter((wait) => wait === 0);
  expect(calls).toHaveLength(5);
});

test('F16: after a clock jumps back an hour, the budget allows no extra call and does not block for an hour', () => {
  const clock = createClock();
  const budget = createBudget(1, clock);
  expect(budget.take()).toBe(0);
  clock.step(-60 * MINUTE);
  const wait = budget.take();
  expect(wait).toBeGreaterThan(0);
  expect(wait).toBeLessThanOrEqual(MINUTE);
  clock.time += wait;
  expect(budget.take()).toBe(0);
});

test('calls of an earlier process count, until they are a minute old', () => {
  const clock = createClock();
  let calls: number[] = [];
  const begin = () => createBudget(3, clock, { earlier: calls, onTake: (taken) => (calls = [...taken]) });
  const first = begin();
  for (let i = 0; i < 3; i++) {
    expect(first.take()).toBe(0);
    clock.time += 1_000;
  }
  expect(begin().take()).toBe(57_000);
  clock.time += 57_000;
  expect(begin().take()).toBe(0);
  expect(calls).toHaveLength(3);
});
