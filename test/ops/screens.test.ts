// What screens say, as functions of what the store knows: the sentence of health, charts, and what was refused.
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { ACK_LE_MS } from '../../src/base/latency-buckets.ts';
import { chart } from '../../src/ops/pages/shell/chart.ts';
import { health, quantile } from '../../src/ops/pages/overview.ts';
import { hex, refused, reread } from '../../src/ops/pages/refused.ts';
import type { Cursor } from '../../src/wire/cursor.ts';
import type { Refusal } from '../../src/store/keep.ts';
import type { Status } from '../../src/store/read.ts';
import { START } from '../reconcile/harness.ts';
import { createOps, type Ops } from './harness.ts';

let ops: Ops;
let well: Status;
beforeEach(async () => {
  ops = await createOps();
  for (const role of ['receive', 'run', 'keep'])
    await ops.store.beat({ role, pid: 1, started: '', boot: 1 }, ops.clock.time);
  const status = await ops.store.status(ops.clock.time);
  well = { ...status, events: 5, watermark: '5' as Cursor, reconcile: { ...status.reconcile, state: 'idle' } };
});
afterEach(() => ops.close());

describe('the sentence of health', () => {
  const alarm = (name: string) => ({ name, since: '2026-01-01T00:00:00.000Z', detail: '' });
  const none = { held: 0, ready: 0, running: 0, done: 0, skipped: 0, dead: 0 };
  test.each<[string, Partial<Status>, 'good' | 'warn' | 'bad', string]>([
    ['all is done', {}, 'good', 'all is handled, and nothing is missing.'],
    ['there is work', { tasks: { ...none, ready: 1_999 }, unassigned: 1 }, 'good', '2,000 tasks are on the way'],
    ['one task is left', { tasks: { ...none, running: 1 } }, 'good', '1 task is on the way'],
    ['nothing is proved yet', { watermark: null }, 'good', 'nothing is missing as far as known'],
    ['nothing has come', { events: 0 }, 'good', 'register the webhook'],
    ['an alarm can wait', { alarms: [alarm('dead_letters')] }, 'warn', 'one thing needs a person'],
    ['an alarm cannot', { alarms: [alarm('dead_letters'), alarm('failure_run')] }, 'bad', '2 things need a person'],
  ])('when %s', (_, what, tone, words) => {
    const said = health({ ...well, ...what });
    expect(said.tone).toBe(tone);
    expect(said.words).toContain(words);
  });

  test('when a process is down, that comes before all else, and the receiver before the others', () => {
    const processes = { receive: 'up', run: 'down', keep: 'up' } as const;
    const alarms = [alarm('failure_run')];
    expect(health({ ...well, processes, alarms })).toMatchObject({
      tone: 'bad',
      words: expect.stringContaining('but run does not'),
    });
    expect(health({ ...well, processes: { ...processes, receive: 'down' } }).words).toMatch(
      /^Deliveries are not taken/,
    );
  });

  test('when recovery is off, it says what is not fetched, and what switches it on', () => {
    const reconcile = { ...well.reconcile, state: 'off' } as const;
    expect(health({ ...well, reconcile }).words).toMatch(/not fetched: set API_BASE_URL and API_KEY/);
    expect(health({ ...well, reconcile }).words).not.toContain('nothing is missing');
  });
});

describe('what share of the answers kept to', () => {
  const acks = (counts: Record<number, number>): number[] => ACK_LE_MS.map((le) => counts[le] ?? 0);
  test.each([
    ['no answers', {}, 0.99, null],
    ['all alike', { 5: 100 }, 0.99, 5],
    ['one slow among a hundred', { 2: 99, 500: 1 }, 0.99, 2],
    ['two slow among a hundred', { 2: 98, 500: 2 }, 0.99, 500],
    ['half', { 1: 50, 10_000: 50 }, 0.5, 1],
  ])('%s', (_, counts, share, ms) => expect(quantile(acks(counts), share)).toBe(ms));

  test('beyond the limit is more than the limit', () => {
    expect(quantile(acks({ [Infinity]: 1 }), 0.5)).toBeGreaterThan(10_000);
  });
});

