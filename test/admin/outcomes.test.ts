// The outcome of an event in a few words, and what the samples tell of each handler's last hour.
import { expect, test } from 'vitest';
import { outcomesOf } from '../../src/admin/outcomes.ts';
import { attemptsBetween } from '../../src/admin/recent-attempts.ts';
import { ACK_LE_MS } from '../../src/base/latency-buckets.ts';
import type { HandlerSample, Sample } from '../../src/store/read.ts';
import type { ShownState } from '../../src/store/work.ts';

test.each<[string, Record<string, ShownState>, string]>([
  ['nothing', {}, ''],
  ['one that is done', { reply: 'done' }, 'done'],
  ['three that are done', { reply: 'done', notify: 'done', log: 'done' }, '3 done'],
  ['one dead letter among others', { reply: 'done', notify: 'dead', log: 'done' }, 'dead: notify, 2 done'],
  ['two dead letters', { reply: 'dead', notify: 'dead' }, '2 dead'],
  ['a running one behind one that waits', { reply: 'running', notify: 'ready' }, 'ready, running'],
  [
    'all states',
    { a: 'done', b: 'skipped', c: 'running', d: 'held', e: 'ready', f: 'dead' },
    'dead: f, ready, held, running, skipped, done',
  ],
])('the outcome of %s, worst first', (_, states, words) => {
  const outcomes = Object.entries(states).map(([handler, state]) => ({ handler, state }));
  expect(
    outcomesOf({ outcomes })
      .map((one) => one.words)
      .join(', '),
  ).toBe(words);
});

const took = (counts: Record<number, number>): number[] => ACK_LE_MS.map((ms) => counts[ms] ?? 0);
const sample = (at: number, handlers?: Record<string, HandlerSample>): Sample => {
  const counts = { accepted: 0, duplicates: 0, refused: 0, quarantined: 0, handled: 0, acks: [] };
  return { at, ...counts, ...(handlers && { handlers }) };
};

test('the last hour of a handler is what its counters have grown by; a sample of an older kit tells nothing', () => {
  const samples = [
    sample(1),
    sample(2, { reply: { succeeded: 100, failed: 5, took: took({ 5: 105 }) } }),
    sample(3, {
      reply: { succeeded: 118, failed: 7, took: took({ 5: 106, 200: 19 }) },
      fresh: { succeeded: 1, failed: 0, took: took({ 50: 1 }) },
    }),
  ];
  expect(Object.fromEntries(attemptsBetween(samples))).toEqual({
    reply: { succeeded: 18, failed: 2, took: took({ 5: 1, 200: 19 }), p95: 200 },
    fresh: { succeeded: 1, failed: 0, took: took({ 50: 1 }), p95: 50 },
  });
  expect(attemptsBetween([]).size).toBe(0);
  expect(attemptsBetween(samples.slice(0, 2)).get('reply')).toEqual({
    succeeded: 0,
    failed: 0,
    took: took({}),
    p95: null,
  });
});
