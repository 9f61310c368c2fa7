// Gaps: stored with reason and time, turned into one task, and shown until a person closes them.
import { afterEach, beforeEach, expect, test } from 'vitest';
import { readDelivery } from '../../src/wire/event.ts';
import { createStoreFile, START, type StoreFile } from './harness.ts';

let file: StoreFile;
beforeEach(() => {
  file = createStoreFile();
});
afterEach(() => file.remove());

const AFTER = '5' as never;
const found = (upTo: string | null, now = START) =>
  file.store.ingest.accept({ readings: [], now, gap: { after: AFTER, upTo: upTo as never, reason: 'reset_required' } });
const raised = () =>
  file.query<{ id: string }>(`select id from events where type = 'kit.gap' order by seq`).map(({ id }) => id);
const open = async () => (await file.store.read.status(START)).gaps;

/** Does what `run` does: the event becomes a task, which is claimed and settled. */
async function handle(state: 'done' | 'dead'): Promise<void> {
  const { store } = file;
  const handlers = await store.work.register(['fill-gap']);
  const handler = handlers.get('fill-gap') ?? 0;
  const { from, events } = await store.work.pending(10);
  const tasks = events.map(({ seq }) => ({ event: seq, handler, lane: null, cursor: null, releaseAt: START }));
  const turn = { now: START, boot: 1, room: 10, handlers: [handler] };
  const { claims } = await store.work.turn({
    ...turn,
    settle: [],
    fanOut: { from, upTo: events.at(-1)?.seq ?? from, tasks },
  });
  const settle = claims.map((claim) => ({ claim, state, error: state === 'dead' ? 'no' : null }));
  await store.work.turn({ ...turn, settle, fanOut: null });
}

test('a gap is stored with its bounds, its reason and its time', async () => {
  await found('9');
  expect(await file.store.read.gaps()).toEqual([
    {
      id: 1,
      after: '5',
      upTo: '9',
      reason: 'reset_required',
      openedAt: new Date(START).toISOString(),
      closedAt: null,
      closedBy: null,
    },
  ]);
  expect(await open()).toBe(1);
});

test('a handler that completes the task of a gap closes the gap, and is named', async () => {
  await found('9');
  await handle('done');
  expect(await file.store.read.gaps()).toMatchObject([
    { closedBy: 'fill-gap', closedAt: new Date(START).toISOString() },
  ]);
  expect(await open()).toBe(0);
});

test('a handler that gives up leaves the gap open', async () => {
  await found('9');
  await handle('dead');
  expect(await open()).toBe(1);
});

test('a person closes a gap once, with a reason', async () => {
  await found('9');
  expect(await file.store.admin.closeGap(1, 'fetched by hand', START)).toBe(true);
  expect(await file.store.admin.closeGap(1, 'again', START)).toBe(false);
  expect(await file.store.admin.closeGap(7, 'none', START)).toBe(false);
  expect(await file.store.read.gaps()).toMatchObject([{ closedBy: 'fetched by hand' }]);
});

test('a gap without a known end is raised once, however often it is found', async () => {
  await found(null);
  await found(null);
  await found('9');
  expect(raised()).toEqual(['kit.gap·1']);
  expect(await file.store.read.gaps()).toMatchObject([{ id: 1, upTo: '9' }]);
});

test('a gap that was closed without a known end is raised again only when its end becomes known', async () => {
  await found(null);
  await handle('done');
  await found(null);
  await found(null);
  expect(raised()).toEqual(['kit.gap·1']);
  expect(await open()).toBe(0);
  await found('9');
  expect(raised()).toEqual(['kit.gap·1', 'kit.gap·2']);
  expect(await open()).toBe(1);
  await handle('done');
  expect(await open()).toBe(0);
});

test.each(['kit.gap:1', 'kit.gap·1', 'kit.gap%C2%B71', 'i:kit.gap·1'])(
  'E13: a delivery with the id %s does not replace the event of a gap',
  async (id) => {
    const body = { id, type: 'kit.gap', cursor: null, data: { 'kit.gap': { gap: 1 } } };
    await file.store.ingest.accept({ readings: [readDelivery(Buffer.from(JSON.stringify(body)))], now: START });
    await found('9');
    expect(raised()).toContain('kit.gap·1');
    expect(await open()).toBe(1);
    expect(await file.store.read.event('i:kit.gap·1', START)).toMatchObject({ event: { origin: 'kit' } });
  },
);
