import { expect, onTestFinished, test } from 'vitest';
import { refuse } from '../../../src/tools/simulator/faults.ts';
import type { KeyAttributes } from '../../../src/tools/simulator/keys.ts';
import { createSimulatedService } from '../../../src/tools/simulator/service.ts';
import { until } from './endpoint.ts';

interface Block {
  id?: string;
  event?: string;
  data: Record<string, unknown>;
}

async function setUp(attributes: Partial<KeyAttributes> = {}, speed = 1, sessions = 2) {
  const clock = { at: Date.UTC(2026, 0, 1), now: () => clock.at, monotonic: () => clock.at };
  const service = createSimulatedService({ seed: 1, clock, speed, sessions });
  const { key, secret } = service.keys.create({
    name: 'tests',
    scopes: ['events:read'],
    validDays: 1,
    ...attributes,
  });
  const base = await service.listen();
  onTestFinished(() => service.close());

  async function open(query = '', headers: Record<string, string> = {}) {
    const response = await fetch(`${base}/events${query}`, {
      headers: { authorization: `Bearer ${secret}`, ...headers },
    });
    const blocks: Block[] = [];
    const text = response.body?.pipeThrough(new TextDecoderStream());
    async function read(): Promise<void> {
      let rest = '';
      for await (const chunk of text ?? []) {
        const parts = (rest + chunk).split('\n\n');
        rest = parts.pop() ?? '';
        blocks.push(...parts.map(parse));
      }
      if (!response.ok) blocks.push({ event: 'refusal', ...(JSON.parse(rest) as { data: Block['data'] }) });
    }
    const ended = read();
    // If a test fails early, the service closes and breaks this stream, which must not hide the test's error.
    ended.catch(() => {});
    return { response, blocks, ended };
  }
  async function refusal(query = '', headers: Record<string, string> = {}) {
    const { response, blocks, ended } = await open(query, headers);
    await ended;
    const { error } = blocks[0] as unknown as { error: { reason?: string } };
    return [response.status, error.reason];
  }
  return { clock, service, key, open, refusal };
}

function parse(block: string): Block {
  const fields = Object.fromEntries(
    block.split('\n').map((line) => [line.slice(0, line.indexOf(':')), line.slice(line.indexOf(':') + 2)]),
  );
  return { ...fields, data: JSON.parse(fields['data'] ?? '') as Block['data'] };
}

const cursorsOf = (blocks: Block[]) => blocks.filter(({ event }) => event === 'domain').map(({ id }) => id);

test('6.1: a domain event of the stream carries its cursor and the data of the webhook', async () => {
  const { service, open } = await setUp();
  const { response, blocks } = await open();
  expect(response.headers.get('content-type')).toBe('text/event-stream');
  const [event] = service.happen();
  await until(() =>
    expect(blocks).toEqual([{ id: event?.cursor, event: 'domain', data: { MessageReceived: event?.data } }]),
  );
});

test.each(['header', 'query'])(
  '4.4, 6.1: a stream with a cursor in the %s sends the events after it, then new ones',
  async (way) => {
    const { service, open } = await setUp();
    const [first, ...missed] = service.happen(5);
    const cursor = first?.cursor ?? '';
    const { blocks } = await (way === 'header'
      ? open('', { 'last-event-id': cursor })
      : open(`?after_cursor=${cursor}`));
    const live = service.happen(2);
    const expected = [...missed, ...live].map((event) => event.cursor);
    await until(() => expect(cursorsOf(blocks)).toEqual(expected));
  },
);

test('6.1, 8: a stream with an expired cursor or more than 20 thousand missed events gets a refresh', async () => {
  const { service, open } = await setUp();
  const [first, second] = service.happen(20_002);
  const long = await open('', { 'last-event-id': first?.cursor ?? '' });
  const most = await open('', { 'last-event-id': second?.cursor ?? '' });
  await until(() => expect(cursorsOf(most.blocks)).toHaveLength(20_000));
  service.history.expireUpTo(first?.cursor ?? '');
  const expired = await open('', { 'last-event-id': first?.cursor ?? '' });
  const [live] = service.happen();
  await until(() =>
    expect([...cursorsOf(long.blocks), ...cursorsOf(expired.blocks)]).toEqual([live?.cursor, live?.cursor]),
  );
  expect(long.blocks[0]).toEqual({ event: 'refresh', data: { reason: 'replay_limit' } });
  expect(expired.blocks[0]).toEqual({ event: 'refresh', data: { reason: 'cursor_expired' } });
});

