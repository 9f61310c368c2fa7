import { expect, test } from 'vitest';
import { crash, createClock, deliver, fixture, recorder, serviceError, type Answers } from '#kit/testing';
import handler from './answer.ts';

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

test('a message is answered once, with the quote that was made for it', async () => {
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

test('a crash after the send, before the outcome is stored: the message is sent once', async () => {
  const { service, sent } = scripted();
  const { tasks } = await deliver(handler, event, { service, crashAfter: 1 });
  expect(tasks).toMatchObject([{ state: 'done' }]);
  expect(sent).toHaveLength(1);
});

test('a crash while the quote is made: no send was begun, so the answer is sent once', async () => {
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

test.each([
  ['an old message', event, '2026-01-01T01:00:00.000Z'],
  ['a group', fixture('MessageReceived', { data: { is_group: true } }), undefined],
])('%s is skipped without a call', async (_, unwanted, at) => {
  const { tasks, calls } = await deliver(handler, unwanted, { clock: createClock(at ?? unwanted.createdAt) });
  expect(tasks).toMatchObject([{ state: 'skipped' }]);
  expect(calls).toEqual([]);
});
