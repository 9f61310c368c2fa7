// Every route of the ops port: what it shows, how it pages, what it changes, and how it refuses.
import { UNREADABLE_TARGETS } from '../receive/harness.ts';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import {
  INSTANCES,
  NOTHING_SET,
  OTHER_SESSION,
  SESSION,
  fanOut,
  claim,
  createOps,
  deliver,
  end,
  share,
  type Ops,
  type Reply,
} from './harness.ts';

let ops: Ops;
beforeEach(async () => {
  ops = await createOps();
});
afterEach(() => ops.close());

interface Events {
  events: { key: string; seq: number; [field: string]: unknown }[];
  next: number | null;
}
interface Tasks {
  tasks: { id: number; key: string; handler: string; state: string; [field: string]: unknown }[];
  next: number | null;
}
const eventsIn = (reply: Reply) => reply.json() as Events;
const tasksIn = (reply: Reply) => reply.json() as Tasks;
const keysOf = (reply: Reply) => eventsIn(reply).events.map(({ key }) => key);
const statesOf = (reply: Reply) => tasksIn(reply).tasks.map(({ state }) => state);

const beat = (role: string) => ops.store.processes.beat({ role, pid: 1, started: '', boot: 1 }, ops.clock.time);

/** Expects an error that people understand: JSON, one line, no stack, no path of a file. */
function assertClear(reply: Reply, status: number, ...words: string[]): void {
  expect(reply.status).toBe(status);
  const { error } = reply.json() as { error: string };
  for (const word of words) expect(error).toContain(word);
  expect(error).not.toMatch(/\n|\bat \w+ \(|\.ts\b|node_modules|SQLITE|ZodError/);
}

test.each(UNREADABLE_TARGETS)(
  'E86: a target that cannot be parsed (%s) gets 400, without a log line',
  async (target) => {
    expect((await ops.get(target)).status).toBe(400);
    expect((await ops.post(target)).status).toBe(400);
    expect(ops.text()).toBe('');
  },
);

describe('probes', () => {
  test('/livez is 200 as long as the process answers', async () => {
    expect(await ops.get('/livez')).toMatchObject({ status: 200, text: 'alive\n' });
  });

  test('/readyz is 200 while `receive` shows signs of life', async () => {
    await beat('receive');
    expect(await ops.get('/readyz')).toMatchObject({ status: 200, text: 'ready\n' });
  });

  test('/readyz is 503 if `receive` never ran, and if it shows no sign of life any more', async () => {
    expect((await ops.get('/readyz')).status).toBe(503);
    await beat('receive');
    ops.clock.time += 60_000;
    expect((await ops.get('/readyz')).status).toBe(503);
  });
});

describe('GET /api/status', () => {
  test('has exactly these fields for an empty store', async () => {
    expect((await ops.get('/api/status')).json()).toEqual({
      events: 0,
      unassigned: 0,
      undecided: 0,
      duplicates: 0,
      quarantined: 0,
      conflicts: 0,
      tasks: { held: 0, ready: 0, running: 0, done: 0, skipped: 0, dead: 0 },
      oldestReadySeconds: null,
      watermark: null,
      floor: null,
      newestCursor: null,
      reconcile: { state: 'off', since: null, lastAt: null, reason: null, progress: null, recovered: 0 },
      stream: { state: 'off', since: null, reason: null },
      gaps: 0,
      failureRun: 0,
      failures: { causes: {}, badSignatures: 0, badSince: null, lastBadAt: null },
      lastDeliveryAt: null,
      secrets: [],
      alarms: [],
      processes: { receive: 'down', run: 'down', keep: 'down' },
      instances: [],
      waiting: [],
      moving: null,
      paused: [],
    });
  });

  test('has the same fields, with values, for a store in use', async () => {
    const at = '2026-01-01T12:00:00.000Z';
    await deliver(ops, { cursor: '9007199254740993' }, { cursor: '5' }, { cursor: '6' }, { cursor: '5' });
    const [handler = 0] = await fanOut(ops, ['a']);
    await end(ops, handler, 'dead', 'broken');
    await end(ops, handler, 'done');
    await deliver(ops, { cursor: '7' });
    const unreadable = { origin: 'webhook' as const, cursor: null, body: Buffer.from('?'), reason: 'not JSON' };
    await ops.store.ingest.accept({ readings: [{ unreadable }], now: ops.clock.time, watermark: '6' as never });
    await ops.store.state.note(
      {},
      {
        failure_run: 2,
        replay: JSON.stringify({ state: 'idle', lastAt: at, reason: null }),
        failures: JSON.stringify({
          causes: { store: 2 },
          badSignatures: 1,
          badSince: at,
          lastBadAt: at,
          lastGoodAt: at,
        }),
        signers: JSON.stringify([
          { fingerprint: 'old', number: null, hits: 9, lastAt: 0, mayGo: false },
          { fingerprint: 'new', number: 1, hits: 3, lastAt: Date.parse(at), mayGo: false },
        ]),
      },
    );
    await ops.store.alarms.raise('gap_open', 'one', ops.clock.time);
    for (const role of ['receive', 'run']) await beat(role);
    ops.clock.time += 2_000;
    const reply = await ops.get('/api/status');
    expect(reply.headers['content-type']).toMatch(/^application\/json/);
    expect(reply.json()).toEqual({
      events: 4,
      unassigned: 1,
      undecided: 0,
      duplicates: 1,
      quarantined: 1,
      conflicts: 1,
      tasks: { held: 0, ready: 1, running: 0, done: 1, skipped: 0, dead: 1 },
      oldestReadySeconds: expect.any(Number),
      watermark: '6',
      floor: null,
      newestCursor: '9007199254740993',
      reconcile: { state: 'idle', lastAt: '2026-01-01T12:00:00.000Z', reason: null, recovered: 0 },
      stream: { state: 'off', since: null, reason: null },
      gaps: 0,
      failureRun: 2,
      failures: { causes: { store: 2 }, badSignatures: 1, badSince: at, lastBadAt: at },
      lastDeliveryAt: at,
      secrets: [{ number: 1, hits: 3, lastAt: at, mayGo: false }],
      alarms: [{ name: 'gap_open', since: expect.stringMatching(/^2026-.*Z$/), detail: 'one' }],
      processes: { receive: 'up', run: 'up', keep: 'down' },
      instances: [],
      waiting: [],
      moving: null,
      paused: [],
    });
  });

  test('has the instances that share the store, with times in ISO 8601', async () => {
    await share(ops, INSTANCES);
    expect((await ops.get('/api/status')).json()).toMatchObject({ instances: INSTANCES });
  });
});

describe('GET /api/events', () => {
  beforeEach(() =>
    deliver(
      ops,
      { cursor: '1' },
      { cursor: '2', type: 'MessageSent' },
      { cursor: '3', session: OTHER_SESSION },
      { cursor: null, id: 'ping-1', type: 'webhook.ping', data: { message: 'hello' } },
      { cursor: '4' },
    ),
  );

  test('shows the newest event first, each with its fields but without its body', async () => {
    const reply = await ops.get('/api/events');
    expect(keysOf(reply)).toEqual(['c:4', 'i:ping-1', 'c:3', 'c:2', 'c:1']);
    expect(eventsIn(reply).next).toBeNull();
    expect(eventsIn(reply).events[0]).toEqual({
      seq: 5,
      key: 'c:4',
      id: 'e4',
      cursor: '4',
      type: 'MessageReceived',
      sessionId: SESSION,
      createdAt: '2026-01-01T12:00:05.000Z',
      receivedAt: '2026-01-01T12:00:05.000Z',
      origin: 'webhook',
      copies: 0,
      flags: '',
      bytes: expect.any(Number),
      outcomes: [],
    });
    expect(reply.text).not.toContain('message 4');
  });

  test.each([
    ['type=MessageSent', ['c:2']],
    [`session=${OTHER_SESSION}`, ['c:3']],
    [`type=MessageReceived&session=${SESSION}`, ['c:4', 'c:1']],
    ['type=Nothing', []],
    ['q=c:3', ['c:3']],
    ['q=3', ['c:3']],
    ['q=e3', ['c:3']],
    ['q=i:ping-1', ['i:ping-1']],
    ['q=nobody', []],
    [`q=${encodeURIComponent(`' or 1=1 --`)}`, []],
    [`type=${encodeURIComponent(`' or 1=1 --`)}`, []],
    ['limit=2', ['c:4', 'i:ping-1']],
    ['before=3&limit=2', ['c:2', 'c:1']],
  ])('?%s', async (query, keys) => {
    expect(keysOf(await ops.get(`/api/events?${query}`))).toEqual(keys);
  });

  test('?state= shows events with a task in that state', async () => {
    const [handler = 0] = await fanOut(ops, ['a']);
    await end(ops, handler, 'done');
    await end(ops, handler, 'dead', 'broken');
    await claim(ops, handler);
    expect(keysOf(await ops.get('/api/events?state=done'))).toEqual(['c:1']);
    expect(keysOf(await ops.get('/api/events?state=dead'))).toEqual(['c:2']);
    expect(keysOf(await ops.get('/api/events?state=running'))).toEqual(['c:3']);
    expect(keysOf(await ops.get('/api/events?state=ready'))).toEqual(['c:4', 'i:ping-1']);
    expect(keysOf(await ops.get('/api/events?state=skipped'))).toEqual([]);
  });

  test('?state=held shows events whose task is not released yet', async () => {
    await fanOut(ops, ['a'], { releaseAt: ops.clock.time + 60_000 });
    expect(keysOf(await ops.get('/api/events?state=held'))).toHaveLength(5);
    expect(keysOf(await ops.get('/api/events?state=ready'))).toEqual([]);
  });

  test('pages follow each other by `next`, and no event is repeated or left out', async () => {
    const seen: string[] = [];
    let before = '';
    for (let pages = 0; pages < 10; pages++) {
      const reply = await ops.get(`/api/events?limit=2${before}`);
      seen.push(...keysOf(reply));
      const { next } = eventsIn(reply);
      if (next === null) break;
      before = `&before=${next}`;
    }
    expect(seen).toEqual(['c:4', 'i:ping-1', 'c:3', 'c:2', 'c:1']);
  });

  test.each([
    ['limit=0', 'limit'],
    ['limit=501', 'limit'],
    ['limit=-1', 'limit'],
    ['limit=1.5', 'limit'],
    ['limit=many', 'limit'],
    ['before=0', 'before'],
    ['before=soon', 'before'],
    ['before=99999999999999999999', 'before'],
    ['state=lost', 'state'],
    ['type=a&type=b', 'type'],
    ['q=a&q=b', 'q'],
  ])('?%s is 400, and the message names the field', async (query, field) => {
    assertClear(await ops.get(`/api/events?${query}`), 400, field);
  });

  test('several faults are named at once', async () => {
    assertClear(await ops.get('/api/events?limit=0&state=lost'), 400, 'limit', 'state');
  });
});

describe('GET /api/events/<key>', () => {
  test.each(['c:5', '5', 'i:e5', 'e5'])('%s finds the event with its tasks and conflicts', async (key) => {
    await deliver(ops, { cursor: '5' }, { cursor: '5', id: 'e5-again', data: { other: true } });
    await fanOut(ops, ['a']);
    const found = (await ops.get(`/api/events/${key}`)).json() as object;
    expect(found).toMatchObject({
      event: { key: 'c:5', id: 'e5', createdAt: expect.stringMatching(/Z$/), receivedAt: expect.stringMatching(/Z$/) },
      conflicts: [
        {
          at: expect.stringMatching(/Z$/),
          origin: 'webhook',
          id: 'e5-again',
          cursor: '5',
          reason: 'its cursor was known with another id and other data',
        },
      ],
      tasks: [{ handler: 'a', state: 'ready', key: 'c:5', attempts: 0, error: null }],
    });
    expect(Object.keys(found).toSorted()).toEqual([
      'aliases',
      'attempts',
      'conflicts',
      'deliveries',
      'erased',
      'event',
      'sightings',
      'tasks',
    ]);
  });

  test('?contradicted shows events that another arrival contradicts', async () => {
    await deliver(ops, { cursor: '4' }, { cursor: '5' }, { cursor: '5', id: 'e5-again', data: { other: true } });
    expect(keysOf(await ops.get('/api/events?contradicted=1'))).toEqual(['c:5']);
  });

  test('a second webhook’s id is shown as an alias and finds the same event', async () => {
    const data = { same: 1 };
    await deliver(ops, { cursor: '5', data }, { cursor: '5', id: 'twin', data });
    expect((await ops.get('/api/events/twin')).json()).toMatchObject({ event: { key: 'c:5' }, aliases: ['i:twin'] });
  });

  test('an id with reserved characters is found if it is percent-encoded', async () => {
    await deliver(ops, { cursor: null, id: 'a/b?c=%20#d', type: 'webhook.ping', data: { message: '' } });
    expect((await ops.get(`/api/events/${encodeURIComponent('i:a/b?c=%20#d')}`)).status).toBe(200);
  });

  test.each(['c:77', 'i:nobody', '77', 'c:9223372036854775808', encodeURIComponent(`' or 1=1 --`), '..%2f..%2fetc'])(
    '%s is 404, with a clear message',
    async (key) => {
      await deliver(ops, { cursor: '5' });
      assertClear(await ops.get(`/api/events/${key}`), 404, 'no event');
    },
  );

  test('a path that is not UTF-8 is an error of the client, not of the server', async () => {
    const reply = await ops.get('/api/events/%E0%A4%A');
    expect(reply.status).toBeGreaterThanOrEqual(400);
    expect(reply.status).toBeLessThan(500);
  });
});

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

test('POST /api/reconcile stores the time of the request', async () => {
  const reply = await ops.post('/api/reconcile');
  expect(reply.status).toBe(202);
  expect(reply.json()).toEqual({ asked: new Date(ops.clock.time).toISOString() });
  expect(await ops.store.state.get('reconcile_asked')).toBe(ops.clock.time);
});

test('GET /api/quarantine shows quarantined rows, newest first, without their bytes', async () => {
  const keep = (body: string, cursor: string | null) =>
    ops.store.ingest.accept({
      readings: [
        { unreadable: { origin: 'replay', cursor: cursor as never, body: Buffer.from(body), reason: 'not JSON' } },
      ],
      now: ops.clock.time,
    });
  await keep('<script>alert(1)</script>', null);
  await keep('another one', '7');
  const reply = await ops.get('/api/quarantine');
  expect(reply.json()).toEqual({
    quarantine: [
      { id: 2, receivedAt: expect.stringMatching(/Z$/), origin: 'replay', cursor: '7', reason: 'not JSON', bytes: 11 },
      { id: 1, receivedAt: expect.stringMatching(/Z$/), origin: 'replay', cursor: null, reason: 'not JSON', bytes: 25 },
    ],
  });
  expect(reply.text).not.toContain('script');
});

describe('every answer', () => {
  test.each(['/livez', '/api/status', '/api/events?limit=0', '/metrics', '/nowhere'])(
    '%s forbids caching and content sniffing',
    async (path) => {
      const { headers } = await ops.get(path);
      expect(headers).toMatchObject({ 'cache-control': 'no-store', 'x-content-type-options': 'nosniff' });
    },
  );

  test('an unknown path is 404', async () => {
    for (const path of ['/api', '/api/event', '/API/status', '/api/secrets', '/api/tasks/retry']) {
      expect([404, 405]).toContain((await ops.get(path)).status);
    }
  });

  test('an unknown address of a page links to the overview; without a token, all addresses get the same answer', async () => {
    for (const path of ['/nowhere', '/events/c%3A1/more', '/refused/17', '/dead-letters/retry']) {
      const { status, text } = await ops.get(path);
      expect(status, path).toBe(path.endsWith('retry') ? 405 : 404);
      expect(text).toContain('<a href="/">Overview</a>');
    }
    expect((await ops.get('/api/nowhere')).text).toBe('Not Found');
    const closed = await createOps({ ...NOTHING_SET, OPS_TOKEN: 'changes-0123456789' });
    expect((await closed.get('/nowhere')).text).toBe(
      (await closed.get('/nothing')).text.replace('/nothing', '/nowhere'),
    );
    expect((await closed.get('/nowhere')).status).toBe(401);
    await closed.close();
  });

  test('another method is 405, and changes nothing', async () => {
    for (const method of ['POST', 'PUT', 'DELETE', 'PATCH']) {
      expect((await ops.send(method, '/api/status')).status).toBe(405);
    }
    expect((await ops.get('/api/reconcile')).status).toBe(405);
    expect(await ops.store.state.get('reconcile_asked')).toBe(0);
  });

  test('F6: while the store is locked, a change is 503 and says why; reading goes on', async () => {
    ops.exec('begin immediate');
    assertClear(await ops.post('/api/reconcile'), 503, 'locked');
    expect((await ops.get('/api/status')).status).toBe(200);
    ops.exec('rollback');
  });

  test('F6: while the store is locked, a form leads back to its page, which says that nothing was done', async () => {
    const origin = `http://127.0.0.1:${ops.port}`;
    const headers = {
      origin,
      referer: `${origin}/dead-letters?group=1`,
      'content-type': 'application/x-www-form-urlencoded',
    };
    ops.exec('begin immediate');
    const reply = await ops.send('POST', '/reconciliation/now', headers);
    ops.exec('rollback');
    expect([reply.status, reply.headers['location']]).toEqual([303, '/dead-letters?group=1']);
    const cookie = String(reply.headers['set-cookie']).split(';')[0] ?? '';
    expect((await ops.get('/dead-letters', { cookie })).text).toMatch(/role="status">Not done.* Try again in a moment/);
  });

  test('a bug is 500 without a stack, and it is logged', async () => {
    ops.exec('drop table quarantine');
    const reply = await ops.get('/api/quarantine');
    assertClear(reply, 500, 'see the log');
    expect(ops.text()).toContain('an ops request failed');
  });

  test('I78: hostile text in an event comes back as JSON, byte for byte', async () => {
    const session = '<img src=x onerror=alert(1)>\u202e\u001b]0;x\u0007=cmd|1';
    await deliver(ops, { cursor: '1', session });
    const reply = await ops.get('/api/events');
    expect(reply.headers['content-type']).toMatch(/^application\/json/);
    expect(eventsIn(reply).events[0]?.['sessionId']).toBe(session);
  });
});
