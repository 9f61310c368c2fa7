// The stream and the watermark: it never passes an event that is not stored, in any order of faults.
import { setImmediate as turn } from 'node:timers/promises';
import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { tries } from '../cases.ts';
import { failure, item, page, type Item } from './replay-server.ts';
import { INTERVAL_MS } from './harness.ts';
import { begin, until } from './stream-rig.ts';

const REASONS = ['cursor_expired', 'buffer_limit', 'replay_limit', 'replay_incomplete', 'replay_unavailable'];
const INVALID = failure(400, 'VALIDATION_FAILED', 'EVENT_CURSOR_INVALID');

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
