// The stream beside webhooks and replay, on a real store. Stream and replay raise the watermark, but never past an
// event that is not stored. No order of lost connections, refusals, refreshes and cut-off events changes that.
import { setImmediate as turn } from 'node:timers/promises';
import * as fc from 'fast-check';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { createFollower, type FollowerOptions } from '../../src/reconcile/stream.ts';
import type { Ended } from '../../src/reconcile/pass.ts';
import { createSimulatedService } from '../../src/tools/simulator/service.ts';
import type { Cursor } from '../../src/wire/cursor.ts';
import { tries } from '../cases.ts';
import { API_KEY, failure, item, page, type Item } from './replay-server.ts';
import { createClock, createRig, createStoreFile, createTestLog, INTERVAL_MS } from './harness.ts';
import { startStreamServer } from './stream-server.ts';

const until = (holds: () => unknown) => vi.waitUntil(holds, { timeout: 10_000, interval: 2 });
const REASONS = ['cursor_expired', 'buffer_limit', 'replay_limit', 'replay_incomplete', 'replay_unavailable'];
const INVALID = failure(400, 'VALIDATION_FAILED', 'EVENT_CURSOR_INVALID');

/** The follower, a reconciler and a store, with a stream server and a replay server that have the same events. */
async function begin(more: Partial<FollowerOptions> = {}) {
  const rig = await createRig();
  const stream = await startStreamServer((cursor) => rig.saw(cursor));
  const holes: number[] = [];
  const follower = createFollower({
    store: rig.store,
    clock: rig.clock,
    log: rig.log,
    baseUrl: stream.url,
    apiKey: API_KEY,
    types: ['*'],
    onEvents: () => {},
    onHole() {
      holes.push(rig.clock.time);
      rig.now();
    },
    fresh: () => true,
    // A thousandth of the wait that the contract asks for.
    firstWaitMs: 1,
    ...more,
  });
  const stop = new AbortController();
  let following: Promise<void> | undefined;
  const history: Item[] = [];
  const happen = (cursor: number, { replay = true, type = 'MessageReceived' } = {}): void => {
    const one = item(cursor, type);
    history.push(one);
    if (replay) rig.server.publish(one);
    stream.publish(one);
  };
  let ended = false;
  const end = async (): Promise<void> => {
    if (ended) return;
    ended = true;
    stop.abort();
    await stream.close();
    await following;
    await rig.close();
  };
  onTestFinished(end);
  /** Every event up to the watermark is stored. One query reads both, events and watermark, at the same moment. */
  function assertWhole(): void {
    const [found] = rig.query<{ mark: string | null; cursors: string | null }>(`
      select (select cast(value as text) from state where name = 'watermark') as mark,
        (select string_agg(cast(cursor as text), ',') from events) as cursors`);
    const mark = found?.mark;
    if (mark == null) return;
    const stored = new Set(found?.cursors?.split(','));
    const lost = history.filter(({ cursor }) => BigInt(cursor) <= BigInt(mark) && !stored.has(cursor));
    expect(
      lost.map(({ cursor }) => cursor),
      `everything up to the watermark ${mark} is stored`,
    ).toEqual([]);
  }
  return {
    ...rig,
    stream,
    holes,
    history,
    happen,
    end,
    assertWhole,
    proves: () => follower.proves(),
    start: () => {
      following = follower.follow(stop.signal);
      return following;
    },
    /** Event 10 is delivered, and the watermark rises to it. */
    rest: async () => {
      happen(10);
      await rig.webhook(10);
      await rig.settle();
      expect(await rig.watermark()).toBe('10');
    },
    mark: () =>
      rig.query<{ value: string }>(`select cast(value as text) as value from state where name = 'watermark'`)[0]?.value,
    state: () =>
      JSON.parse(rig.query<{ value: string }>(`select value from state where name = 'stream'`)[0]?.value ?? '{}') as {
        state?: string;
        reason?: string;
      },
  };
}

