// What the contract says to a reader of GET /events (3.4, 4.4, 6.1): the reader itself, and with STREAM=on the follower
// that stores what it reads.
import { expect, onTestFinished, vi } from 'vitest';
import { createFollower } from '../../src/reconcile/stream.ts';
import { ServiceError } from '../../src/service/errors.ts';
import { readStream, type StreamItem, type StreamNews, type StreamOptions } from '../../src/service/stream.ts';
import { createSimulatedService } from '../../src/tools/simulator/service.ts';
import type { Cursor } from '../../src/wire/cursor.ts';
import { readDelivery, readItem } from '../../src/wire/event.ts';
import { createClock, createStoreFile, createTestLog } from '../store-file.ts';
import { holds } from './holds.ts';
import {
  API_KEY,
  cut,
  errorBody,
  html,
  refusal,
  sse,
  startService,
  stay,
  type Answer,
  type Message,
} from './scripted.ts';

const data = (cursor: string): object => ({
  MessageReceived: { message_id: `m${cursor}`, from: 'a', session_id: 's' },
});
const domain = (cursor: string): Message => ['domain', data(cursor), cursor];
const END: Message = ['end', {}];
const INVALID = refusal(400, 'VALIDATION_FAILED', 'EVENT_CURSOR_INVALID');
const REVOKED: Message = ['error', errorBody('UNAUTHENTICATED', 'API_AUTH_REVOKED')];
const REASONS = ['cursor_expired', 'buffer_limit', 'replay_limit', 'replay_incomplete', 'replay_unavailable'];

interface Until extends Partial<StreamOptions> {
  /** Reads until this many items have come. */
  items?: number;
  /** Reads until this many connections were lost. */
  losses?: number;
}

/** Gives one answer per connection. The waits are a thousandth of those that the contract asks for. */
async function read(answers: Answer[], { items: wanted = Infinity, losses = Infinity, ...options }: Until = {}) {
  const { url: baseUrl, calls } = await startService(...answers);
  const stop = new AbortController();
  const news: StreamNews[] = [];
  const items: StreamItem[] = [];
  const waits = (): number[] => news.flatMap((one) => (one.kind === 'lost' ? [one.waitMs] : []));
  const onNews = (one: StreamNews): void => {
    news.push(one);
    if (waits().length >= losses) stop.abort();
  };
  const stream = readStream({
    baseUrl,
    apiKey: API_KEY,
    after: null,
    signal: stop.signal,
    onNews,
    firstWaitMs: 1,
    ...options,
  });
  let error: unknown;
  try {
    for await (const some of stream) if (items.push(...some) >= wanted) break;
  } catch (thrown) {
    error = thrown;
  }
  const resumed = calls.map(({ headers }) => headers['last-event-id']);
  return { calls, items, cursors: items.map(({ cursor }) => cursor), news, waits: waits(), resumed, error };
}

/** The follower on a store whose watermark is 10. Each answer is for one connection. */
async function startFollower(answers: Answer[], more: { baseUrl?: string; apiKey?: string; fails?: string } = {}) {
  const file = createStoreFile();
  onTestFinished(file.remove);
  const { store, query } = file;
  const clock = createClock();
  const ten = readItem('replay', '10' as Cursor, JSON.stringify(data('10')));
  await store.ingest.accept({ readings: [ten], now: clock.now(), watermark: '10' as Cursor });
  const { url, calls } = await startService(...answers);
  const { baseUrl = url, apiKey = API_KEY, fails } = more;
  let failing = fails !== undefined;
  const accept: typeof store.ingest.accept = (batch) => {
    if (!failing) return store.ingest.accept(batch);
    failing = false;
    return Promise.reject(new Error(fails));
  };
  let holes = 0;
  const begin = () => {
    const stop = new AbortController();
    const follower = createFollower({
      store: { ...store, ingest: { ...store.ingest, accept } },
      clock,
      log: createTestLog().log,
      baseUrl,
      apiKey,
      types: ['*'],
      onEvents: () => {},
      onHole: () => void holes++,
      fresh: () => true,
      firstWaitMs: 1,
    });
    const following = follower.follow(stop.signal);
    onTestFinished(async () => {
      stop.abort();
      await following.catch(() => {});
    });
    return following;
  };
  return {
    store,
    calls,
    following: begin(),
    begin,
    holes: () => holes,
    stored: () =>
      query<{ cursor: string }>('select cast(cursor as text) as cursor from events order by events.cursor').map(
        ({ cursor }) => cursor,
      ),
    watermark: () => store.state.get('watermark'),
    state: () =>
      JSON.parse(query<{ value: string }>(`select value from state where name = 'stream'`)[0]?.value ?? '{}') as object,
    resumed: () => calls.map(({ headers }) => headers['last-event-id']),
  };
}

