// The tables of fields (contract 2, 4.2), read through the client: an answer arrives unchanged, its fields have the
// types of the table, and another type is noticed.
import { expect, expectTypeOf } from 'vitest';
import type { ItemOf, ResponseOf } from '../../src/kit.ts';
import { holds } from './holds.ts';
import { ok, sse, startClient } from './scripted.ts';

interface Kind {
  one: string;
  many: string;
  right: unknown;
  wrong: unknown;
}
const part = { order: 1, kind: 'text', text: 'hi', media_asset_id: 'a' };
const KINDS = {
  string: { one: 'a string', many: 'strings', right: 'text', wrong: 1 },
  // Number would round it.
  decimal: {
    one: 'a 64-bit integer in a string',
    many: '64-bit integers in strings',
    right: '9223372036854775807',
    wrong: 7,
  },
  integer: { one: 'an integer', many: 'integers', right: 7, wrong: '7' },
  boolean: { one: 'a boolean', many: 'booleans', right: true, wrong: 'true' },
  parts: { one: 'an array of parts', many: 'arrays of parts', right: [part], wrong: [{ ...part, order: '1' }] },
  strings: { one: 'an array of strings', many: 'arrays of strings', right: ['a'], wrong: [1] },
} satisfies Record<string, Kind>;
type Row = [kind: keyof typeof KINDS, names: string];

async function proveFields(operation: string, rows: Row[], wrap: (fields: object) => object): Promise<void> {
  const right = Object.fromEntries(
    rows.flatMap(([kind, names]) => names.split(' ').map((n) => [n, KINDS[kind].right])),
  );
  const wrong = rows.flatMap(([kind, names]) => names.split(' ').map((name) => ({ [name]: KINDS[kind].wrong })));
  const answers = [right, ...wrong].map(wrap);
  const { service, odd } = await startClient(answers.map(ok));
  expect(await service.call(operation, {})).toEqual(answers[0]);
  expect(odd, 'a right answer fits its shape').toEqual([]);
  for (const answer of answers.slice(1)) expect(await service.call(operation, {})).toEqual(answer);
  const names = wrong.flatMap((one) => Object.keys(one));
  const path = (name: string): unknown => expect.stringMatching(new RegExp(`(^|\\.)${name}(\\.|$)`));
  expect(odd, 'each wrong field is noticed').toEqual(names.map((name) => ({ operation, field: path(name) })));
}

/** One statement for each row of a table. `wrap` puts its fields into an answer of the operation. */
function table(section: string, of: string, operation: string, rows: Row[], wrap: (fields: object) => object): void {
  for (const row of rows) {
    const { one, many } = KINDS[row[0]];
    const names = row[1].split(' ');
    const is = names.length === 1 ? `is ${one}` : `are ${many}`;
    holds(section, `${of}: ${names.join(', ')} ${is}`, () => proveFields(operation, [row], wrap));
  }
}