describe('the watermark', () => {
  test('the stream resumes after the watermark, and raises it without a call', async () => {
    const { rest, start, happen, stream, mark, server, stored, query } = await begin();
    await rest();
    happen(11);
    const calls = server.requests.length;
    void start();
    await until(() => mark() === '11');
    happen(12);
    await until(() => mark() === '12');
    expect(stream.opens).toEqual([{ query: '?include_product=true', after: '10' }]);
    expect(server.requests).toHaveLength(calls);
    expect(stored()).toEqual(['10', '11', '12']);
    expect(query(`select origin from events order by cursor`)).toEqual([
      { origin: 'webhook' },
      { origin: 'stream' },
      { origin: 'stream' },
    ]);
  });

  test('pings, comments and unknown events do not raise it', async () => {
    const { rest, start, happen, stream, mark } = await begin();
    await rest();
    void start();
    await until(() => stream.isOpen());
    stream.write(
      'id: 500\nevent: ping\ndata: {"t":1}\n\n:comment\n\nid: 600\nevent: novelty\ndata: {}\n\nid: 700\ndata: {}\n\n',
    );
    happen(11);
    await until(() => mark() !== '10');
    expect(mark()).toBe('11');
  });

  test.each(REASONS)(
    'after a refresh for %s the stream does not raise it until replay has fetched the missing events',
    async (reason) => {
      const { rest, start, happen, stream, mark, holes, stored, settle } = await begin();
      await rest();
      void start();
      await until(() => stream.isOpen());
      stream.lag();
      happen(11);
      stream.goOn(reason);
      happen(12);
      await until(() => stored().includes('12'));
      expect(mark()).toBe('10');
      expect(holes).toHaveLength(1);
      await settle();
      expect(mark()).toBe('12');
      expect(stored()).toEqual(['10', '11', '12']);
      happen(13);
      await until(() => mark() === '13');
    },
  );

  test('if a refresh replaces the missed events, replay fetches them', async () => {
    const { rest, start, happen, stream, mark, stored, settle, holes } = await begin();
    await rest();
    happen(11);
    stream.meet('replay_limit');
    void start();
    await until(() => holes.length > 0);
    happen(12);
    await until(() => stored().includes('12'));
    expect(mark()).toBe('10');
    await settle();
    expect(mark()).toBe('12');
  });

  test('after an event is cut off, the next connection continues after the last whole event', async () => {
    const { rest, start, happen, stream, mark, stored } = await begin();
    await rest();
    void start();
    await until(() => stream.isOpen());
    happen(11);
    await until(() => mark() === '11');
    stream.end('cut');
    await until(() => stream.opens.length === 2 && stream.isOpen());
    expect(stream.opens[1]?.after).toBe('11');
    happen(12);
    await until(() => mark() === '12');
    expect(stored()).toEqual(['10', '11', '12']);
  });

  test('without a watermark, replay begins at the first event of the stream; then the stream raises it', async () => {
    const { start, happen, stream, mark, stored, settle } = await begin();
    happen(9);
    void start();
    await until(() => stream.isOpen());
    happen(10);
    await until(() => stored().length === 1);
    expect(mark()).toBeUndefined();
    await settle();
    expect(mark()).toBe('10');
    happen(11);
    await until(() => mark() === '11');
  });

  test('if the service does not know the cursor, the stream goes on, and replay fetches missing events', async () => {
    const { rest, start, happen, stream, mark, stored, settle, proves } = await begin();
    await rest();
    happen(11);
    stream.meet(INVALID);
    void start();
    await until(() => stream.opens.length === 2 && stream.isOpen());
    expect(stream.opens.map(({ after }) => after)).toEqual(['10', undefined]);
    happen(12);
    await until(() => stored().includes('12'));
    expect(mark()).toBe('10');
    await settle();
    expect(mark()).toBe('12');
    expect(proves()).toBe(true);
  });

  test('the stream goes on if its cursor is refused at a later opening, even without a watermark', async () => {
    const { start, happen, stream, stored, proves } = await begin();
    void start();
    await until(() => stream.isOpen());
    happen(10);
    await until(() => stored().length === 1);
    stream.meet(INVALID);
    stream.end('end');
    await until(() => stream.opens.length === 3 && stream.isOpen());
    expect(stream.opens.at(-1)).toEqual({ query: '?include_product=true', after: undefined });
    await until(() => proves());
  });

  test('an event of a type that EVENT_TYPES leaves out is not stored, and the watermark passes it', async () => {
    const { rest, start, happen, mark, stored } = await begin({ types: ['MessageReceived'] });
    await rest();
    void start();
    happen(11, { type: 'MessageSent' });
    await until(() => mark() === '11');
    expect(stored()).toEqual(['10']);
  });

  test('an unreadable event goes to quarantine, and the watermark passes it', async () => {
    const { rest, start, stream, mark, query } = await begin();
    await rest();
    void start();
    await until(() => stream.isOpen());
    stream.write('id: 11\nevent: domain\ndata: {"a":1,"b":2}\n\n');
    await until(() => mark() === '11');
    expect(query('select cast(cursor as text) as cursor, origin from quarantine')).toEqual([
      { cursor: '11', origin: 'stream' },
    ]);
  });

  test('E87: an event that is not UTF-8 goes to quarantine as it came, and replay still brings it', async () => {
    const { rest, start, stream, mark, query } = await begin();
    await rest();
    void start();
    await until(() => stream.isOpen());
    const payload = Buffer.concat([Buffer.from('{"Thing":{"body":"M'), Buffer.from([0xfc]), Buffer.from('ll"}}')]);
    stream.write(Buffer.concat([Buffer.from('id: 11\nevent: domain\ndata: '), payload, Buffer.from('\n\n')]));
    await until(() => mark() === '11');
    expect(query('select reason, body from quarantine')).toEqual([{ reason: 'not UTF-8', body: payload }]);
    expect(query('select 1 from events where cursor = 11')).toEqual([]);
  });

  const action = fc.oneof(
    { weight: 6, arbitrary: fc.record({ do: fc.constant('happen' as const), hidden: fc.boolean() }) },
    {
      weight: 3,
      arbitrary: fc.record({
        do: fc.constantFrom('lag' as const, 'goOn' as const),
        reason: fc.constantFrom(...REASONS),
      }),
    },
    { weight: 2, arbitrary: fc.record({ do: fc.constantFrom('end' as const, 'cut' as const) }) },
    {
      weight: 2,
      arbitrary: fc.record({
        do: fc.constant('meet' as const),
        meeting: fc.constantFrom(...REASONS, INVALID, failure(503, 'UNAVAILABLE'), failure(429, 'RATE_LIMITED')),
      }),
    },
    {
      weight: 5,
      arbitrary: fc.record({ do: fc.constantFrom('step' as const, 'reveal' as const, 'webhook' as const) }),
    },
    {
      weight: 4,
      arbitrary: fc.record({ do: fc.constant('breathe' as const), turns: fc.integer({ min: 1, max: 30 }) }),
    },
  );

  test(
    'it never passes an event that is not stored, in any order of faults, and reaches the end',
    { timeout: 120_000 },
    async () => {
      await fc.assert(
        fc.asyncProperty(fc.array(action, { minLength: 5, maxLength: 40 }), async (actions) => {
          const all = await begin();
          const { stream, server, happen, assertWhole, clock } = all;
          try {
            await all.rest();
            server.lieAlways((_, truth) => {
              const { events = [] } = truth.body as { events?: Item[] };
              return events.length > 2 ? page(events.slice(0, 2), { has_more: true }) : truth;
            });
            void all.start();
            let cursor = 10;
            const hidden: Item[] = [];
            const reveal = (): void => server.publish(...hidden.splice(0));
            for (const one of actions) {
              if (one.do === 'happen') {
                cursor += 3;
                happen(cursor, { replay: !one.hidden && hidden.length === 0 });
                if (one.hidden || hidden.length > 0) hidden.push(item(cursor));
              } else if (one.do === 'lag') stream.lag();
              else if (one.do === 'goOn') stream.goOn(one.reason);
              else if (one.do === 'end' || one.do === 'cut') stream.end(one.do);
              else if (one.do === 'meet') stream.meet(one.meeting);
              else if (one.do === 'reveal') reveal();
              else if (one.do === 'webhook') await all.webhook(cursor);
              else if (one.do === 'step') {
                clock.time += 5_000;
                await all.step();
              } else if ('turns' in one) for (let i = 0; i < one.turns; i++) await turn();
              assertWhole();
            }
            reveal();
            stream.goOn('buffer_limit');
            await until(() => stream.isOpen());
            happen((cursor += 3));
            await all.pass(3 * INTERVAL_MS);
            await until(() => all.stored().includes(String(cursor)));
            await all.pass(3 * INTERVAL_MS);
            assertWhole();
            expect(all.mark()).toBe(String(cursor));
            expect(all.stored()).toEqual(all.history.map((known) => known.cursor));
          } finally {
            await all.end();
          }
        }),
        { numRuns: tries(40) },
      );
    },
  );
});