describe('a chart', () => {
  const times = Array.from({ length: 25 }, (_, n) => START + n * 60_000);
  const draw = (values: (number | null)[], logUpTo?: number): string =>
    chart({
      title: 'Events a minute',
      times,
      series: [{ name: 'accepted', values, sum: '7' }],
      show: String,
      ...(logUpTo === undefined ? {} : { logUpTo }),
    }).text;
  const lines = (text: string): string[] => [...text.matchAll(/points="([^"]*)"/g)].map(([, points = '']) => points);
  const heights = (points = ''): number[] => points.split(' ').map((point) => Number(point.split(',')[1]));

  test('without figures of two times, it says when it will be drawn', () => {
    const text = chart({ title: 'Nothing', times: [], series: [], show: String }).text;
    expect(text).not.toContain('<svg');
    expect(text).toContain('Drawn once');
  });

  test('stays within its frame, whatever the figures; what is greater stands higher', () => {
    for (const greatest of [0, 1, 3, 999, 1_000_001, 1e12]) {
      const [line] = lines(draw(times.map((_, n) => (greatest * n) / 24)));
      const ys = heights(line);
      expect(Math.min(...ys)).toBeGreaterThanOrEqual(8);
      expect(Math.max(...ys)).toBeLessThanOrEqual(108);
      expect(ys).toEqual(ys.toSorted((a, b) => b - a));
    }
  });

  test('logarithmic: each power of ten is a step as high as the others', () => {
    const [line] = lines(draw([1, 10, 100, 1_000, 10_000, 99_999], 10_000));
    const ys = heights(line);
    const steps = ys.slice(1, 5).map((y, n) => Math.round((ys[n] ?? 0) - y));
    expect(new Set(steps)).toEqual(new Set([25]));
    expect(ys[5]).toBe(ys[4]);
  });

  test('where nothing is known, the line is broken, and one value alone can be seen', () => {
    expect(lines(draw([1, 2, null, null, 3, null, 4, 5]))).toHaveLength(3);
    const [, alone = ''] = lines(draw([1, 2, null, null, 3]));
    const [from, to] = alone.split(' ');
    expect(from).not.toBe(to);
  });

  test('has words and a short table for those who do not see it', () => {
    const text = draw(times.map((_, n) => n));
    expect(text).toContain('accepted 7');
    expect([...text.matchAll(/<tr>/g)].length).toBeLessThanOrEqual(14);
    expect(text).toMatch(/role="img" aria-labelledby="events-a-minute-title events-a-minute-words"/);
  });
});

test.each([
  ['running', /"handled" class="figure"><span class="none">/],
  ['done', /"handled" class="figure">0</],
])('what a verified stretch sums up at its end is not shown as nothing before: %s', async (state, words) => {
  const sum = { type: 'A', present: 1_000, missing: 0, older: 0, onlyHere: 0, handled: 0, dead: 0 };
  const account = { state, reason: null, asked: START, from: '1', at: '2', pages: 1, events: 1_000, types: [sum] };
  await ops.store.note({}, { verify: JSON.stringify(account) });
  const { text } = await ops.get('/reconciliation');
  expect(text).toMatch(words);
  expect(text).toMatch(/1,000 events on 1\s+page,/);
});

describe('what was refused', () => {
  const one: Refusal = { at: '2026-01-01T00:00:00.000Z', headers: 5, skewSeconds: -412, agent: '<b>', bytes: 12 };
  const show = (badSignatures: number, headers: number): string => {
    const failures = { ...well.failures, badSignatures };
    const refusals = { bad_signature: [{ ...one, headers }], path: [{ ...one, headers: 0, skewSeconds: null }] };
    const counters = { 'refused.path': 2, 'refused.bad_signature': 12, 'refused.method': 0, accepted: 4_711 };
    const status = { ...well, failures, lastDeliveryAt: one.at };
    return refused({ status, counters, refusals, quarantine: [], mayChange: false }).text;
  };

  test.each([
    ['nothing is wrongly signed', 0, 5, 'No sign of a wrong secret'],
    ['a few are', 2, 5, 'noise, so far'],
    ['many are, undressed', 12, 0, 'Noise: what is wrongly signed'],
    ['many are, dressed as deliveries', 12, 5, 'carries all headers of a delivery (1 of 1 below)'],
  ])('tells a wrong secret from noise: %s', (_, bad, headers, words) => expect(show(bad, headers)).toContain(words));

  test('counts by cause, the most frequent first, each with what to do; samples by what they looked like', () => {
    const text = show(12, 5);
    expect(text.indexOf('bad_signature')).toBeLessThan(text.indexOf('noise, or the proxy'));
    expect(text).toContain('WEBHOOK_SECRET is not the secret of the webhook');
    expect(text).not.toMatch(/4,711|method<|<b>/);
    expect(text).toContain('−6 min');
    expect(text).toContain('&lt;b&gt;');
  });

  test('bytes are shown with their offset, and only what is visible as text', () => {
    expect(hex(Buffer.from('{"a":"\u0000é"}\nxyz12'))).toBe(
      '000000  7b 22 61 22 3a 22 00 c3 a9 22 7d 0a 78 79 7a 31  {"a":"..."}.xyz1\n' +
        '000010  32                                               2',
    );
  });

  test('what became of rows that were read again is counted', () => {
    expect(reread([{ verdict: 'new' }, { verdict: 'quarantined' }, undefined])).toBe(
      'Read again: 1 became events, 0 were known, 1 are still unreadable.',
    );
  });
});