test.each(['buffer_limit', 'replay_incomplete', 'replay_unavailable'] as const)(
  '6.1: a stream that resumes and one that is open can get a refresh with the reason %s',
  async (reason) => {
    const { service, open } = await setUp();
    const [first] = service.happen(2);
    service.streams.refuseNext(reason);
    const { blocks } = await open('', { 'last-event-id': first?.cursor ?? '' });
    service.streams.refresh(reason);
    const refresh = { event: 'refresh', data: { reason } };
    await until(() => expect(blocks).toEqual([refresh, refresh]));
  },
);

test.each(['0', 'abc', '99999999999999999999'])(
  '6.1, 7.4: the simulator refuses a stream after the cursor %s with EVENT_CURSOR_INVALID',
  async (cursor) => {
    const { refusal } = await setUp();
    expect(await refusal('', { 'last-event-id': cursor })).toEqual([400, 'EVENT_CURSOR_INVALID']);
  },
);

test.each([
  ['that is no UUID', () => 'session_id=1'],
  ['that is given 1001 times', (one: string) => `session_id=${one}&`.repeat(1_001)],
])('4.4, 7.4: a stream with a session_id %s gets EVENT_SESSION_INVALID', async (_, query) => {
  const { service, refusal } = await setUp();
  expect(await refusal(`?${query(service.history.numbers[0] ?? '')}`)).toEqual([400, 'EVENT_SESSION_INVALID']);
});

test('4.4: a stream with a session_id has the events of that number alone', async () => {
  const { service, open, refusal } = await setUp();
  const [one = '', other] = service.history.numbers;
  expect(await refusal(`?session_id=${crypto.randomUUID()}`)).toEqual([404, 'SESSION_NOT_FOUND']);
  const { blocks } = await open(`?session_id=${one}`);
  service.happen(1, 'MessageReceived', { sessionId: other ?? null });
  const [mine] = service.happen(1, 'MessageReceived', { sessionId: one });
  await until(() => expect(cursorsOf(blocks)).toEqual([mine?.cursor]));
});

test('4.4: include_product adds account-wide events, for API keys without number restriction', async () => {
  const { service, key, open, refusal } = await setUp();
  const [plain, full] = [await open(), await open('?include_product=true')];
  const [campaign, message] = [service.happen(1, 'CampaignUpdated')[0], service.happen()[0]];
  await until(() => expect(cursorsOf(full.blocks)).toEqual([campaign?.cursor, message?.cursor]));
  await until(() => expect(cursorsOf(plain.blocks)).toEqual([message?.cursor]));
  service.keys.edit(key, { numbers: service.history.numbers.slice(0, 1) });
  expect(await refusal('?include_product=true')).toEqual([403, undefined]);
});

test('6.1, 8: a stream needs events:read, and can be opened 10 times a minute', async () => {
  const { clock, service, key, open, refusal } = await setUp();
  for (let i = 0; i < 10; i++) await open();
  expect(await refusal()).toEqual([429, 'RATE_LIMITED']);
  clock.at += 60_000;
  service.keys.edit(key, { scopes: ['groups:read'] });
  expect(await refusal()).toEqual([403, undefined]);
});

test('8: all API keys of an account share its 10 opens of streams a minute', async () => {
  const { service, open, refusal } = await setUp();
  const { secret } = service.keys.create({ name: 'another', scopes: ['events:read'], validDays: null });
  for (let i = 0; i < 9; i++) await open();
  const another = { authorization: `Bearer ${secret}` };
  expect((await open('', another)).response.status).toBe(200);
  expect(await refusal('', another)).toEqual([429, 'RATE_LIMITED']);
});

test('3.1, 6.1: revoking an API key sends an error event on its streams, and closes them', async () => {
  const { service, key, open } = await setUp();
  const { blocks, ended, response } = await open();
  service.keys.revoke(key);
  await ended;
  const requestId = response.headers.get('x-request-id');
  expect(blocks).toMatchObject([
    { event: 'error', data: { error: { code: 'UNAUTHENTICATED', reason: 'API_AUTH_REVOKED', requestId } } },
  ]);
  expect(service.streams.count()).toBe(0);
});

test('3.1: an API key that expires ends its streams with an error event', async () => {
  const { clock, service, open } = await setUp();
  const { blocks, ended } = await open();
  clock.at += 86_400_000;
  service.happen();
  await ended;
  expect(blocks).toMatchObject([{ event: 'error', data: { error: { reason: 'API_AUTH_REQUIRED' } } }]);
});