describe('while replay says that the watermark has expired', () => {
  const reset = page([], { reset_required: true });
  test.each(['the call', 'the search'] as const)(
    'if the stream raises the watermark during %s, there is no gap, and replay continues from there',
    async (during) => {
      const { happen, server, stream, rest, start, now, step, mark, store, pass } = await begin();
      await rest();
      void start();
      await until(() => stream.isOpen());
      happen(11);
      await until(() => mark() === '11');
      now();
      if (during === 'the call') server.hold(reset);
      else {
        server.lie(reset);
        await step();
        server.hold(failure(400, 'VALIDATION_FAILED'));
      }
      const stepping = step();
      await until(() => server.held());
      happen(20);
      await until(() => mark() === '20');
      server.letGo();
      await stepping;
      await pass(10_000);
      expect(await store.read.gaps()).toEqual([]);
      expect(server.requests.at(-1)?.after).not.toBe('11');
      expect(mark()).toBe('20');
      expect((await store.read.status(0)).reconcile).toMatchObject({ state: 'idle', reason: null });
    },
  );
});

describe('state, log and end of the stream', () => {
  test('a flood of refreshes causes one log line and one pass, until events arrive again', async () => {
    const { rest, start, stream, holes, text, happen, stored } = await begin();
    await rest();
    void start();
    await until(() => stream.isOpen());
    const flood = 'event: refresh\ndata: {"reason":"buffer_limit"}\n\n'.repeat(2_000);
    stream.write(flood);
    happen(11);
    await until(() => stored().includes('11'));
    expect(holes).toHaveLength(1);
    expect(text().match(/left events out/g)).toHaveLength(1);
    stream.write(flood);
    happen(12);
    await until(() => stored().includes('12'));
    expect(holes).toHaveLength(2);
  });

  test.each([
    ['its address was refused', [failure(403, 'FORBIDDEN', 'API_KEY_IP_FORBIDDEN')], 1],
    ['everything was refused', [failure(403, 'FORBIDDEN'), failure(403, 'FORBIDDEN')], 2],
  ] as const)(
    'after a 403 because %s, the stream asks for campaign events again when it is started again',
    async (_, refusals, opens) => {
      const { rest, start, stream, proves } = await begin();
      await rest();
      stream.meet(...refusals);
      await start();
      expect(stream.opens).toHaveLength(opens);
      void start();
      await until(() => proves());
      expect(stream.opens.at(-1)?.query).toBe('?include_product=true');
    },
  );

  test('with a key that may not read campaign events, the stream does not raise the watermark', async () => {
    const { rest, start, happen, stream, mark, stored, state, proves } = await begin();
    await rest();
    stream.meet(failure(403, 'FORBIDDEN'));
    void start();
    await until(() => stream.isOpen());
    expect(stream.opens.map(({ query }) => query)).toEqual(['?include_product=true', '']);
    happen(11);
    await until(() => stored().includes('11'));
    expect(mark()).toBe('10');
    expect(state()).toMatchObject({ state: 'open', reason: expect.stringContaining('does not raise the watermark') });
    expect(proves()).toBe(false);
  });

  test('without campaign events the stream resumes after its last event', async () => {
    const { rest, start, happen, stream, stored } = await begin();
    await rest();
    void start();
    await until(() => stream.isOpen());
    happen(11);
    await until(() => stored().includes('11'));
    stream.meet(failure(403, 'FORBIDDEN'));
    stream.end('end');
    await until(() => stream.opens.length === 3 && stream.isOpen());
    expect(stream.opens.map(({ after }) => after)).toEqual(['10', '11', '11']);
  });

  test.each([
    ['UNAUTHENTICATED', 'API_AUTH_REVOKED', 'stopped', 1],
    ['FORBIDDEN', 'API_KEY_IP_FORBIDDEN', 'stopped', 1],
    ['VALIDATION_FAILED', 'EVENT_CURSOR_INVALID', 'open', 2],
    ['RATE_LIMITED', 'API_KEY_RATE_LIMITED', 'open', 2],
    ['INTERNAL', undefined, 'open', 2],
  ])('E25: after %s %s within the stream it is %s', async (code, reason, end, opens) => {
    const { rest, start, stream, state } = await begin();
    await rest();
    void start();
    await until(() => state().state === 'open');
    stream.write(`event: error\ndata: ${JSON.stringify({ error: { code, reason } })}\n\n`);
    await until(() => stream.opens.length === opens && state().state === end);
    expect(stream.opens.at(-1)?.query).toBe('?include_product=true');
    if (reason === 'EVENT_CURSOR_INVALID') expect(stream.opens.at(-1)?.after).toBeUndefined();
  });

  test('a refused key stops the stream with a reason, and the stream can be started again', async () => {
    const { rest, start, stream, state, happen, mark } = await begin();
    await rest();
    stream.meet(failure(401, 'UNAUTHENTICATED', 'API_AUTH_REVOKED'));
    await start();
    expect(state()).toMatchObject({ state: 'stopped', reason: expect.stringContaining('API_AUTH_REVOKED') });
    void start();
    await until(() => stream.isOpen());
    happen(11);
    await until(() => mark() === '11');
    await until(() => state().state === 'open');
  });

  test('a lost stream is opened again, also after refusals', async () => {
    const { rest, start, stream, state } = await begin();
    await rest();
    void start();
    await until(() => state().state === 'open');
    stream.meet(failure(503, 'UNAVAILABLE'), failure(503, 'UNAVAILABLE'));
    stream.end('end');
    await until(() => stream.opens.length === 4);
    await until(() => state().state === 'open');
  });

  test('a stop ends the stream at once', async () => {
    const { rest, start, stream, end } = await begin();
    await rest();
    void start();
    await until(() => stream.isOpen());
    await end();
  });
});

