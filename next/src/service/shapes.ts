// The shapes of the answers that receivers need most (contract 2), for types only: answers are passed on unchanged. Every
// field may be missing, and there may be others. Times, sizes and 64-bit counters are decimal text: for `*_unix_ms`, use
// `new Date(Number(text))`.
export type Plain = Record<string, unknown>;
type Words<Text extends string> = Text extends `${infer First} ${infer Rest}` ? First | Words<Rest> : Text;
type Are<Value, Names extends string> = { [Name in Words<Names>]?: Value };
type Int64 = `${bigint}`;

/** Contract 2.8. */
export interface Message
  extends
    Plain,
    Are<string, 'id conversation_id session_id chat_jid sender_jid provider_message_id direction message_type body'>,
    Are<string, 'caption quoted_provider_id origin status status_detail author_user_id idempotency_key'>,
    Are<Int64, 'edited_at_unix_ms revoked_at_unix_ms provider_ts_unix_ms created_at_unix_ms'> {
  from_me?: boolean;
  media?: Plain & Are<string, 'media_asset_id mime file_name'> & { size_bytes?: Int64; seconds?: number };
}

/** Contract 2.9. */
export interface Conversation
  extends
    Plain,
    Are<string, 'id session_id chat_jid contact_id contact_name title peer_phone last_message_preview'>,
    Are<string, 'last_message_direction status assignee_user_id queue'>,
    Are<Int64, 'last_message_at_unix_ms assignment_version resolved_at_unix_ms created_at_unix_ms updated_at_unix_ms'> {
  is_group?: boolean;
  unread_count?: number;
}

/** Contract 2.13. */
export type StoredEvent = Plain & Are<string, 'json_payload cursor'>;

/** The answer of ReplayEvents (contract 4.2). */
export interface ReplayPage extends Plain {
  events?: StoredEvent[];
  next_cursor?: string;
  has_more?: boolean;
  reset_required?: boolean;
}

/** Contract 2.14. Events with other names are passed on unchanged. */
export type SessionProgress =
  | { event: 'progress'; progress: { stage?: string; session_id?: string } }
  | { event: 'qr'; qr: { /** The pairing code. */ data?: string } }
  | { event: 'connected'; connected: { phone?: string; connected_at_unix_ms?: Int64 } };
