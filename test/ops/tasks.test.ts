// Tasks over the ops port: what it lists, retries and discards, and how it refuses.
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import {
  SESSION,
  assertClear,
  claim,
  createOps,
  deliver,
  end,
  fanOut,
  statesOf,
  tasksIn,
  type Ops,
} from './harness.ts';

let ops: Ops;
beforeEach(async () => {
  ops = await createOps();
});
afterEach(() => ops.close());

describe('GET /api/tasks', () => {
  let a = 0;
  let b = 0;
  beforeEach(async () => {
    await deliver(ops, { cursor: '1' }, { cursor: '2' }, { cursor: '3' }, { cursor: '4' });
    [a = 0, b = 0] = await fanOut(ops, ['a', 'b']);
  });

  test('shows the newest task first, each with these fields', async () => {
    const reply = tasksIn(await ops.get('/api/tasks'));
    expect(reply.tasks.map(({ key, handler }) => `${key} ${handler}`)).toEqual([
      'c:4 b',
      'c:4 a',
      'c:3 b',
      'c:3 a',
      'c:2 b',
      'c:2 a',
      'c:1 b',
      'c:1 a',
    ]);
    expect(reply.next).toBeNull();
    expect(reply.tasks[0]).toEqual({
      id: expect.any(Number),
      key: 'c:4',
      type: 'MessageReceived',
      sessionId: SESSION,
      handler: 'b',
      lane: null,
      state: 'ready',
      attempts: 0,
      late: false,
      dueAt: expect.stringMatching(/Z$/),
      startedAt: null,
      finishedAt: null,
      error: null,
    });
  });

  test('filters by state, by handler, and by both', async () => {
    await end(ops, a, 'done');
    await end(ops, a, 'dead', 'broken');
    await end(ops, b, 'skipped', 'not mine');
    await claim(ops, b);
    expect(tasksIn(await ops.get('/api/tasks?state=dead')).tasks).toMatchObject([
      { handler: 'a', state: 'dead', error: 'broken', attempts: 1, finishedAt: expect.stringMatching(/Z$/) },
    ]);
    expect(statesOf(await ops.get('/api/tasks?state=skipped'))).toEqual(['skipped']);
    expect(statesOf(await ops.get('/api/tasks?state=done'))).toEqual(['done']);
    expect(statesOf(await ops.get('/api/tasks?state=running'))).toEqual(['running']);
    expect(statesOf(await ops.get('/api/tasks?state=ready'))).toEqual(['ready', 'ready', 'ready', 'ready']);
    expect(statesOf(await ops.get('/api/tasks?handler=a'))).toEqual(['ready', 'ready', 'dead', 'done']);
    expect(statesOf(await ops.get('/api/tasks?handler=a&state=ready'))).toEqual(['ready', 'ready']);
    expect(statesOf(await ops.get('/api/tasks?handler=nobody'))).toEqual([]);
  });

  test('separates held tasks from ready tasks', async () => {
    await deliver(ops, { cursor: '5' });
    await fanOut(ops, ['a'], { lane: 'x', releaseAt: ops.clock.time + 60_000 });
    expect(statesOf(await ops.get('/api/tasks?state=held'))).toEqual(['held']);
    expect(statesOf(await ops.get('/api/tasks?state=ready'))).toHaveLength(8);
  });

  test.each(['', 'state=ready', 'handler=a'])(
    'pages of ?%s follow each other, and no task is repeated or left out',
    async (filter) => {
      const all = tasksIn(await ops.get(`/api/tasks?${filter}`)).tasks.map(({ id }) => id);
      const seen: number[] = [];
      let before = '';
      for (let pages = 0; pages < 10; pages++) {
        const { tasks, next } = tasksIn(await ops.get(`/api/tasks?limit=3&${filter}${before}`));
        seen.push(...tasks.map(({ id }) => id));
        if (next === null) break;
        before = `&before=${next}`;
      }
      expect(seen).toEqual(all);
    },
  );

  test.each([
    ['limit=0', 'limit'],
    ['limit=501', 'limit'],
    ['before=x', 'before'],
    ['state=lost', 'state'],
    ['handler=a&handler=b', 'handler'],
  ])('?%s is 400, and the message names the field', async (query, field) => {
    assertClear(await ops.get(`/api/tasks?${query}`), 400, field);
  });
});