const until = (what: () => unknown): Promise<unknown> => vi.waitUntil(what, { timeout: 10_000, interval: 2 });

// 3.4

holds('3.4', 'the stream reader reconnects after a connection that ends by an end event', async () => {
  const { cursors, calls } = await read([sse(domain('1'), END), stay(domain('2'))], { items: 2 });
  expect([cursors, calls.length]).toEqual([['1', '2'], 2]);
});

holds('3.4', 'the stream reader takes no more events from a connection after its error event', async () => {
  const { error, cursors } = await read([sse(domain('1'), REVOKED, domain('2'))]);
  expect(cursors).toEqual(['1']);
  expect(error).toBeInstanceOf(ServiceError);
});

holds('3.4', 'the stream reader goes on after its last event when a connection ends or breaks', async () => {
  const { cursors, resumed } = await read([sse(domain('1')), cut, stay(domain('2'))], { items: 2 });
  expect(cursors).toEqual(['1', '2']);
  expect(resumed).toEqual([undefined, '1', '1']);
});

holds('3.4', 'the stream reader ends when the API key is revoked, and does not reconnect', async () => {
  const { error, calls } = await read([sse(REVOKED), stay()]);
  expect(error).toMatchObject({ code: 'UNAUTHENTICATED', reason: 'API_AUTH_REVOKED' });
  expect(calls).toHaveLength(1);
});

// 4.4

holds('4.4', 'the stream reader sends the cursor of the last processed event as Last-Event-ID', async () => {
  const { resumed } = await read([sse(domain('8'), domain('9')), stay(domain('10'))], {
    items: 3,
    after: '7' as Cursor,
  });
  expect(resumed).toEqual(['7', '9']);
});

holds('4.4', 'the stream reader sends Last-Event-ID alone, without after_cursor', async () => {
  const { calls } = await read([stay(domain('8'))], { items: 1, after: '7' as Cursor });
  expect(calls.map(({ path }) => path)).toEqual(['/v1/events']);
});

holds('4.4', 'the stream reader names no session_id, and so gets all numbers of the API key', async () => {
  const { calls } = await read([stay(domain('8'))], { items: 1, product: true });
  expect(calls.map(({ path }) => path)).toEqual(['/v1/events?include_product=true']);
});

holds('4.4', 'reconciliation opens the stream with include_product, for campaign and warm-up events', async () => {
  const { calls, watermark } = await startFollower([stay(domain('11'))]);
  await until(async () => (await watermark()) === '11');
  expect(calls.map(({ path }) => path)).toEqual(['/v1/events?include_product=true']);
});

holds(
  '4.4',
  'with an API key restricted to numbers, reconciliation opens the stream without include_product',
  async () => {
    const simulator = createSimulatedService({ seed: 1 });
    const [number = ''] = simulator.history.numbers;
    const { secret: apiKey } = simulator.keys.create({
      name: 'restricted',
      scopes: ['events:read'],
      numbers: [number],
      validDays: null,
    });
    const baseUrl = await simulator.listen();
    onTestFinished(() => simulator.close());
    const after = simulator.happen(1, 'MessageReceived', { sessionId: number })[0]?.cursor ?? '';
    const { store, stored, state } = await startFollower([], { baseUrl, apiKey });
    await store.ingest.accept({ readings: [], now: 0, watermark: after as Cursor });
    await until(() => simulator.streams.count() === 1);
    const [event] = simulator.happen(1, 'MessageReceived', { sessionId: number });
    await until(() => stored().includes(event?.cursor ?? ''));
    expect(state()).toMatchObject({ state: 'open', reason: expect.stringContaining('campaign') });
  },
);

// 5

holds('5.1', 'GET /events carries Authorization: Bearer <API_KEY>', async () => {
  const { calls } = await read([stay(domain('1'))], { items: 1 });
  expect(calls[0]?.headers).toMatchObject({ authorization: `Bearer ${API_KEY}`, accept: 'text/event-stream' });
});

for (const reason of ['API_AUTH_REQUIRED', 'API_AUTH_REVOKED'])
  holds('5.1', `the stream reader ends when GET /events gets 401 ${reason}, and does not reconnect`, async () => {
    const { error, calls } = await read([refusal(401, 'UNAUTHENTICATED', reason), stay()]);
    expect(error).toMatchObject({ code: 'UNAUTHENTICATED', reason, status: 401 });
    expect(calls).toHaveLength(1);
  });

