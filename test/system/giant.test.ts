// Replay answers with huge pages, or with junk. `keep` must survive with a small heap and store the valid items.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { expect, onTestFinished, test, vi } from 'vitest';
import { item, startReplayServer, type Answer, type Lie } from '../reconcile/replay-server.ts';
import { createStoreFile } from '../reconcile/harness.ts';

const HEAP_MB = 48;
const MIB = 1024 * 1024;

/** Starts a process with a small heap that reads replay from cursor 5 on. */
async function start(lie: Lie, heapMb = HEAP_MB) {
  const file = createStoreFile();
  const server = await startReplayServer(() => Date.now());
  server.publish(item(5));
  server.lieAlways(lie);
  const keep = spawn(
    process.execPath,
    [`--max-old-space-size=${heapMb}`, 'test/system/giant-keep.ts', server.url, file.path],
    { stdio: ['ignore', 'inherit', 'inherit'] },
  );
  onTestFinished(async () => {
    const ended = once(keep, 'exit');
    if (keep.exitCode === null && keep.signalCode === null) {
      keep.kill();
      await ended;
    }
    await server.close();
    file.remove();
  });
  const until = (holds: () => unknown) =>
    vi.waitUntil(
      () => {
        if (keep.exitCode !== null || keep.signalCode !== null) throw new Error('keep has died');
        return holds();
      },
      { timeout: 60_000, interval: 20 },
    );
  const count = (table: string) => file.query<{ n: number }>(`select count(*) as n from ${table}`)[0]?.n ?? 0;
  return {
    ...file,
    server,
    until,
    count,
    reason: async () => (await file.store.read.status(0)).reconcile.reason ?? '',
  };
}

function pageOf(rows: (i: number) => string, count: number): Answer {
  const text = Array.from({ length: count }, (_, i) => rows(i)).join(',');
  return { body: Buffer.from(`{"events":[${text}],"next_cursor":"","has_more":false,"reset_required":false}`) };
}

const good = (cursor: number) => JSON.stringify(item(cursor));
const limits = (requests: { limit: number | undefined }[]) => new Set(requests.map(({ limit }) => limit));

test.each<[string, Answer]>([
  ['64 MB of junk rows', pageOf(() => '{"a":[1,2,3],"b":{"c":"d"}}', Math.floor((63 * MIB) / 28))],
  ['30 million numbers', pageOf(() => '0', 30_000_000)],
  ['one string of 70 MB', { body: Buffer.from(`{"events":[],"has_more":false,"junk":"${'x'.repeat(70 * MIB)}"}`) }],
  [
    'a million fields beside the items',
    { body: Buffer.from(`{"events":[],"has_more":false,"junk":[${'[],'.repeat(1_000_000)}0]}`) },
  ],
])(
  'E85: %s: the page limit goes down to one, nothing is stored, and reading resumes afterwards',
  { timeout: 120_000 },
  async (_, junk) => {
    const { server, until, count, reason } = await start(junk);
    await until(() => limits(server.requests).has(1));
    await until(async () => (await reason()).includes('more than'));
    expect(count('quarantine')).toBeLessThanOrEqual(10);
    server.lieAlways();
    server.publish(item(6), item(7));
    await until(() => count('events') === 2);
  },
);

test(
  'E85: 200,000 items instead of a thousand: the lowest are stored, and the rest is read again',
  { timeout: 120_000 },
  async () => {
    const all = pageOf((i) => good(200_005 - i), 200_000);
    const { server, until, count, query, store } = await start(all);
    await until(() => count('events') >= 3);
    expect(query('select cast(cursor as text) as cursor from events order by events.cursor limit 3')).toEqual([
      { cursor: '6' },
      { cursor: '7' },
      { cursor: '8' },
    ]);
    expect(Number(await store.state.get('watermark'))).toBeLessThanOrEqual(5 + count('events'));
    expect(limits(server.requests)).toContain(1);
  },
);

test(
  'E85: an item of 20 MB is read in a page of its own, and then the items after it',
  { timeout: 120_000 },
  async () => {
    const big = item(6, 'MessageReceived', { body: 'x'.repeat(20 * MIB) });
    // The heap is twice as large, because the text, the parsed item and the stored body are in memory together.
    const { server, until, query } = await start((_, truth) => truth, 2 * HEAP_MB);
    server.publish(big, item(7), item(8));
    const lengths = () => query<{ bytes: number }>('select length(body) as bytes from events order by events.cursor');
    await until(() => lengths().length === 3);
    expect(lengths()[0]?.bytes).toBeGreaterThan(20 * MIB);
  },
);