table(
  '2.1',
  'flow run',
  'PauseConversationFlow',
  [
    ['string', 'id flow_id flow_name'],
    ['integer', 'version'],
    ['string', 'conversation_id session_id'],
    ['string', 'state'],
    ['string', 'current_node_id'],
    ['string', 'variables_json'],
    ['decimal', 'started_at_unix_ms updated_at_unix_ms ended_at_unix_ms'],
    ['string', 'ended_reason last_error conversation_title'],
  ],
  (run) => ({ active: run }),
);
table(
  '2.2',
  'flow run step',
  'GetFlowRun',
  [
    ['integer', 'seq'],
    ['string', 'node_id node_type action result detail error message_id'],
    ['decimal', 'at_unix_ms'],
  ],
  (step) => ({ steps: [step] }),
);
table(
  '2.3',
  'opportunity',
  'UpdateCrmOpportunity',
  [
    ['string', 'id contact_id contact_name contact_phone contact_temperature contact_qualification conversation_id'],
    ['string', 'pipeline_id stage_id title'],
    ['decimal', 'value_cents'],
    ['string', 'currency owner_user_id status loss_reason_id loss_note'],
    ['string', 'expected_close_at'],
    ['decimal', 'closed_at_unix_ms stage_entered_at_unix_ms created_at_unix_ms updated_at_unix_ms'],
    ['string', 'source created_by'],
  ],
  (opportunity) => ({ opportunity }),
);
table(
  '2.4',
  'task',
  'ListCrmTasks',
  [
    ['string', 'id title notes contact_id contact_name opportunity_id opportunity_title'],
    ['string', 'conversation_id assignee_user_id'],
    ['decimal', 'due_at_unix_ms done_at_unix_ms created_at_unix_ms'],
    ['string', 'done_by source created_by'],
  ],
  (task) => ({ tasks: [task] }),
);
table(
  '2.5',
  'tag',
  'ListCrmTags',
  [
    ['string', 'id name color'],
    ['boolean', 'archived'],
    ['decimal', 'contact_count'],
  ],
  (tag) => ({ tags: [tag] }),
);
table(
  '2.6',
  'campaign',
  'ListCampaignHistory',
  [
    ['string', 'campaign_id name status'],
    ['decimal', 'created_at_unix_ms completed_at_unix_ms'],
    ['integer', 'total sent_count failed_count'],
    ['boolean', 'has_audience'],
    ['decimal', 'replied'],
  ],
  (campaign) => ({ campaigns: [campaign] }),
);
table(
  '2.7',
  'page',
  'ListCampaignHistory',
  [
    ['integer', 'page page_size total_pages'],
    ['decimal', 'total_items'],
    ['boolean', 'has_next_page'],
  ],
  (page) => ({ page }),
);
table(
  '2.8',
  'message',
  'ListMessages',
  [
    ['string', 'id conversation_id session_id chat_jid sender_jid'],
    ['boolean', 'from_me'],
    ['string', 'provider_message_id direction message_type body caption'],
    ['string', 'quoted_provider_id origin status status_detail author_user_id'],
    ['decimal', 'edited_at_unix_ms revoked_at_unix_ms provider_ts_unix_ms created_at_unix_ms'],
    ['string', 'idempotency_key'],
  ],
  (message) => ({ messages: [message] }),
);
table(
  '2.8',
  'media of a message',
  'ListMessages',
  [
    ['string', 'media_asset_id mime file_name'],
    ['decimal', 'size_bytes'],
    ['integer', 'seconds'],
  ],
  (media) => ({ messages: [{ media }] }),
);
table(
  '2.9',
  'conversation',
  'AssignConversation',
  [
    ['string', 'id session_id chat_jid contact_id contact_name'],
    ['boolean', 'is_group'],
    ['string', 'title peer_phone'],
    ['decimal', 'last_message_at_unix_ms'],
    ['string', 'last_message_preview last_message_direction'],
    ['integer', 'unread_count'],
    ['string', 'status assignee_user_id'],
    ['decimal', 'assignment_version'],
    ['string', 'queue'],
    ['decimal', 'resolved_at_unix_ms created_at_unix_ms updated_at_unix_ms'],
  ],
  (conversation) => ({ conversation }),
);
table(
  '2.10',
  'template',
  'CreateMessageTemplate',
  [
    ['string', 'id topic label'],
    ['parts', 'parts'],
    ['boolean', 'active'],
    ['decimal', 'created_at_unix_ms updated_at_unix_ms'],
    ['string', 'role'],
  ],
  (message) => ({ message }),
);
table(
  '2.10',
  'part of a template',
  'ListQuickReplies',
  [
    ['integer', 'order'],
    ['string', 'kind text media_asset_id'],
  ],
  (one) => ({ messages: [{ parts: [one] }] }),
);
table(
  '2.10',
  'response of a template',
  'ListQuickReplies',
  [
    ['string', 'id message_id'],
    ['parts', 'parts'],
    ['integer', 'weight'],
    ['boolean', 'active'],
  ],
  (response) => ({ messages: [{ responses: [response] }] }),
);
table(
  '2.11',
  'group participant result',
  'RemoveGroupParticipants',
  [
    ['string', 'jid status'],
    ['boolean', 'ok'],
  ],
  (result) => ({ results: [result] }),
);
table(
  '2.12',
  'contact import',
  'ImportNetworkContacts',
  [
    ['boolean', 'dry_run'],
    ['integer', 'found new_contacts existing filled skipped_lid_only invalid'],
    ['integer', 'from_address_book from_chats from_groups address_book_entries'],
    ['boolean', 'groups_unavailable'],
    ['strings', 'phones'],
  ],
  (result) => result,
);
table(
  '2.12',
  'sample of a contact import',
  'ImportNetworkContacts',
  [
    ['string', 'phone name source'],
    ['boolean', 'exists'],
  ],
  (contact) => ({ sample: [contact] }),
);
table('2.13', 'stored event', 'ReplayEvents', [['string', 'json_payload cursor']], (event) => ({ events: [event] }));

const PROGRESS: [event: string, member: object][] = [
  ['progress', { stage: 'connecting', session_id: '5f0c3a52-6f1e-4c55-9a52-9d9f5b1f6d11' }],
  ['qr', { data: 'pairing code' }],
  ['connected', { phone: '15550100', connected_at_unix_ms: '9223372036854775807' }],
];
for (const [event, member] of PROGRESS)
  holds(
    '2.14',
    `a session progress event ${event} has the member ${event}: ${Object.keys(member).join(', ')}`,
    async () => {
      const item = { event, [event]: member };
      const { service } = await startClient(sse(['message', item], ['end', {}]));
      expect(await Array.fromAsync(service.resume('a'))).toEqual([item]);
    },
  );