describe('events of the stream without a time', () => {
  const ages = (rows: <Row>(sql: string) => Row[]) =>
    rows<{ cursor: string; live: number }>(
      `select cast(cursor as text) as cursor, live from events where origin = 'stream' order by events.cursor`,
    ).map(({ cursor, live }) => `${cursor} ${live === 1 ? 'live' : 'of unknown age'}`);

  test('E22: missed events are of unknown age, events above the watermark of an ended pass are live', async () => {
    let end: Ended | null = null;
    const { rest, start, happen, stored, query, clock } = await begin({ ended: () => end });
    await rest();
    happen(11);
    happen(12);
    void start();
    await until(() => stored().includes('12'));
    end = { at: clock.monotonic(), watermark: '12' as Cursor };
    happen(13);
    await until(() => stored().includes('13'));
    expect(ages(query)).toEqual(['11 of unknown age', '12 of unknown age', '13 live']);
  });

  test('E22: an event after a silence of 59 s is still live', async () => {
    const { rest, start, happen, stored, query, clock, stream } = await begin({
      ended: () => ({ at: clock.monotonic() - 1_000, watermark: '10' as Cursor }),
    });
    await rest();
    void start();
    await until(() => stream.isOpen());
    happen(11);
    await until(() => stored().includes('11'));
    clock.time += 59_000;
    happen(12);
    await until(() => stored().includes('12'));
    expect(ages(query)).toEqual(['11 live', '12 live']);
  });

  test('E81: the stream does not raise a lowered watermark past events that it has not brought', async () => {
    const { rest, start, happen, store, stored, mark, clock, stream } = await begin();
    await rest();
    void start();
    await until(() => stream.isOpen());
    happen(9_000);
    await until(() => mark() === '9000');
    await store.replay.lowerWatermark({ to: '10' as Cursor, why: 'evidence', now: clock.now() });
    happen(20);
    await until(() => stored().includes('20'));
    expect(mark()).toBe('10');
    await store.ingest.accept({ readings: [], now: clock.now(), watermark: '20' as Cursor, after: '10' as Cursor });
    happen(21);
    await until(() => mark() === '21');
    happen(9_000);
    happen(22);
    await until(() => stored().includes('22'));
    expect(mark()).toBe('22');
  });
});

