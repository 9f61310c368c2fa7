import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { crash, createClock, deliver, fixture, recorder, serviceError, type Answers } from '#kit/testing';
import handler from './auto-reply.ts';

beforeEach(() => void vi.stubEnv('PAID_OPERATIONS', 'allow'));
afterEach(() => {
  vi.unstubAllEnvs();
  vi.restoreAllMocks();
});

const event = fixture('MessageReceived', { data: { from: '15550100' } });

/** A service that carries out every call, except those that `answers` replaces. `sent` holds the sent messages. */
function scripted(answers: (sent: object[]) => Answers = () => ({})) {
  const sent: object[] = [];
  let quotes = 0;
  const service = recorder({
    quote: () => ({ quoteId: `quote-${++quotes}` }),
    send: (request) => ({ n: sent.push(request) }),
    ListConversations: () => ({
      conversations: [{ id: 'c1', session_id: event.sessionId, chat_jid: '15550100' }],
      next_cursor: '',
    }),
    ListMessages: () => ({ messages: sent, next_cursor: '' }),
    ...answers(sent),
  });
  return { service, sent };
}

test('a message gets one reply, with the quote that was made for it', async () => {
  const { service, sent } = scripted();
  const { tasks, calls } = await deliver(handler, event, { service, times: 2 });
  expect(tasks).toMatchObject([{ state: 'done', attempts: 1 }]);
  expect(sent).toMatchObject([{ to: '15550100', session_id: event.sessionId }]);
  expect(calls.map(({ name, quoteId }) => [name, quoteId])).toEqual([
    ['quote', null],
    ['send', 'quote-1'],
  ]);
  expect(calls[0]?.request).toEqual(calls[1]?.request);
});

test.each([
  ['504 RPC_DEADLINE_EXCEEDED', serviceError('UNAVAILABLE', 'RPC_DEADLINE_EXCEEDED')],
  ['503 OUTCOME_UNCERTAIN', serviceError('UNAVAILABLE', 'OUTCOME_UNCERTAIN')],
  ['a connection that broke', serviceError('unreachable')],
  ['a crash', crash],
])('%s after the send was carried out: the message is sent once, and found in the history', async (_, answer) => {
  const { service, sent } = scripted((done) => ({
    send(request) {
      done.push(request);
      return answer;
    },
  }));
  const { tasks, calls } = await deliver(handler, event, { service });
  expect(tasks).toMatchObject([{ state: 'done' }]);
  expect(sent).toHaveLength(1);
  expect(calls.map(({ name }) => name)).toEqual(['quote', 'send', 'ListConversations', 'ListMessages']);
});

test('a crash while the quote is made: no send was begun, so the reply is sent once', async () => {
  let quotes = 0;
  const { service, sent } = scripted(() => ({ quote: () => (++quotes === 1 ? crash : { quoteId: 'quote-2' }) }));
  const { tasks } = await deliver(handler, event, { service });
  expect(tasks).toMatchObject([{ state: 'done' }]);
  expect(sent).toHaveLength(1);
});

test('a send of unknown outcome that the history never shows becomes a dead letter, and is not repeated', async () => {
  let sends = 0;
  const { service } = scripted(() => ({
    send() {
      sends++;
      return serviceError('UNAVAILABLE', 'OUTCOME_UNCERTAIN');
    },
  }));
  const { tasks } = await deliver(handler, event, { service });
  expect(tasks).toMatchObject([{ state: 'dead', attempts: 8, error: expect.stringContaining('not in the history') }]);
  expect(sends).toBe(1);
});

test('after the service has refused a send, the next attempt sends with a new quote', async () => {
  let sends = 0;
  const { service, sent } = scripted((done) => ({
    send: (request) => (++sends === 1 ? serviceError('CONFLICT', 'BILLING_QUOTE_EXPIRED') : { n: done.push(request) }),
  }));
  const { calls } = await deliver(handler, event, { service });
  expect(sent).toHaveLength(1);
  expect(calls.flatMap(({ name, quoteId }) => (name === 'send' ? quoteId : []))).toEqual(['quote-1', 'quote-2']);
});

