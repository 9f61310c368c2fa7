// Which events become tasks of which handlers and lanes, with a real store.
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import type { Cursor } from '../../src/wire/cursor.ts';
import { createFolder, createStore, delivery, T0, until } from './fixture.ts';
import { noting, stage } from './stage.ts';

test('an event that was erased before it was fanned out gets no task, and delays no other event', async () => {
  const store = createStore();
  const readings = [delivery({ cursor: 1 }), delivery({ cursor: 2, data: { of: 'theirs' } }), delivery({ cursor: 3 })];
  await store.ingest.accept({ readings, now: T0 });
  await store.admin.eraseEvents((body) => Buffer.from(body).includes('theirs'), 0, 10, T0, false);
  const { handler, handled } = noting({ order: 'arrival' });
  const { rest, tasks } = await stage([handler], {}, store);
  await rest();
  expect(handled).toEqual(['c:1', 'c:3']);
  expect(await tasks()).toMatchObject({ done: 2, dead: 0 });
});

test('E60: a handler whose file is fixed catches up in order, page by page, while others go on and events arrive', async () => {
  const store = createStore();
  const MISSED = 700;
  const files = { of: new Map([['mine', '/h/mine.ts']]), broken: [] };
  const other = noting({ name: 'other', order: 'arrival', lane: 'none' });
  const mine = noting({ name: 'mine', order: 'arrival' });
  const before = await stage([mine.handler, other.handler], { files }, store);
  await before.accept({ cursor: 1 });
  await before.rest();
  await before.runner.drain(0);

  const without = await stage([other.handler], { files: { of: new Map(), broken: ['/h/mine.ts'] } }, store);
  await without.accept(...Array.from({ length: MISSED }, (_, n) => ({ cursor: n + 2 })));
  await without.rest();
  await without.runner.drain(0);
  expect(mine.handled).toEqual(['c:1']);

  const after = await stage([mine.handler, other.handler], { files }, store);
  for (let n = 1; n <= 50; n++) await after.accept({ cursor: MISSED + 1 + n });
  const all = Array.from({ length: MISSED + 51 }, (_, n) => `c:${n + 1}`);
  await until(() => mine.handled.length >= all.length && other.handled.length >= all.length, 'all to be handled');
  expect(mine.handled).toEqual(all);
  expect(new Set(other.handled).size).toBe(all.length);
});

describe('fan-out', () => {
  test('an event becomes a task of each handler that wants it, and no task if none does', async () => {
    const all = noting({ name: 'all', order: 'arrival' });
    const some = noting({ name: 'some', order: 'arrival', on: new Set(['Other']) });
    const { accept, rest, tasks } = await stage([all.handler, some.handler]);
    await accept({ cursor: 1 }, { cursor: 2, type: 'Other' });
    await until(() => all.handled.length === 2 && some.handled.length === 1);
    await rest();
    expect(await tasks()).toMatchObject({ done: 3 });
  });

  test('without handlers events are stored and get no tasks', async () => {
    const { accept, store, rest, tasks } = await stage([]);
    await accept({ cursor: 1 });
    await rest();
    expect((await store.read.status(T0)).unassigned).toBe(0);
    expect(await tasks()).toMatchObject({ held: 0, ready: 0, done: 0 });
  });

  test('a new handler starts at the current event', async () => {
    const path = join(createFolder(), 'events.db');
    const first = await stage([noting({ order: 'arrival' }).handler], {}, createStore(path));
    await first.accept({ cursor: 1 });
    await until(async () => (await first.tasks()).done === 1);
    await first.runner.drain(0);
    const fresh = noting({ name: 'fresh', order: 'arrival' });
    const second = await stage([noting({ order: 'arrival' }).handler, fresh.handler], { boot: 2 }, createStore(path));
    await second.accept({ cursor: 2 });
    await until(() => fresh.handled.length > 0);
    await second.rest();
    expect(fresh.handled).toEqual(['c:2']);
  });

  test('a lane function that throws is reported, and the session is the lane', async () => {
    let faults = 0;
    const lane = (): string => {
      throw new Error('no');
    };
    const { handler, handled } = noting({ lane, order: 'arrival' });
    const { accept, store } = await stage([handler], { onLaneFault: () => faults++ });
    await accept({ cursor: 1, session: 'mine' });
    await until(() => handled.length === 1);
    expect(faults).toBe(1);
    expect((await store.read.tasks({}, T0)).tasks).toMatchObject([{ lane: 'mine' }]);
  });

  test('a lane function that returns no string is named with its line, and the type of what it returned', async () => {
    const { handler, handled } = noting({ lane: () => 42 as unknown as string, order: 'arrival' });
    const file = import.meta.filename;
    const { accept, lines } = await stage([{ ...handler, file }]);
    await accept({ cursor: 1, session: 'mine' });
    await until(() => handled.length === 1);
    const [line] = lines.filter(({ msg }) => String(msg).startsWith('lane function'));
    expect(line?.['msg']).toBe(
      'lane function returned a value of type number, not a string; using the session as lane',
    );
    expect(line?.['at']).toMatch(/fan-out\.test\.ts:\d+$/);
  });

  test.each([
    ['a lone surrogate', '\ud800', '\ufffd'],
    ['a NUL', 'a\0b', 'a\ufffdb'],
    ['a pair of surrogates at the end of its longest name', `${'x'.repeat(499)}\u{1f600}`, `${'x'.repeat(499)}\ufffd`],
  ])('a lane whose name has %s has the name that the store can keep', async (_, name, kept) => {
    const { handler, handled } = noting({ lane: (event) => String(event.data['lane']), order: 'arrival' });
    const { accept, store, rest } = await stage([handler]);
    await accept({ cursor: 1, data: { lane: name } }, { cursor: 2, data: { lane: name } });
    await rest();
    expect(handled).toEqual(['c:1', 'c:2']);
    expect((await store.read.tasks({}, T0)).tasks).toMatchObject([{ lane: kept }, { lane: kept }]);
  });

  test.each(['\ud800', 'a\0b'])('a session that a store would change is none: %j', async (session) => {
    const { handler, handled } = noting({ lane: 'session', order: 'strict' });
    const { accept, store, rest } = await stage([handler]);
    await accept({ cursor: 1, session, data: { session_id: session } });
    await store.ingest.accept({ readings: [], now: T0, watermark: '1' as Cursor });
    await rest();
    expect(handled).toEqual(['c:1']);
    expect((await store.read.tasks({}, T0)).tasks).toMatchObject([{ lane: '' }]);
  });
});
