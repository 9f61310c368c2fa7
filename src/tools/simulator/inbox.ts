// Conversations and their assignees (contract 2.9, 4.2). There is a conversation for each person who wrote to a number.
// The contract does not show the fields of a request, so the simulator names them like the fields of a conversation.
import { z } from 'zod';
import type { History } from './history.ts';
import { valid, type Operation } from './operations.ts';
import { Refusal } from './refusal.ts';

const paging = z.strictObject({ limit: z.int().min(1).max(200).default(50), cursor: z.string().default('') });
const assigning = z.strictObject({
  conversation_id: z.string(),
  assignee_user_id: z.string(),
  assignment_version: z.string().optional(),
});

export function createInbox(history: History): [string, Operation][] {
  const assigned = new Map<string, { user: string; version: number }>();

  function conversations(): { id: string; assignment_version: string }[] {
    const written = history.all().filter(({ type }) => type === 'MessageReceived');
    const peers = new Map(written.map(({ sessionId, data }) => [`${sessionId}/${String(data['from'])}`, data['from']]));
    return [...peers].map(([id, from]) => {
      const { user = '', version = 1 } = assigned.get(id) ?? {};
      const [session_id] = id.split('/');
      return { id, session_id, chat_jid: from, assignee_user_id: user, assignment_version: String(version) };
    });
  }

  function list(request: unknown): object {
    const { limit, cursor } = valid(paging, request, 'REQUEST_INVALID');
    const all = conversations();
    const end = Number(cursor) + limit;
    return { conversations: all.slice(Number(cursor), end), next_cursor: end < all.length ? String(end) : '' };
  }

  function assign(request: unknown): object {
    const { conversation_id: id, assignee_user_id: user, ...read } = valid(assigning, request, 'REQUEST_INVALID');
    const found = conversations().find((one) => one.id === id);
    if (!found) throw new Refusal(404);
    const { assignment_version: now } = found;
    // The contract gives no status for ASSIGNMENT_CONFLICT (7.4). 409 is the contract's status for conflicts (7.2).
    if (read.assignment_version !== undefined && read.assignment_version !== now)
      throw new Refusal(409, 'ASSIGNMENT_CONFLICT');
    assigned.set(id, { user, version: Number(now) + 1 });
    return { conversation: conversations().find((one) => one.id === id) };
  }

  return [
    ['ListConversations', { scopes: ['product:inbox'], answer: list }],
    ['AssignConversation', { scopes: ['product:inbox', 'messages:send'], answer: assign }],
  ];
}