/** Messages of one conversation, this many seconds after the first. */
const messages = (...seconds: number[]) =>
  seconds.map((after) => {
    const at = Date.parse('2026-01-01T00:00:00.000Z') + after * 1_000;
    const data = { from: '15550100', timestamp_unix_ms: at };
    return fixture('MessageReceived', { createdAt: new Date(at).toISOString(), data });
  });

test.each(['given', 'reversed'] as const)('a burst of messages gets one reply (order: %s)', async (order) => {
  const { service, sent } = scripted();
  const { tasks } = await deliver(handler, messages(0, 10, 20), { service, times: 2, order, apartMs: 1_000 });
  expect(sent).toHaveLength(1);
  expect(tasks.map(({ state }) => state).toSorted()).toEqual(['done', 'skipped', 'skipped']);
});

test('a send of unknown outcome holds the conversation, so that later messages get no second reply', async () => {
  // The waits between attempts are random. With the longest, later messages are too old for a reply of their own.
  vi.spyOn(Math, 'random').mockReturnValue(1);
  let sends = 0;
  const { service } = scripted(() => ({
    send() {
      sends++;
      return serviceError('UNAVAILABLE', 'OUTCOME_UNCERTAIN');
    },
  }));
  const { tasks } = await deliver(handler, messages(0, 90, 180), { service });
  expect(sends).toBe(1);
  expect(tasks.map(({ state }) => state)).toEqual(['dead', 'skipped', 'skipped']);
});

test('a conversation gets three replies in an hour, and another conversation gets its own', async () => {
  const { service, sent } = scripted();
  const everyTwoMinutes = messages(...Array.from({ length: 31 }, (_, n) => n * 120));
  const clock = createClock(everyTwoMinutes[0]?.createdAt);
  const other = fixture('MessageReceived', {
    createdAt: new Date(clock.at).toISOString(),
    data: { from: '15550101', timestamp_unix_ms: clock.at },
  });
  await deliver(handler, [other, ...everyTwoMinutes], { service, clock, apartMs: 118_000 });
  const peers = sent.map((message) => (message as { to: string }).to);
  // The fourth reply is for the message that was written an hour after the first.
  expect(peers).toEqual(['15550101', '15550100', '15550100', '15550100', '15550100']);
});

test('a writer who has opted out gets no reply', async () => {
  const { service, sent } = scripted();
  const optedOut = {
    ...handler,
    setup: [
      ...[handler.setup ?? []].flat(),
      `insert into opt_out values ('15550100', 'out', 1), ('15550101', 'in', 1)`,
    ],
  };
  const back = fixture('MessageReceived', { data: { from: '15550101' } });
  const { tasks } = await deliver(optedOut, [event, back], { service });
  expect(tasks).toMatchObject([{ state: 'skipped', error: 'the writer has opted out' }, { state: 'done' }]);
  expect(sent).toMatchObject([{ to: '15550101' }]);
});

test('without PAID_OPERATIONS=allow a message is skipped without a call, and the reason says so', async () => {
  vi.stubEnv('PAID_OPERATIONS', 'refuse');
  const { tasks, calls } = await deliver(handler, event);
  expect(tasks).toMatchObject([{ state: 'skipped', error: expect.stringContaining('set PAID_OPERATIONS=allow') }]);
  expect(calls).toEqual([]);
});

test.each([
  ['an old message', event, '2026-01-01T01:00:00.000Z'],
  ['a group', fixture('MessageReceived', { data: { is_group: true } }), undefined],
])('%s is skipped without a call', async (_, unwanted, at) => {
  const { tasks, calls } = await deliver(handler, unwanted, { clock: createClock(at ?? unwanted.createdAt) });
  expect(tasks).toMatchObject([{ state: 'skipped' }]);
  expect(calls).toEqual([]);
});
