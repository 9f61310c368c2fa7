// Screens as functions of data: charts, and refused deliveries.
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { ACK_LE_MS } from '../../src/base/latency-buckets.ts';
import { chart } from '../../src/ops/pages/shell/chart.ts';
import { quantile } from '../../src/admin/recent-attempts.ts';
import { hex, refused, reread } from '../../src/ops/pages/refused.ts';
import type { Cursor } from '../../src/wire/cursor.ts';
import { judgeSignatures } from '../../src/receive/bad-signatures.ts';
import type { Refusal } from '../../src/store/keep.ts';
import type { Status } from '../../src/store/read.ts';
import { START } from '../reconcile/harness.ts';
import { createOps, type Ops } from './harness.ts';

let ops: Ops;
let well: Status;
beforeEach(async () => {
  ops = await createOps();
  for (const role of ['receive', 'run', 'keep'])
    await ops.store.processes.beat({ role, pid: 1, started: '', boot: 1 }, ops.clock.time);
  const status = await ops.store.read.status(ops.clock.time);
  well = { ...status, events: 5, watermark: '5' as Cursor, reconcile: { ...status.reconcile, state: 'idle' } };
});
afterEach(() => ops.close());

describe('the time within which a share of the answers was given', () => {
  const acks = (counts: Record<number, number>): number[] => ACK_LE_MS.map((le) => counts[le] ?? 0);
  test.each([
    ['no answers', {}, 0.99, null],
    ['all alike', { 5: 100 }, 0.99, 5],
    ['one slow among a hundred', { 2: 99, 500: 1 }, 0.99, 2],
    ['two slow among a hundred', { 2: 98, 500: 2 }, 0.99, 500],
    ['half', { 1: 50, 10_000: 50 }, 0.5, 1],
  ])('%s', (_, counts, share, ms) => expect(quantile(acks(counts), share)).toBe(ms));

  test('is above 10 s for answers above the last bound', () => {
    expect(quantile(acks({ [Infinity]: 1 }), 0.5)).toBeGreaterThan(10_000);
  });
});

describe('a chart', () => {
  const times = Array.from({ length: 25 }, (_, n) => START + n * 60_000);
  const draw = (values: (number | null)[], logUpTo?: number): string =>
    chart({
      title: 'Events a minute',
      from: START,
      to: START + 24 * 60_000,
      times,
      series: [{ name: 'accepted', values, sum: '7' }],
      show: String,
      ...(logUpTo === undefined ? {} : { logUpTo }),
    }).text;
  const lines = (text: string): string[] => [...text.matchAll(/points="([^"]*)"/g)].map(([, points = '']) => points);
  const heights = (points = ''): number[] => points.split(' ').map((point) => Number(point.split(',')[1]));

  test('says when it will appear, if it has no figures of two times', () => {
    const text = chart({ title: 'Nothing', from: 0, to: 1, times: [], series: [], show: String }).text;
    expect(text).not.toContain('<svg');
    expect(text).toContain('The chart appears');
  });

  test('E49: the width is the range, and figures of a part of it are at their place', () => {
    const [from, to] = [START - 7 * 86_400_000, START + 24 * 60_000];
    const given = { title: 'Young', from, to, times, show: String };
    const { text } = chart({ ...given, series: [{ name: 'accepted', values: times.map(() => 1), sum: '7' }] });
    const across = (lines(text)[0] ?? '').split(' ').map((point) => Number(point.split(',')[0]));
    expect(Math.min(...across)).toBeGreaterThan(995);
    expect(Math.max(...across)).toBe(1_000);
    expect(text.indexOf(new Date(from).toISOString().slice(5, 10))).toBeGreaterThan(0);
  });

  test('stays within its frame, whatever the figures, and draws greater values higher', () => {
    for (const greatest of [0, 1, 3, 999, 1_000_001, 1e12]) {
      const [line] = lines(draw(times.map((_, n) => (greatest * n) / 24)));
      const ys = heights(line);
      expect(Math.min(...ys)).toBeGreaterThanOrEqual(0);
      expect(Math.max(...ys)).toBeLessThanOrEqual(100);
      expect(ys).toEqual(ys.toSorted((a, b) => b - a));
    }
  });

  test('gives each power of ten the same height on a logarithmic axis', () => {
    const [line] = lines(draw([1, 10, 100, 1_000, 10_000, 99_999], 10_000));
    const ys = heights(line);
    const steps = ys.slice(1, 5).map((y, n) => Math.round((ys[n] ?? 0) - y));
    expect(new Set(steps)).toEqual(new Set([25]));
    expect(ys[5]).toBe(ys[4]);
  });

  test('breaks its line at unknown values, and a single value stays visible', () => {
    expect(lines(draw([1, 2, null, null, 3, null, 4, 5]))).toHaveLength(3);
    const [, alone = ''] = lines(draw([1, 2, null, null, 3]));
    const [from, to] = alone.split(' ');
    expect(from).not.toBe(to);
  });

  test.each([
    ['an hour', 3_600_000, ['12:00', '12:15', '12:30', '12:45', '13:00']],
    ['six hours', 6 * 3_600_000, ['12:00', '14:00', '16:00', '18:00']],
    ['a day', 86_400_000, ['12:00', '18:00', '00:00', '06:00', '12:00']],
    ['a week', 7 * 86_400_000, ['01-03', '01-05', '01-07']],
  ])('the axis of %s has three to five round times', (_, width, expected) => {
    const from = Date.UTC(2026, 0, 1, 12, 0);
    const given = { title: 'Ticks', from, to: from + width, times: [from + width], show: String };
    const { text } = chart({ ...given, series: [{ name: 'a', values: [1], sum: '1' }] });
    const words = [...text.matchAll(/<text\s+x="[\d.]+%"[^>]*>([^<]*)</g)].map(([, word]) => word?.trim());
    expect(words.length).toBeGreaterThanOrEqual(3);
    expect(words).toEqual(expected);
  });

  test('shows the values while the pointer is over a step, and what happened there', () => {
    const at = times[7] ?? 0;
    const marks = [
      { at, kind: 'restart' as const, words: 'restart' },
      { at, kind: 'alarm' as const, words: 'alarm <disk_low>' },
    ];
    const values = times.map((_, n) => (n === 8 ? null : n * 100));
    const given = { title: 'Marked', from: START, to: START + 24 * 60_000, times, show: String, marks };
    const { text } = chart({ ...given, series: [{ name: 'accepted', values, sum: '7' }] });
    const titles = [...text.matchAll(/<rect[^>]*>\s*<title>([^<]*)<\/title>/g)].map(([, title]) => title);
    expect(titles).toHaveLength(25);
    expect(titles[7]).toBe('01-01 12:07 UTC\naccepted 700\nrestart\nalarm &lt;disk_low&gt;');
    expect(titles[8]).toBe('01-01 12:08 UTC\naccepted unknown');
    expect(text.match(/<line class="(restart|alarm)"/g)).toHaveLength(2);
    expect(text).toMatch(/data-name="what happened"\s*>restart, alarm &lt;disk_low&gt;</);
  });

  test('has a description and a short table for screen readers', () => {
    const text = draw(times.map((_, n) => n));
    expect(text).toContain('accepted 7');
    expect([...text.matchAll(/<tr>/g)].length).toBeLessThanOrEqual(14);
    expect(text).toMatch(/role="img" aria-labelledby="events-a-minute-title events-a-minute-words"/);
  });
});