holds(
  '2',
  'the client types times, counters, sizes and amounts as 64-bit integers in strings, and rounds none',
  async () => {
    const messages = [{ created_at_unix_ms: '9007199254740993', media: { size_bytes: '9223372036854775807' } }];
    const { service } = await startClient(ok({ messages, next_cursor: '' }));
    expect(await Array.fromAsync(service.items('ListMessages', {}))).toEqual(messages);
    type Message = ItemOf<'ListMessages'>;
    expectTypeOf<Message['created_at_unix_ms']>().toEqualTypeOf<`${bigint}` | undefined>();
    expectTypeOf<NonNullable<Message['media']>['size_bytes']>().toEqualTypeOf<`${bigint}` | undefined>();
    expectTypeOf<NonNullable<ResponseOf<'UpdateCrmOpportunity'>['opportunity']>['value_cents']>().toEqualTypeOf<
      `${bigint}` | undefined
    >();
    expectTypeOf<ResponseOf<'AddCrmListMembers'>['changed']>().toEqualTypeOf<`${bigint}` | undefined>();
  },
);

holds('2', 'the client passes on fields that the contract does not name, and a missing field is no error', async () => {
  const answer = { tags: [{ id: 'a', shade: 3 }, {}], added: true };
  const { service, odd } = await startClient(ok(answer));
  expect(await service.call('ListCrmTags', {})).toEqual(answer);
  expect(odd).toEqual([]);
});

/** The objects in the answers of operations: a wrong one has another type in one field. */
const OBJECTS: Record<string, [right: unknown, wrong: unknown]> = {
  'flow run': [{ version: 1 }, { version: '1' }],
  'array of flow run': [[{ version: 1 }], [{ version: '1' }]],
  'array of step': [[{ seq: 1 }], [{ seq: '1' }]],
  opportunity: [{ value_cents: '1' }, { value_cents: 1 }],
  'array of task': [[{ id: 'a' }], [{ id: 1 }]],
  'array of tag': [[{ archived: false }], [{ archived: 'no' }]],
  'array of campaign': [[{ total: 1 }], [{ total: '1' }]],
  page: [{ page: 1 }, { page: '1' }],
  'array of group participant result': [[{ ok: true }], [{ ok: 'yes' }]],
  template: [{ active: true }, { active: 'yes' }],
  'array of template': [[{ active: true }], [{ active: 'yes' }]],
  'array of message': [[{ from_me: true }], [{ from_me: 'yes' }]],
  conversation: [{ unread_count: 1 }, { unread_count: '1' }],
  'array of stored event': [[{ cursor: '1' }], [{ cursor: 1 }]],
};
const RESPONSES: [operation: string, fields: Record<string, string>][] = [
  ['ResumeCampaign', { ok: 'boolean' }],
  ['PauseConversationFlow', { active: 'flow run', recent: 'array of flow run' }],
  ['GetFlowRun', { run: 'flow run', steps: 'array of step' }],
  ['UpdateCrmOpportunity', { opportunity: 'opportunity' }],
  ['ListCrmTasks', { tasks: 'array of task', next_cursor: 'string' }],
  ['ListCrmTags', { tags: 'array of tag' }],
  ['ListCampaignHistory', { campaigns: 'array of campaign', page: 'page', next_cursor: 'string' }],
  ['AddCrmListMembers', { changed: 'decimal', member_count: 'decimal', not_found: 'decimal' }],
  ['PurgeRecoverySequence', { deleted: 'boolean', name: 'string', runs: 'decimal' }],
  ['EnrollRecovery', { enrolled: 'decimal', skipped: 'decimal' }],
  ['RemoveGroupParticipants', { supported: 'boolean', results: 'array of group participant result' }],
  ['DeleteCrmList', { ok: 'boolean', detail: 'string', message_id: 'string' }],
  ['DeleteMessageTemplate', { ok: 'boolean' }],
  ['CreateMessageTemplate', { message: 'template' }],
  ['ListMessages', { messages: 'array of message', next_cursor: 'string' }],
  ['AssignConversation', { conversation: 'conversation' }],
  ['ListQuickReplies', { messages: 'array of template', page: 'page' }],
  ['PurgeCrmArchived', { deleted: 'boolean', name: 'string', affected: 'decimal', blocking: 'decimal' }],
  [
    'ReplayEvents',
    { events: 'array of stored event', next_cursor: 'string', has_more: 'boolean', reset_required: 'boolean' },
  ],
];
for (const [operation, fields] of RESPONSES) {
  const shown = Object.entries(fields).map(([name, kind]) => `${name} (${kind === 'decimal' ? 'string' : kind})`);
  holds('4.2', `${operation} answers ${shown.join(', ')}`, async () => {
    const valuesOf = (kind: string): [unknown, unknown] => {
      const { right, wrong } = KINDS[kind as keyof typeof KINDS] ?? {};
      return OBJECTS[kind] ?? [right, wrong];
    };
    const right = Object.fromEntries(Object.entries(fields).map(([name, kind]) => [name, valuesOf(kind)[0]]));
    const wrong = Object.entries(fields).map(([name, kind]) => ({ [name]: valuesOf(kind)[1] }));
    const { service, odd } = await startClient([right, ...wrong].map(ok));
    expect(await service.call(operation, {})).toEqual(right);
    expect(odd).toEqual([]);
    for (const answer of wrong) await service.call(operation, {}).then((got) => expect(got).toEqual(answer));
    expect(odd.map(({ field }) => field.split('.')[0])).toEqual(Object.keys(fields));
  });
}