test('6.1: a stream has a ping every 25 seconds, and the server ends it after an hour', async () => {
  // The stream's hour passes in 720 ms.
  const { clock, open } = await setUp({}, 5_000);
  const { blocks, ended } = await open();
  await ended;
  expect(blocks[0]).toEqual({ event: 'ping', data: { t: clock.now() } });
  expect(blocks.at(-1)).toEqual({ event: 'end', data: {} });
  expect(blocks.filter(({ event }) => event === 'ping').length).toBeLessThanOrEqual(144);
});

test('6.1: the server can end a stream, and drops a stream whose client has disconnected', async () => {
  const { service, open } = await setUp();
  const { blocks, ended } = await open();
  service.streams.end();
  await ended;
  expect(blocks).toEqual([{ event: 'end', data: {} }]);
  const { response } = await open();
  await response.body?.cancel().catch(() => {});
});

test('5.4: a restriction of an API key to numbers also applies to its open streams', async () => {
  const { service, key, open } = await setUp();
  const [one = '', other = ''] = service.history.numbers;
  const { blocks } = await open();
  service.keys.edit(key, { numbers: [one] });
  service.happen(1, 'MessageReceived', { sessionId: other });
  const [mine] = service.happen(1, 'MessageReceived', { sessionId: one });
  await until(() => expect(cursorsOf(blocks)).toEqual([mine?.cursor]));
});

test('6.1: a slow reader loses events, gets a refresh, and then gets new events', async () => {
  const { service, open } = await setUp();
  const { blocks } = await open();
  service.happen(30, 'MessageReceived', { data: { body: 'x'.repeat(1024 * 1024) } });
  await until(() => expect(blocks.at(-1)).toEqual({ event: 'refresh', data: { reason: 'buffer_limit' } }));
  expect(cursorsOf(blocks).length).toBeLessThan(30);
  const [live] = service.happen();
  await until(() => expect(blocks.at(-1)?.id).toBe(live?.cursor));
});

test('6.3, E28: a test event is never on the stream', async () => {
  const { service, open } = await setUp();
  const { blocks } = await open('?include_product=true');
  service.happen(1, 'webhook.ping');
  const [event] = service.happen();
  await until(() => expect(cursorsOf(blocks)).toEqual([event?.cursor]));
});

test('4.4: a stream with two session_id has the events of both numbers, and of no third', async () => {
  const { service, open } = await setUp({}, 1, 3);
  const [one = '', two = '', three = ''] = service.history.numbers;
  const { blocks } = await open(`?session_id=${one}&session_id=${two}`);
  const cursorOf = (sessionId: string) => service.happen(1, 'MessageReceived', { sessionId })[0]?.cursor;
  const [, first, second] = [cursorOf(three), cursorOf(two), cursorOf(one)];
  await until(() => expect(cursorsOf(blocks)).toEqual([first, second]));
});

test.each(['false', '1', ''])('4.4: include_product=%s adds no account-wide events', async (value) => {
  const { service, open } = await setUp();
  const { blocks } = await open(`?include_product=${value}`);
  service.happen(1, 'CampaignUpdated');
  const [message] = service.happen();
  await until(() => expect(cursorsOf(blocks)).toEqual([message?.cursor]));
});

test('4.4: a stream may name session_id 1000 times', async () => {
  const { service, open } = await setUp();
  const query = service.history.numbers[0] ?? '';
  const { response } = await open(`?${`session_id=${query}&`.repeat(1_000)}`);
  expect(response.status).toBe(200);
});

test('5.4, 7.4: a stream of a number outside the API key gets SESSION_NOT_FOUND', async () => {
  const { service, key, refusal } = await setUp();
  const [one = '', other = ''] = service.history.numbers;
  service.keys.edit(key, { numbers: [one] });
  expect(await refusal(`?session_id=${other}`)).toEqual([404, 'SESSION_NOT_FOUND']);
});

test('7.4: a test can make the simulator refuse a stream with EVENT_STREAM_UNAVAILABLE', async () => {
  const { service, refusal } = await setUp();
  service.chaos.next(refuse(503, 'EVENT_STREAM_UNAVAILABLE'));
  expect(await refusal()).toEqual([503, 'EVENT_STREAM_UNAVAILABLE']);
});