describe('POST /api/tasks/retry', () => {
  let handler = 0;
  let dead: number[];
  beforeEach(async () => {
    await deliver(ops, { cursor: '1' }, { cursor: '2' }, { cursor: '3' });
    [handler = 0] = await fanOut(ops, ['a']);
    dead = [await end(ops, handler, 'dead', 'broken'), await end(ops, handler, 'dead', 'broken')];
  });

  test('retries tasks by id, and notifies `run`', async () => {
    const reply = await ops.post('/api/tasks/retry', { ids: dead.slice(0, 1) });
    expect(reply).toMatchObject({ status: 200 });
    expect(reply.json()).toEqual({ retried: 1 });
    expect(ops.changes()).toBe(1);
    const { tasks } = await ops.store.read.status(ops.clock.time);
    expect(tasks).toMatchObject({ ready: 2, dead: 1 });
  });

  test('retries tasks by filter, with a new budget of attempts', async () => {
    expect((await ops.post('/api/tasks/retry', { filter: { state: 'dead', handler: 'a' } })).json()).toEqual({
      retried: 2,
    });
    const shown = tasksIn(await ops.get('/api/tasks?handler=a')).tasks;
    expect(shown.map(({ state, attempts }) => [state, attempts])).toEqual([
      ['ready', 0],
      ['ready', 0],
      ['ready', 0],
    ]);
  });

  test('done tasks run again only if they are named, with the state', async () => {
    const done = await end(ops, handler, 'done');
    expect((await ops.post('/api/tasks/retry', { ids: [done] })).json()).toEqual({ retried: 0 });
    expect((await ops.post('/api/tasks/retry', { ids: [done, ...dead], state: 'done' })).json()).toEqual({
      retried: 1,
    });
    expect((await ops.store.read.status(ops.clock.time)).tasks).toMatchObject({ ready: 1, dead: 2, done: 0 });
    assertClear(await ops.post('/api/tasks/discard', { ids: [done], state: 'done', reason: 'no' }), 400, 'run again');
  });

  test('tasks are selected by the time when their event was received', async () => {
    const receivedBefore = new Date(ops.clock.time - 1_000).toISOString();
    expect((await ops.post('/api/tasks/retry', { filter: { receivedBefore } })).json()).toEqual({ retried: 1 });
    const late = tasksIn(await ops.get('/api/tasks?older-than=1h')).tasks;
    ops.clock.time += 3_600_000;
    expect([late.length, tasksIn(await ops.get('/api/tasks?older-than=1h')).tasks.length]).toEqual([0, 2]);
    assertClear(await ops.get('/api/tasks?older-than=1w'), 400, 'must be a duration like 30m, 6h or 2d');
  });

  test('leaves running tasks alone, and ignores unknown ids', async () => {
    const running = await claim(ops, handler);
    expect((await ops.post('/api/tasks/retry', { ids: [running ?? 0, 999_999] })).json()).toEqual({ retried: 0 });
  });

  test.each<[string, object | string, string]>([
    ['nothing', {}, 'ids'],
    ['no ids', { ids: [] }, 'ids'],
    ['ids that are text', { ids: ['1'] }, 'ids'],
    ['half an id', { ids: [1.5] }, 'ids'],
    ['more than ten thousand ids', { ids: Array.from({ length: 10_001 }, (_, i) => i) }, 'ids'],
    ['both ids and filter', { ids: [1], filter: {} }, 'filter'],
    ['a filter with a field that is none', { filter: { handlers: 'a' } }, 'handlers'],
    ['a filter with a state that is none', { filter: { state: 'lost' } }, 'state'],
    ['done tasks without ids', { filter: { state: 'done' } }, 'named by id'],
    ['a state beside a filter', { filter: {}, state: 'done' }, 'state'],
    ['an array', [], 'ids'],
  ])('%s is 400, and the message says what is wrong', async (_, body, word) => {
    assertClear(await ops.post('/api/tasks/retry', body), 400, word);
    expect((await ops.store.read.status(ops.clock.time)).tasks.dead).toBe(2);
    expect(ops.changes()).toBe(0);
  });

  test.each<[string, string, Record<string, string>]>([
    ['no JSON', '{"ids":', {}],
    ['a bare word', 'retry', {}],
    ['a form', 'ids=1', { 'content-type': 'application/x-www-form-urlencoded' }],
    ['plain text', '{"ids":[1]}', { 'content-type': 'text/plain' }],
    ['nothing at all', '', {}],
  ])('%s is 400, and no task changes', async (_, body, headers) => {
    assertClear(await ops.post('/api/tasks/retry', body, headers), 400);
    expect((await ops.store.read.status(ops.clock.time)).tasks.dead).toBe(2);
  });

  test('more than a megabyte is refused', async () => {
    assertClear(await ops.post('/api/tasks/retry', { ids: [1], reason: 'x'.repeat(1_100_000) }), 413);
  });
});

describe('POST /api/tasks/discard', () => {
  let dead = 0;
  beforeEach(async () => {
    await deliver(ops, { cursor: '1' }, { cursor: '2' });
    const [handler = 0] = await fanOut(ops, ['a']);
    dead = await end(ops, handler, 'dead', 'broken');
  });

  test('discards tasks with a reason, which is stored with the task', async () => {
    const reply = await ops.post('/api/tasks/discard', { ids: [dead], reason: 'a duplicate by hand' });
    expect(reply.json()).toEqual({ discarded: 1 });
    expect(ops.changes()).toBe(1);
    expect(tasksIn(await ops.get('/api/tasks?state=skipped')).tasks).toMatchObject([
      { id: dead, error: expect.stringContaining('a duplicate by hand') },
    ]);
  });

  test('discards tasks by filter', async () => {
    expect((await ops.post('/api/tasks/discard', { filter: { handler: 'a' }, reason: 'gone' })).json()).toEqual({
      discarded: 2,
    });
  });

  test.each([{ ids: [1] }, { ids: [1], reason: '' }, { filter: { state: 'dead' } }])(
    'without a reason (%j) is 400, and no task changes',
    async (body) => {
      assertClear(await ops.post('/api/tasks/discard', body), 400, 'reason');
      expect((await ops.store.read.status(ops.clock.time)).tasks).toMatchObject({ dead: 1, ready: 1 });
    },
  );
});
