import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { deliver, fixture, recorder, serviceError, type Answers } from '#kit/testing';
import handler from './handoff.ts';

beforeEach(() => void vi.stubEnv('HANDOFF_TO', 'user-1'));
afterEach(() => void vi.unstubAllEnvs());

const asking = fixture('MessageReceived', { data: { body: 'A person, please' } });

const mine = { id: 'c1', session_id: asking.sessionId, chat_jid: '15550100', assignment_version: '7' };

/** A service whose list of conversations has `conversation` on its second page. */
function scripted(conversation: Record<string, unknown>, answers: Answers = {}) {
  return recorder({
    ListConversations: ({ cursor }) =>
      cursor === 'second'
        ? { conversations: [{ ...mine, ...conversation }], next_cursor: '' }
        : { conversations: [{ id: 'c0', session_id: asking.sessionId, chat_jid: '15550199' }], next_cursor: 'second' },
    AssignConversation: {},
    ...answers,
  });
}

test('if a writer asks for a person, the conversation is assigned, with its version in the request', async () => {
  const { tasks, calls } = await deliver(handler, asking, { service: scripted({}) });
  expect(tasks).toMatchObject([{ state: 'done' }]);
  expect(calls.at(-1)).toMatchObject({
    name: 'AssignConversation',
    request: { conversation_id: 'c1', assignee_user_id: 'user-1', assignment_version: '7' },
  });
});

test('after a stale version the conversation is read again, and keeps the assignee that it has by then', async () => {
  const conversation: Record<string, unknown> = {};
  const service = scripted(conversation, {
    AssignConversation() {
      conversation['assignee_user_id'] = 'user-2';
      return serviceError('CONFLICT', 'ASSIGNMENT_CONFLICT');
    },
  });
  const { tasks, calls } = await deliver(handler, asking, { service });
  expect(tasks).toMatchObject([{ state: 'done', attempts: 1 }]);
  expect(calls.filter(({ name }) => name === 'AssignConversation')).toHaveLength(1);
  expect(calls.at(-1)?.name).toBe('ListConversations');
});

test('a message that does not ask for a person causes no call', async () => {
  const { tasks, calls } = await deliver(handler, fixture('MessageReceived', { data: { body: 'hello' } }));
  expect(tasks).toMatchObject([{ state: 'done' }]);
  expect(calls).toEqual([]);
});

test.each(['Quero falar com um atendente', 'a human, please'])('"%s" asks for a person', async (body) => {
  const { calls } = await deliver(handler, fixture('MessageReceived', { data: { body } }), { service: scripted({}) });
  expect(calls.at(-1)?.name).toBe('AssignConversation');
});

test('in a group nobody is handed over', async () => {
  const inGroup = fixture('MessageReceived', { data: { body: 'A person, please', is_group: true } });
  const { tasks, calls } = await deliver(handler, inGroup);
  expect(tasks).toMatchObject([{ state: 'skipped' }]);
  expect(calls).toEqual([]);
});

test('without HANDOFF_TO the handler is refused at the start', async () => {
  vi.stubEnv('HANDOFF_TO', undefined);
  await expect(deliver(handler, asking)).rejects.toThrow('set HANDOFF_TO');
});
