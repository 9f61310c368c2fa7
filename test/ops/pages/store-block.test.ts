// The figures of the dedup store, as a function of what is known.
import { expect, test } from 'vitest';
import { UNREAD } from '../../../src/keep/view.ts';
import { storeBlock, type StoreFigures } from '../../../src/ops/pages/store-block.ts';
import type { Sample } from '../../../src/store/read.ts';

const DAY_MS = 86_400_000;
const NOW = Date.UTC(2026, 0, 10);
const samplesOver = (ms: number, accepted: number): Sample[] =>
  [0, accepted].map((n, i) => ({
    at: NOW - ms + i * ms,
    accepted: n,
    duplicates: 0,
    refused: 0,
    quarantined: 0,
    handled: 0,
    acks: [],
  }));
const known: StoreFigures = {
  status: { ...UNREAD, events: 1_000, duplicates: 5_000, conflicts: 2, gaps: 1 },
  now: NOW,
  disk: { storeBytes: 2_000_000, logBytes: 30_000, freeBytes: 5e9 },
  extent: { oldestAt: NOW - 3 * DAY_MS, prunedAt: NOW - 240_000 },
  backup: { verifiedAt: NOW - 7_200_000, bytes: 1_900_000 },
  week: samplesOver(2 * DAY_MS, 1_000),
  retentionDays: 30,
};
const show = (more: Partial<StoreFigures> = {}): string =>
  storeBlock({ ...known, ...more })
    .text.replaceAll(/\s+/g, ' ')
    .replaceAll(/<(?!a )[^>]*>/g, ' ')
    .replaceAll(/ +/g, ' ');

test('shows what it kept out, how large it is, and how it is looked after', () => {
  const text = show();
  expect(text).toContain('Events stored 1,000 each once');
  expect(text).toContain('Duplicates kept out 5,000');
  expect(text).toContain('Contradictions <a href="/events?contradicted=yes">2');
  expect(text).toContain('Gaps <a href="/reconciliation">1');
  expect(text).toContain('Free space 5 GB');
  expect(text).toMatch(/Oldest event received 3 d 0 h ago kept for 30 days; last pruned 4 min ago/);
  expect(text).toMatch(/Last verified backup 2 h 0 min ago 1.9 MB/);
});

test('says where the size levels off: bytes of an event, events of a day, days of retention', () => {
  expect(show()).toContain('2 MB and a log of 30 kB; levels off at about 30 MB');
});

test.each<[string, Partial<StoreFigures>]>([
  ['there is less than a day of samples', { week: samplesOver(DAY_MS - 1, 1_000) }],
  ['there are no samples', { week: [] }],
  ['nothing came in the week', { week: samplesOver(2 * DAY_MS, 0) }],
  ['there are no events', { status: { ...known.status, events: 0 } }],
])('says nothing of that if %s', (_, more) => {
  expect(show(more)).toContain('2 MB and a log of 30 kB');
  expect(show(more)).not.toContain('levels off');
});

test('what is not known is not shown', () => {
  const text = show({ disk: null, extent: null, backup: null });
  expect(text).toContain('Size –');
  expect(text).toContain('Free space –');
  expect(text).toContain('Oldest event received – kept for 30 days; last pruned –');
  expect(text).toContain('Last verified backup – see BACKUP_DIR');
});

test('little free space is marked', () => {
  const tone = (freeBytes: number) => {
    const { text } = storeBlock({ ...known, disk: { storeBytes: 1, logBytes: 1, freeBytes } });
    return /<div class="(\w*)">\s*<dt>Free space/.exec(text)?.[1];
  };
  expect([tone(5e9), tone(1e8)]).toEqual(['', 'bad']);
});
