import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { crash, createClock, deliver, fixture, recorder, serviceError, type Answers } from '#kit/testing';
import handler from './auto-reply.ts';

beforeEach(() => void vi.stubEnv('PAID_OPERATIONS', 'allow'));
afterEach(() => void vi.unstubAllEnvs());

const event = fixture('MessageReceived');
const uncertain = serviceError('UNAVAILABLE', 'OUTCOME_UNCERTAIN');

/** A service that carries out every call, except those that `answers` replaces. `sent` holds the sent messages. */
function scripted(answers: (sent: object[]) => Answers = () => ({})) {
  const sent: object[] = [];
  let quotes = 0;
  const service = recorder({
    quote: () => ({ quoteId: `quote-${++quotes}` }),
    send: (request) => ({ n: sent.push(request) }),
    ListConversations: { conversations: [{ id: 'c1', session_id: event.sessionId, chat_jid: event.data.from }] },
    ListMessages: () => ({ messages: sent }),
    ...answers(sent),
  });
  return { service, sent };
}

test('a message gets one reply, with the quote that was made for it', async () => {
  const { service, sent } = scripted();
  const { tasks, calls } = await deliver(handler, event, { service, times: 2 });
  expect(tasks).toMatchObject([{ state: 'done', attempts: 1 }]);
  expect(sent).toMatchObject([{ to: event.data.from, session_id: event.sessionId }]);
  expect(calls.map(({ name, quoteId }) => `${name} ${quoteId}`)).toEqual(['quote null', 'send quote-1']);
  expect(calls[0]?.request).toEqual(calls[1]?.request);
});

test.each([
  ['504', serviceError('UNAVAILABLE', 'RPC_DEADLINE_EXCEEDED')],
  ['503 OUTCOME_UNCERTAIN', uncertain],
  ['a connection that broke', serviceError('unreachable')],
  ['a crash', crash],
])('%s after the send was carried out: the message is sent once, and found in the history', async (_, answer) => {
  const { service, sent } = scripted((done) => ({ send: (request) => (done.push(request), answer) }));
  const { tasks, calls } = await deliver(handler, event, { service });
  expect(tasks).toMatchObject([{ state: 'done' }]);
  expect(sent).toHaveLength(1);
  expect(calls.map(({ name }) => name)).toEqual(['quote', 'send', 'ListConversations', 'ListMessages']);
});

test('after the service has refused a send, the next attempt sends with a new quote', async () => {
  const answers = [serviceError('CONFLICT', 'BILLING_QUOTE_EXPIRED')];
  const { service } = scripted(() => ({ send: () => answers.shift() ?? {} }));
  const { tasks, calls } = await deliver(handler, event, { service });
  expect(tasks).toMatchObject([{ state: 'done' }]);
  expect(calls.flatMap(({ name, quoteId }) => (name === 'send' ? quoteId : []))).toEqual(['quote-1', 'quote-2']);
});

/** Messages of one conversation, this many seconds after the first. */
const messages = (...seconds: number[]) =>
  seconds.map((after) => fixture('MessageReceived', { createdAt: new Date(1e12 + after * 1_000).toISOString() }));

test('an unknown outcome that the history never shows is a dead letter, and later messages get no second reply', async () => {
  const retry = { attempts: 3, firstMs: 1_800_000, maxMs: 1_800_000 };
  const { service } = scripted(() => ({ send: uncertain }));
  const { tasks, calls } = await deliver({ ...handler, retry }, messages(0, 90, 180), { service });
  expect(calls.filter(({ name }) => name === 'send')).toHaveLength(1);
  expect(tasks.map(({ state }) => state)).toEqual(['dead', 'skipped', 'skipped']);
  expect(tasks[0]).toMatchObject({ attempts: 3, error: expect.stringContaining('not in the history') });
});

test.each(['given', 'reversed'] as const)('a burst of messages gets one reply (order: %s)', async (order) => {
  const { service, sent } = scripted();
  const { tasks } = await deliver(handler, messages(0, 10, 20), { service, times: 2, order, apartMs: 1_000 });
  expect(sent).toHaveLength(1);
  expect(tasks.map(({ state }) => state).toSorted()).toEqual(['done', 'skipped', 'skipped']);
});

test('a conversation gets three replies in an hour', async () => {
  const { service, sent } = scripted();
  const given = messages(...Array.from({ length: 16 }, (_, n) => n * 240));
  await deliver(handler, given, { service, clock: createClock(1e12), apartMs: 240_000 });
  // The fourth is for the message that was written an hour after the first.
  expect(sent).toHaveLength(4);
});

const group = fixture('MessageReceived', { data: { is_group: true } });
test.each([
  ['an old message', event, { clock: createClock('2026-01-02') }, {}],
  ['a group', group, {}, {}],
  ['a message without PAID_OPERATIONS=allow', event, {}, { PAID_OPERATIONS: 'refuse' }],
])('%s is skipped without a call', async (_, unwanted, options, env) => {
  for (const [name, value] of Object.entries(env)) vi.stubEnv(name, value);
  const { tasks, calls } = await deliver(handler, unwanted, options);
  expect([tasks[0]?.state, calls]).toEqual(['skipped', []]);
});

test('a writer who has opted out gets no reply', async () => {
  const { service, sent } = scripted();
  const setup = [handler.setup ?? [], `insert into opt_out values ('${event.data.from}', 'out', 1)`].flat();
  const { tasks } = await deliver({ ...handler, setup }, event, { service });
  expect(tasks).toMatchObject([{ state: 'skipped', error: 'the writer has opted out' }]);
  expect(sent).toEqual([]);
});
