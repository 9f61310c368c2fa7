// Messages and conversations (contract 2.8, 2.9). Both are derived from the history.
import type { History, SimulatedEvent } from './history.ts';

export type Fields = Record<string, unknown>;

/** The file of each message whose type is not `text`. */
export const MEDIA = { mime: 'text/plain', text: 'what a person has sent' };

export function createInbox(history: History) {
  /** The requests that sent messages, by the id of the message. */
  const requests = new Map<unknown, Fields>();

  const messages = (): Fields[] =>
    history.all().flatMap((event) => (/^Message(Received|Sent)$/.test(event.type) ? [messageOf(event)] : []));

  function messageOf({ type, sessionId, data }: SimulatedEvent): Fields {
    const { message_id: id, timestamp_unix_ms: at, from, ...words } = data;
    const said: Fields = { message_type: 'text', ...words, ...requests.get(id) };
    const { to, message_type } = said;
    const [from_me, peer] = [type === 'MessageSent', from ?? to];
    const { conversation_id = `${sessionId}/${String(peer)}` } = said;
    const facts = { id, conversation_id, session_id: sessionId, chat_jid: peer, from_me };
    const way = from_me ? { direction: 'outbound', status: 'sent' } : { direction: 'inbound', sender_jid: from };
    const file = { media_asset_id: id, mime: MEDIA.mime, size_bytes: String(MEDIA.text.length) };
    return {
      ...said,
      ...facts,
      ...way,
      ...(message_type !== 'text' && { media: file }),
      created_at_unix_ms: String(at),
    };
  }

  return {
    messages,
    conversations: (): Fields[] =>
      [...Map.groupBy(messages(), ({ conversation_id }) => conversation_id)].map(([id, told]) => {
        const { session_id, chat_jid, created_at_unix_ms, body, direction, is_group = false } = told.at(-1) ?? {};
        const last = { last_message_at_unix_ms: created_at_unix_ms, last_message_preview: body };
        const rest = { last_message_direction: direction, status: 'open', unread_count: told.length };
        return { id, session_id, chat_jid, is_group, peer_phone: chat_jid, ...last, ...rest };
      }),
    /** Keeps the request that sent the message with this id. */
    sent: (id: string, request: Fields): void => void requests.set(id, request),
  };
}
