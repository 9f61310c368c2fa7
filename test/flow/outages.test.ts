// The kit's promise on a large scale. Deliveries are dropped, duplicated and shuffled, the receiver has outages, and
// the service expires history. Each event is handled once by each handler, strict lanes stay in order, and every lost
// event is inside a gap.
import { describe, expect, test } from 'vitest';
import { compareCursors } from '../../src/wire/cursor.ts';
import { withOutages, type Handled, type Outcome, type OutageOptions } from './outages.ts';

/** FLOW_EVENTS=100000 takes a few minutes per test. */
const EVENTS = Number(process.env['FLOW_EVENTS'] ?? 2_000);
const LIMIT_MS = 60_000 + EVENTS * 5;

describe.each([
  ['with replay alone', {}],
  ['with the stream, which is cut off', { stream: true }],
  ['with a service that refuses to start without a cursor', { noBeginning: true }],
] satisfies [string, Partial<OutageOptions>][])('deliveries with losses and outages, %s', (_, options) => {
  test(
    `${EVENTS} events, an outage of 8 hours, and a watermark that expires twice`,
    async () => {
      const outcome = await withOutages({ events: EVENTS, seed: 7, ...options });
      holdsEachEventOnce(outcome);
      for (const lane of lanesOf(outcome.handled.strict)) expect(inversions(lane), 'strict').toEqual([]);
      for (const lane of lanesOf(outcome.handled.window)) expect(inversions(lane), 'window').toEqual([]);
      holdsGapsExact(outcome);
      holdsCallsFew(outcome);
      expect([...outcome.statuses.keys()]).toEqual([204]);
      expect(outcome.state).toBe('idle');
    },
    LIMIT_MS,
  );
});

function holdsEachEventOnce({ handled, stored }: Outcome): void {
  for (const [order, all] of Object.entries(handled)) {
    expect(all.length, `${order}: as many as stored`).toBe(stored.length);
    expect(new Set(all.map(({ cursor }) => cursor)), `${order}: each once`).toEqual(new Set(stored));
  }
}

function holdsGapsExact({ gaps, resets, lost, history }: Outcome): void {
  expect(gaps.map(({ after, upTo }) => ({ after, upTo }))).toEqual(resets);
  const inside = (cursor: string): boolean =>
    gaps.some(({ after, upTo }) => BigInt(cursor) > BigInt(after) && upTo !== null && BigInt(cursor) < BigInt(upTo));
  expect(
    lost.filter((cursor) => !inside(cursor)),
    'lost, and in no gap',
  ).toEqual([]);
  expect(lost.length, 'something was lost').toBeGreaterThan(history.length * 0.05);
}

/** The forward pass reads no event twice: all its pages are full, except the last of each pass. */
function holdsCallsFew({ calls, history, callsPerMinute }: Outcome): void {
  const full = calls.filter(({ kind, more }) => kind === 'forward' && more);
  expect(full.length).toBeLessThanOrEqual(Math.ceil(history.length / 1_000));
  expect(calls.filter(({ kind }) => kind === 'search').length, 'two bisections').toBeLessThanOrEqual(40);
  const most = Math.max(
    ...calls.map((from) => calls.filter(({ at }) => at >= from.at && at < from.at + 60_000).length),
  );
  expect(most, 'calls in any 60 seconds').toBeLessThanOrEqual(callsPerMinute);
}

function lanesOf(handled: Handled[]): Handled[][] {
  return [...Map.groupBy(handled, ({ lane }) => lane).values()];
}

/** Events that were handled out of cursor order, although they were marked neither `late` nor `unproven`. */
function inversions(lane: Handled[]): string[] {
  const told = lane.filter(({ late, unproven }) => !late && !unproven);
  return told.flatMap(({ cursor }, i) => {
    const next = told[i + 1]?.cursor;
    return next && compareCursors(cursor, next) >= 0 ? [`${cursor} before ${next}`] : [];
  });
}
