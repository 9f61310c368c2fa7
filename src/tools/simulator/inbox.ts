// Messages and conversations (contract 2.8, 2.9). Both follow from the history: a message for each MessageReceived and
// MessageSent, and a conversation for each person that a number exchanged messages with. The contract does not show
// the fields of requests, so the simulator names them like the fields of a conversation and of a message.
import { z } from 'zod';
import type { History } from './history.ts';
import type { Item } from './paging.ts';
import { Refusal } from './refusal.ts';
import { blank } from './shapes.ts';
import { valid } from './valid.ts';

export interface Inbox {
  /** In the order of the history. */
  messages(): Item[];
  conversations(): Item[];
  /** What a MessageSent with this message id has sent. */
  sent(messageId: string, request: Item): void;
  /** AssignConversation (contract 4.2). Throws Refusal. */
  assign(request: Item): object;
}

const assigning = z.looseObject({
  conversation_id: z.string(),
  assignee_user_id: z.string(),
  assignment_version: z.string().optional(),
});
/** Versions are larger than a JavaScript number can hold, so that a caller who reads one as a number fails. */
const FIRST_VERSION = 2n ** 53n + 1n;

export function createInbox(history: History): Inbox {
  const requests = new Map<unknown, Item>();
  const assigned = new Map<unknown, { user: string; version: bigint }>();

  function messages(): Item[] {
    return history.all().flatMap(({ type, sessionId, createdAt, data }) => {
      if (type !== 'MessageReceived' && type !== 'MessageSent') return [];
      const from_me = type === 'MessageSent';
      const id = data['message_id'];
      const { to, chat_jid = to, media_asset_id, ...request }: Item = from_me ? (requests.get(id) ?? {}) : data;
      const peer = from_me ? chat_jid : data['from'];
      const at = String(Date.parse(createdAt));
      const place = peer !== undefined && { conversation_id: `${sessionId}/${peer as string}`, chat_jid: peer };
      const time = { provider_ts_unix_ms: at, created_at_unix_ms: at };
      const way = from_me ? { direction: 'outbound', status: 'sent' } : { direction: 'inbound', sender_jid: peer };
      const known = { id, provider_message_id: id, session_id: sessionId, from_me };
      const media = media_asset_id !== undefined && { media: blank('media', { media_asset_id }) };
      return [
        { ...blank('message', { message_type: 'text', ...request, ...known, ...place, ...time, ...way }), ...media },
      ];
    });
  }

  function conversations(): Item[] {
    const all = new Map<unknown, Item>();
    for (const message of messages().filter(({ conversation_id: id }) => id !== '')) {
      const { conversation_id: id, session_id, chat_jid, created_at_unix_ms: at, direction, body } = message;
      const { user = '', version = FIRST_VERSION } = assigned.get(id) ?? {};
      const before = all.get(id);
      const last = { last_message_at_unix_ms: at, last_message_preview: body, last_message_direction: direction };
      const unread_count = Number(before?.['unread_count'] ?? 0) + (direction === 'inbound' ? 1 : 0);
      const own = { id, session_id, chat_jid, peer_phone: chat_jid, title: chat_jid, status: 'open', unread_count };
      const times = { created_at_unix_ms: before?.['created_at_unix_ms'] ?? at, updated_at_unix_ms: at };
      const assignment = { assignee_user_id: user, assignment_version: String(version) };
      all.set(id, blank('conversation', { ...own, ...last, ...times, ...assignment }));
    }
    return [...all.values()];
  }

  return {
    messages,
    conversations,
    sent: (messageId, request) => void requests.set(messageId, request),
    assign(request) {
      const { conversation_id, assignee_user_id, assignment_version } = valid(assigning, request, 'REQUEST_INVALID');
      const find = (): Item | undefined => conversations().find(({ id }) => id === conversation_id);
      const now = find()?.['assignment_version'];
      // The contract gives no status for ASSIGNMENT_CONFLICT (7.4). 409 is the contract's status for conflicts (7.2).
      if (assignment_version !== undefined && assignment_version !== now)
        throw new Refusal(409, 'ASSIGNMENT_CONFLICT', 'someone else has assigned it since');
      assigned.set(conversation_id, { user: assignee_user_id, version: BigInt(String(now)) + 1n });
      return { conversation: find() };
    },
  };
}
