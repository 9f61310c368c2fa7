// The stream: its state and log, how it is refused, lost, opened again and stopped, and with the simulated service.
import { describe, expect, onTestFinished, test } from 'vitest';
import { createFollower } from '../../src/reconcile/stream.ts';
import { createSimulatedService } from '../../src/tools/simulator/service.ts';
import { failure } from './replay-server.ts';
import { createClock, createStoreFile, createTestLog } from './harness.ts';
import { begin, until } from './stream-rig.ts';

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