holds('5.3', 'an API key without events:read stops the stream of reconciliation, and its state says why', async () => {
  const { following, state } = await startFollower([refusal(403, 'FORBIDDEN')]);
  await following;
  expect(state()).toMatchObject({ state: 'stopped', reason: expect.stringContaining('403') });
});

// 6.1

holds('6.1', 'the stream reader yields the data of a domain event exactly as they were sent', async () => {
  const text = '{"MessageReceived": {"n": 9007199254740993, "body": "a\\u0000 ação 🚀"}}';
  const body = `id: 5\nevent: domain\ndata: ${text}\n\n`;
  const { items } = await read([{ headers: { 'content-type': 'text/event-stream' }, body }], { items: 1 });
  expect(items).toEqual([{ cursor: '5', payload: text }]);
});

holds(
  '6.1',
  'the stream reader compares the id of a domain event as a 64-bit integer, and never rounds it',
  async () => {
    const cursors = ['9', '10', '9007199254740992', '9007199254740993', '9223372036854775807'];
    const { cursors: got, resumed } = await read([sse(...cursors.map(domain)), stay(domain('1'))], { items: 6 });
    expect(got.slice(0, 5)).toEqual(cursors);
    expect(resumed[1]).toBe('9223372036854775807');
  },
);

holds('6.1', 'an event that the stream and a webhook bring is one event', async () => {
  const { store, stored } = await startFollower([stay(domain('11'))]);
  await until(() => stored().includes('11'));
  const body = {
    id: 'e11',
    type: 'MessageReceived',
    created_at: '2026-01-01T00:00:00Z',
    cursor: '11',
    data: data('11'),
  };
  const reading = readDelivery(Buffer.from(JSON.stringify(body)));
  expect(await store.ingest.accept({ readings: [reading], now: 0 })).toMatchObject([{ verdict: 'duplicate' }]);
  expect(stored()).toEqual(['10', '11']);
});

holds('6.1', 'a ping of the stream stores no event and moves no cursor', async () => {
  const { watermark, stored, resumed } = await startFollower([
    sse(['ping', { t: 1 }, '500'], domain('11'), ['ping', { t: 2 }]),
    stay(),
  ]);
  await until(() => resumed().length === 2);
  expect([stored(), await watermark(), resumed()]).toEqual([['10', '11'], '11', ['10', '11']]);
});

holds('6.1', 'the stream reader ends a connection only after more than 25 seconds without a ping', async () => {
  const timer = vi.spyOn(globalThis, 'setTimeout');
  onTestFinished(() => timer.mockRestore());
  await read([stay(domain('1'))], { items: 1 });
  const limits = timer.mock.calls.flatMap(([, ms = 0]) => (ms > 20_000 ? [ms] : []));
  expect(limits.length).toBeGreaterThan(0);
  expect(Math.min(...limits)).toBeGreaterThan(25_000);
});

holds('6.1', 'an event name that the contract does not list changes nothing in the stream', async () => {
  const { cursors, news } = await read([stay(domain('1'), ['later', { any: 'thing' }, '9'], domain('2'))], {
    items: 2,
  });
  expect(cursors).toEqual(['1', '2']);
  expect(news).toEqual([{ kind: 'open', after: null }]);
});

for (const reason of REASONS)
  holds('6.1', `after refresh ${reason} replay reads what the stream left out, and the stream goes on`, async () => {
    const { holes, stored, watermark } = await startFollower([stay(['refresh', { reason }], domain('12'))]);
    await until(() => stored().includes('12'));
    expect(holes()).toBe(1);
    expect(await watermark(), 'event 11 may be missing').toBe('10');
  });

holds('6.1', 'the stream reader ends with the error of the error event API_AUTH_REVOKED', async () => {
  const { error, calls } = await read([sse(REVOKED)]);
  expect(error).toMatchObject({ code: 'UNAUTHENTICATED', reason: 'API_AUTH_REVOKED', requestId: 'r-1' });
  expect(calls).toHaveLength(1);
});

holds('6.1', 'after the error event API_AUTH_REVOKED reconciliation does not open the stream again', async () => {
  const { following, calls, state } = await startFollower([
    sse(domain('11'), REVOKED),
    refusal(401, 'UNAUTHENTICATED', 'API_AUTH_REVOKED'),
  ]);
  await following;
  expect(state()).toMatchObject({ state: 'stopped', reason: expect.stringContaining('API_AUTH_REVOKED') });
  expect(calls).toHaveLength(1);
});

holds('6.1', 'after an error event that may pass, such as UNAVAILABLE, the stream reader reconnects', async () => {
  const unwell: Message = ['error', errorBody('UNAVAILABLE', 'EVENT_STREAM_UNAVAILABLE')];
  const { cursors, resumed } = await read([sse(domain('1'), unwell), stay(domain('2'))], { items: 2 });
  expect([cursors, resumed]).toEqual([
    ['1', '2'],
    [undefined, '1'],
  ]);
});

