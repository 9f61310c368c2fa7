// GET /api/events, and of one event: what they show, how they page, filter and refuse.
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import {
  OTHER_SESSION,
  SESSION,
  assertClear,
  claim,
  createOps,
  deliver,
  end,
  eventsIn,
  fanOut,
  keysOf,
  type Ops,
} from './harness.ts';

let ops: Ops;
beforeEach(async () => {
  ops = await createOps();
});
afterEach(() => ops.close());

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