test.each([
  ['running', /"handled" class="figure"><span class="none">/],
  ['done', /"handled" class="figure">0</],
])('counts that `verify` knows only at its end are not shown as 0 before: %s', async (state, words) => {
  const sum = { type: 'A', present: 1_000, missing: 0, older: 0, onlyHere: 0, handled: 0, dead: 0 };
  const account = { state, reason: null, asked: START, from: '1', at: '2', pages: 1, events: 1_000, types: [sum] };
  await ops.store.state.note({}, { verify: JSON.stringify(account) });
  const { text } = await ops.get('/reconciliation');
  expect(text).toMatch(words);
  expect(text).toMatch(/1,000 events on 1\s+page,/);
});

describe('the screen of refused deliveries', () => {
  const one: Refusal = {
    at: '2026-01-01T00:00:00.000Z',
    headers: 5,
    skewSeconds: -412,
    agent: '<b>-Webhooks/1',
    bytes: 12,
  };
  const show = (badSignatures: number, headers: number): string => {
    const failures = { ...well.failures, badSignatures, badSince: one.at, lastBadAt: '2026-01-01T00:00:30.000Z' };
    const refusals = { bad_signature: [{ ...one, headers }], path: [{ ...one, headers: 0, skewSeconds: null }] };
    const counters = { 'refused.path': 2, 'refused.bad_signature': 12, 'refused.method': 0, accepted: 4_711 };
    const status = {
      ...well,
      failures,
      lastDeliveryAt: one.at,
      reconcile: { ...well.reconcile, state: 'off' as const },
    };
    const now = Date.parse(one.at);
    const judgement = judgeSignatures({ now, status, types: [], refused: refusals.bad_signature });
    return refused({ status, judgement, counters, refusals, quarantine: [], mayChange: false }).text;
  };

  test.each([
    ['there is no bad signature', 0, 5, 'No sign of a wrong secret'],
    ['a few are', 2, 5, 'noise, so far'],
    ['there are many, without the headers', 12, 0, 'noise, because they lack headers of the service'],
    ['there are many, with all headers', 12, 5, 'Guess: the secret of the webhook has changed'],
  ])('tells a wrong secret from noise: %s', (_, bad, headers, words) => expect(show(bad, headers)).toContain(words));

  test('counts refusals by cause, the most frequent first, with their meaning, and shows the last ones', () => {
    const text = show(12, 5);
    expect(text.indexOf('bad_signature')).toBeLessThan(text.indexOf('noise, or the proxy'));
    expect(text).toContain('WEBHOOK_SECRET is wrong');
    expect(text).not.toMatch(/4,711|method<|<b>/);
    expect(text).toContain('−6 min');
    expect(text).toContain('&lt;b&gt;-Webhooks');
  });

  test('shows bytes with their offset, and only visible characters as text', () => {
    expect(hex(Buffer.from('{"a":"\u0000é"}\nxyz12'))).toBe(
      '000000  7b 22 61 22 3a 22 00 c3 a9 22 7d 0a 78 79 7a 31  {"a":"..."}.xyz1\n' +
        '000010  32                                               2',
    );
  });

  test('counts the outcomes of rows that were read again', () => {
    expect(reread([{ verdict: 'new' }, { verdict: 'quarantined' }, undefined])).toBe(
      'Read again: 1 became events, 0 were known, 1 are still unreadable.',
    );
  });
});