holds('6.1', 'after an end event the stream reader waits and reconnects', async () => {
  const { calls, waits } = await read([sse(END), stay(domain('1'))], { items: 1 });
  expect([calls.length, waits.length]).toEqual([2, 1]);
});

holds('6.1', 'a stream that is opened again with the last cursor loses no event and stores none twice', async () => {
  const { stored, watermark, resumed } = await startFollower([
    sse(domain('11'), domain('12')),
    sse(domain('13'), END),
    stay(domain('14')),
  ]);
  await until(() => stored().includes('14'));
  expect(stored()).toEqual(['10', '11', '12', '13', '14']);
  expect([await watermark(), resumed()]).toEqual(['14', ['10', '12', '13']]);
});

holds('6.1', 'an event of the stream whose commit failed is asked for again', async () => {
  const { following, begin, stored, resumed } = await startFollower([sse(domain('11')), stay(domain('11'))], {
    fails: 'no commit',
  });
  await expect(following).rejects.toThrow('no commit');
  void begin();
  await until(() => stored().includes('11'));
  expect(resumed()).toEqual(['10', '10']);
});

holds('6.1', 'the stream reader reconnects after 1 s, 2 s, 4 s up to 30 s', async () => {
  const { waits } = await read([html(503)], { losses: 7 });
  expect(waits).toEqual([1, 2, 4, 8, 16, 30, 30]);
  const { waits: real } = await read([html(503)], { losses: 1, firstWaitMs: undefined });
  expect(real).toEqual([1_000]);
});

holds('6.1', 'an event that the stream brings twice is one event', async () => {
  const { stored, store } = await startFollower([sse(domain('11'), domain('11')), stay(domain('11'), domain('12'))]);
  await until(() => stored().includes('12'));
  expect(stored()).toEqual(['10', '11', '12']);
  expect((await store.read.status(0)).conflicts).toBe(0);
});

holds('6.1', 'the stream reader ends when its cursor is refused with EVENT_CURSOR_INVALID', async () => {
  const { error, calls } = await read([INVALID], { after: '7' as Cursor });
  expect(error).toMatchObject({ code: 'VALIDATION_FAILED', reason: 'EVENT_CURSOR_INVALID' });
  expect(calls).toHaveLength(1);
});

holds('7.1', 'an error after the stream is open arrives as event: error with the standard body', async () => {
  const { error } = await read([sse(['error', errorBody('FORBIDDEN')])]);
  expect(error).toMatchObject({ code: 'FORBIDDEN', reason: null, requestId: 'r-1' });
});

holds('7.4', 'after EVENT_STREAM_UNAVAILABLE the stream reader reconnects with Last-Event-ID', async () => {
  const unavailable = refusal(503, 'UNAVAILABLE', 'EVENT_STREAM_UNAVAILABLE');
  const { cursors, resumed } = await read([unavailable, stay(domain('8'))], { items: 1, after: '7' as Cursor });
  expect([cursors, resumed]).toEqual([['8'], ['7', '7']]);
});

holds('7.4', 'after EVENT_CURSOR_INVALID the stream goes on with new events, and replay reads the others', async () => {
  const { holes, stored, watermark, resumed } = await startFollower([INVALID, stay(domain('12'))]);
  await until(() => stored().includes('12'));
  expect([holes(), await watermark(), resumed()]).toEqual([1, '10', ['10', undefined]]);
});

holds('8', 'the stream reader opens at most 10 connections a minute, however often they fail', async () => {
  const { waits } = await read([refusal(429, 'RATE_LIMITED', 'RATE_LIMITED')], { losses: 8 });
  const seconds = waits.map((_, i) => waits.slice(0, i + 1).reduce((sum, wait) => sum + wait, 0));
  expect(1 + seconds.filter((at) => at < 60).length).toBeLessThanOrEqual(10);
});

holds('8', 'the stream reader loses none of 20 thousand events that are resent on reconnect', async () => {
  const cursors = Array.from({ length: 20_000 }, (_, i) => String(i + 8));
  const { cursors: got } = await read([stay(...cursors.map(domain))], { items: 20_000, after: '7' as Cursor });
  expect(got).toEqual(cursors);
});

holds('8', 'after a 429 the stream reader waits with random variation', async () => {
  const { waits } = await read([refusal(429, 'RATE_LIMITED', 'RATE_LIMITED')], { losses: 7 });
  expect(waits).toHaveLength(7);
  expect(waits).not.toEqual([1, 2, 4, 8, 16, 30, 30]);
});