describe('with the simulated service', () => {
  test('after an end event, a refresh and a refused cursor, all events are stored', async () => {
    const clock = createClock();
    const service = createSimulatedService({ seed: 4, clock });
    const { secret } = service.keys.create({ name: 'tests', scopes: ['events:read'], validDays: 1 });
    const file = createStoreFile();
    const baseUrl = await service.listen();
    const stop = new AbortController();
    const { log } = createTestLog();
    const [first] = service.happen(1);
    await file.store.ingest.accept({ readings: [], now: clock.time, watermark: first?.cursor as never });
    let holes = 0;
    const follower = createFollower({
      store: file.store,
      clock,
      log,
      baseUrl,
      apiKey: secret,
      types: ['*'],
      onEvents: () => {},
      onHole: () => void holes++,
      fresh: () => true,
      firstWaitMs: 1,
    });
    const following = follower.follow(stop.signal);
    onTestFinished(async () => {
      stop.abort();
      await service.close();
      await following;
      file.remove();
    });
    const stored = () => file.query<{ n: number }>('select count(*) as n from events')[0]?.n ?? 0;
    await until(() => service.streams.count() === 1);
    service.happen(3);
    service.happen(1, 'CampaignUpdated');
    await until(() => stored() === 4);
    service.streams.end();
    service.happen(2);
    await until(() => stored() === 6);
    await until(() => service.streams.count() === 1);
    service.streams.refresh('buffer_limit');
    await until(() => holes === 1);
    service.streams.refuseNext('cursor_expired');
    service.streams.end();
    await until(() => holes === 2);
    const last = service.happen(2).at(-1);
    await until(() => stored() === 8);
    expect(await file.store.state.get('watermark'), 'the hole is not passed').not.toBe(last?.cursor);
    expect(service.api.calls(), 'ten opens a minute').toBeLessThanOrEqual(10);
  });
});
