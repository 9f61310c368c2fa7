// The shapes of contract 2. The contract shows the names and types of fields, but hardly a value, so an example has
// its field's name as text. Counters and amounts are larger than a JavaScript number can hold.

/** The type follows the name: `*` 64-bit integer as a string, `#` integer, `?` boolean, `[]` array. Others: strings. */
const FIELDS = {
  flowRun:
    'id flow_id flow_name version# conversation_id session_id state current_node_id variables_json started_at_unix_ms* updated_at_unix_ms* ended_at_unix_ms* ended_reason last_error conversation_title',
  flowStep: 'seq# node_id node_type action result detail error message_id at_unix_ms*',
  opportunity:
    'id contact_id contact_name contact_phone contact_temperature contact_qualification conversation_id pipeline_id stage_id title value_cents* currency owner_user_id status loss_reason_id loss_note expected_close_at closed_at_unix_ms* stage_entered_at_unix_ms* created_at_unix_ms* updated_at_unix_ms* source created_by',
  task: 'id title notes contact_id contact_name opportunity_id opportunity_title conversation_id assignee_user_id due_at_unix_ms* done_at_unix_ms* created_at_unix_ms* done_by source created_by',
  tag: 'id name color archived? contact_count*',
  campaign:
    'campaign_id name status created_at_unix_ms* completed_at_unix_ms* total# sent_count# failed_count# has_audience? replied*',
  message:
    'id conversation_id session_id chat_jid sender_jid from_me? provider_message_id direction message_type body caption quoted_provider_id origin status status_detail author_user_id edited_at_unix_ms* revoked_at_unix_ms* provider_ts_unix_ms* created_at_unix_ms* idempotency_key',
  media: 'media_asset_id mime size_bytes* file_name seconds#',
  conversation:
    'id session_id chat_jid contact_id contact_name is_group? title peer_phone last_message_at_unix_ms* last_message_preview last_message_direction unread_count# status assignee_user_id assignment_version* queue resolved_at_unix_ms* created_at_unix_ms* updated_at_unix_ms*',
  template: 'id topic label active? parts[] responses[] created_at_unix_ms* updated_at_unix_ms* role',
  part: 'order# kind text media_asset_id',
  response: 'id message_id parts[] weight# active?',
  participant: 'jid status ok?',
  contactImport:
    'dry_run? found# new_contacts# existing# filled# skipped_lid_only# invalid# from_address_book# from_chats# from_groups# address_book_entries# groups_unavailable? sample[] phones[]',
  contact: 'phone name source exists?',
};

const BEYOND_NUMBER = 2n ** 53n;
const TIME_MS = 1_767_225_600_000;

/** An object with every field of the shape. A field without a value is empty. */
export function blank(shape: keyof typeof FIELDS, values: Record<string, unknown> = {}): Record<string, unknown> {
  return build(shape, values, { '*': () => '0', '#': () => 0, '?': () => false, '[]': () => [], '': () => '' });
}

/** The nth example of a shape. */
export function example(shape: keyof typeof FIELDS, n: number, values: Record<string, unknown> = {}) {
  return build(shape, values, {
    '*': (name) => (name.endsWith('_unix_ms') ? String(TIME_MS + n) : String(BEYOND_NUMBER + BigInt(n))),
    '#': () => n,
    '?': () => true,
    '[]': () => [],
    '': (name) => `${name} ${n}`,
  });
}

export function examples(count: number, of: (n: number) => Record<string, unknown>): Record<string, unknown>[] {
  return Array.from({ length: count }, (_, i) => of(i + 1));
}

function build(
  shape: keyof typeof FIELDS,
  values: Record<string, unknown>,
  byType: Record<string, (name: string) => unknown>,
): Record<string, unknown> {
  const fields = FIELDS[shape].split(' ').map((field) => {
    const [, name = '', type = ''] = /^(\w+)(\W*)$/.exec(field) ?? [];
    return [name, values[name] ?? byType[type]?.(name)];
  });
  return { ...Object.fromEntries(fields) };
}
