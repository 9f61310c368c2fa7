// The shapes of the service's answers (contract 2), named as in the contract's tables. Every field is optional, and
// other fields are allowed, because the contract does not exclude either. An answer that does not fit is logged and
// passed on. An error would fail a working call, or make a handler repeat a call that was done. Times, sizes, amounts
// and 64-bit counters stay strings.
import { z } from 'zod';

type Words<Text extends string> = Text extends `${infer First} ${infer Rest}` ? First | Words<Rest> : Text;

/** Gives each of these names the same value, because a row of the contract's tables also lists several fields. */
export function named<const Names extends string, Value>(
  names: Names,
  value: Value,
): { [Name in Words<Names>]: Value } {
  return Object.fromEntries(names.split(' ').map((name) => [name, value])) as { [Name in Words<Names>]: Value };
}
export const strings = <const Names extends string>(names: Names) => named(names, z.string().optional());
export const integers = <const Names extends string>(names: Names) => named(names, z.int().optional());
export const booleans = <const Names extends string>(names: Names) => named(names, z.boolean().optional());
/** `${bigint}` is a 64-bit integer in decimal digits (contract 2). For `*_unix_ms`, use `new Date(Number(text))`. */
export const decimals = <const Names extends string>(names: Names) =>
  named(names, z.templateLiteral([z.bigint()]).optional());
/** An optional array. */
export const list = <Schema extends z.ZodType>(schema: Schema) => z.array(schema).optional();

/** Contract 2.1. */
export const flowRun = z.looseObject({
  ...strings('id flow_id flow_name conversation_id session_id state current_node_id variables_json'),
  ...integers('version'),
  ...decimals('started_at_unix_ms updated_at_unix_ms ended_at_unix_ms'),
  ...strings('ended_reason last_error conversation_title'),
});
/** Contract 2.2. */
export const flowStep = z.looseObject({
  ...integers('seq'),
  ...strings('node_id node_type action result detail error message_id'),
  ...decimals('at_unix_ms'),
});
/** Contract 2.3. */
export const opportunity = z.looseObject({
  ...strings('id contact_id contact_name contact_phone contact_temperature contact_qualification conversation_id'),
  ...strings('pipeline_id stage_id title currency owner_user_id status loss_reason_id loss_note expected_close_at'),
  ...decimals('value_cents closed_at_unix_ms stage_entered_at_unix_ms created_at_unix_ms updated_at_unix_ms'),
  ...strings('source created_by'),
});
/** Contract 2.4. */
export const crmTask = z.looseObject({
  ...strings('id title notes contact_id contact_name opportunity_id opportunity_title conversation_id'),
  ...decimals('due_at_unix_ms done_at_unix_ms created_at_unix_ms'),
  ...strings('assignee_user_id done_by source created_by'),
});
/** Contract 2.5. */
export const crmTag = z.looseObject({
  ...strings('id name color'),
  ...booleans('archived'),
  ...decimals('contact_count'),
});
/** Contract 2.6. */
export const campaign = z.looseObject({
  ...strings('campaign_id name status'),
  ...decimals('created_at_unix_ms completed_at_unix_ms replied'),
  ...integers('total sent_count failed_count'),
  ...booleans('has_audience'),
});
/** Contract 2.7. */
export const pageMetadata = z.looseObject({
  ...integers('page page_size total_pages'),
  ...decimals('total_items'),
  ...booleans('has_next_page'),
});
/** Contract 2.8. */
export const message = z.looseObject({
  ...strings('id conversation_id session_id chat_jid sender_jid provider_message_id direction message_type body'),
  ...strings('caption quoted_provider_id origin status status_detail author_user_id idempotency_key'),
  ...booleans('from_me'),
  media: z
    .looseObject({
      ...strings('media_asset_id mime file_name'),
      ...decimals('size_bytes'),
      ...integers('seconds'),
    })
    .optional(),
  ...decimals('edited_at_unix_ms revoked_at_unix_ms provider_ts_unix_ms created_at_unix_ms'),
});
/** Contract 2.9. */
export const conversation = z.looseObject({
  ...strings('id session_id chat_jid contact_id contact_name title peer_phone last_message_preview'),
  ...strings('last_message_direction status assignee_user_id queue'),
  ...booleans('is_group'),
  ...integers('unread_count'),
  ...decimals('last_message_at_unix_ms assignment_version resolved_at_unix_ms created_at_unix_ms updated_at_unix_ms'),
});
const part = z.looseObject({ ...integers('order'), ...strings('kind text media_asset_id') });
/** Contract 2.10. */
export const template = z.looseObject({
  ...strings('id topic label role'),
  ...booleans('active'),
  parts: list(part),
  responses: list(
    z.looseObject({
      ...strings('id message_id'),
      parts: list(part),
      ...integers('weight'),
      ...booleans('active'),
    }),
  ),
  ...decimals('created_at_unix_ms updated_at_unix_ms'),
});
/** Contract 2.11. */
export const participantResult = z.looseObject({ ...strings('jid status'), ...booleans('ok') });
/** Contract 2.12. */
export const contactImport = z.looseObject({
  ...booleans('dry_run groups_unavailable'),
  ...integers('found new_contacts existing filled skipped_lid_only invalid from_address_book from_chats from_groups'),
  ...integers('address_book_entries'),
  sample: list(z.looseObject({ ...strings('phone name source'), ...booleans('exists') })),
  phones: list(z.string()),
});
/** Contract 2.13. */
export const storedEvent = z.looseObject(strings('json_payload cursor'));

/** Contract 2.14. Events with other names are passed on unchanged. */
export type SessionProgress =
  | { event: 'progress'; progress: { stage?: string; session_id?: string } }
  | { event: 'qr'; qr: { /** The pairing code. */ data?: string } }
  | { event: 'connected'; connected: { phone?: string; connected_at_unix_ms?: `${bigint}` } };
