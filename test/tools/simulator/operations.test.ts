import { describe, expect, test } from 'vitest';
import type { z } from 'zod';
import { operations as shapes } from '../../../src/service/operations.ts';
import { refusal, setUp } from './caller.ts';

const SCOPES =
  'sessions:read messages:send messages:view_once events:read groups:manage product:inbox product:contacts product:campaigns product:templates product:media product:flows product:warmup'.split(
    ' ',
  );
const INVALID = [400, 'VALIDATION_FAILED', 'REQUEST_INVALID'];
const FORBIDDEN = [403, 'FORBIDDEN', 'RPC_METHOD_FORBIDDEN'];

/** A scope that is not enough, the scopes that are, and a request. From the table of contract 4.2. */
const DOCUMENTED: [name: string, wrong: string, right: string[], request?: object][] = [
  ['GetApiKeyIdentity', '', ['groups:read']],
  ['ResumeCampaign', 'product:contacts', ['product:campaigns']],
  ['PauseConversationFlow', 'product:flows', ['product:inbox', 'messages:send']],
  ['GetFlowRun', 'product:inbox', ['product:flows']],
  ['UpdateCrmOpportunity', 'product:inbox', ['product:contacts', 'product:inbox messages:send']],
  ['ListCrmTasks', 'product:campaigns', ['product:contacts', 'product:inbox']],
  ['ListCrmTags', 'product:campaigns', ['product:contacts', 'product:inbox']],
  ['ListCampaignHistory', 'product:contacts', ['product:campaigns']],
  ['AddCrmListMembers', 'product:contacts', ['product:campaigns'], { segment_id: 's' }],
  ['PurgeRecoverySequence', 'product:contacts', ['product:campaigns']],
  ['EnrollRecovery', 'product:contacts', ['product:campaigns'], { list_id: 'l' }],
  ['RemoveGroupParticipants', 'groups:read', ['groups:manage']],
  ['DeleteCrmList', 'product:contacts', ['product:campaigns']],
  ['DeleteMessageTemplate', 'product:campaigns', ['product:templates']],
  ['CreateMessageTemplate', 'product:campaigns', ['product:templates']],
  ['ListMessages', 'messages:send', ['product:inbox']],
  ['AssignConversation', 'product:contacts', ['product:inbox', 'messages:send'], { conversation_id: 'unknown' }],
  ['ImportNetworkContacts', 'product:inbox', ['product:contacts']],
  ['ListQuickReplies', 'messages:send', ['product:inbox']],
  ['PurgeCrmArchived', 'product:inbox', ['product:contacts', 'product:inbox messages:send']],
  ['ReplayEvents', 'groups:read', ['events:read']],
];
const BY_PAGE = ['ListConnectedDevices', 'ListQuickReplies', 'ListSessions', 'ListWarmupDevices'];
const BY_CURSOR =
  'ListCalls ListCampaignAudience ListCampaignDeliveries ListCampaignHistory ListCampaigns ListContacts ListConversations ListCrmContacts ListCrmListMembers ListCrmOpportunities ListCrmTasks ListDialogTrees ListFlowRuns ListMedia ListMessages ListMessageTemplates ListRecoveryRuns ListViewOnceMedia'.split(
    ' ',
  );
const UNPAGED = ['GetSession', 'ImportContacts', 'UploadMedia'];

test('4.2: GET /v1 lists all 42 operations that the contract names', async () => {
  const { ask } = await setUp();
  const names = new Set([...DOCUMENTED.map(([name]) => name), ...BY_PAGE, ...BY_CURSOR, ...UNPAGED]);
  expect(names.size).toBe(42);
  const listed = (await ask('GET', '/v1')).body['operations'] as string[];
  expect(listed.toSorted()).toEqual([...names].toSorted());
});

test.each(DOCUMENTED.filter(([, wrong]) => wrong !== ''))(
  '4.2, 5.3: %s needs its scope: %s alone gets RPC_METHOD_FORBIDDEN',
  async (name, wrong, right, request = {}) => {
    const { call, key, keys } = await setUp();
    for (const scopes of right) {
      keys.edit(key, { scopes: scopes.split(' ') });
      expect([200, 404, 428]).toContain((await call(name, request)).status);
    }
    keys.edit(key, { scopes: [wrong] });
    expect(refusal(await call(name, request))).toEqual(FORBIDDEN);
  },
);

/** Which fields of the answer are missing, additional or of another type than the contract shows. */
function differences(schema: z.ZodType, value: unknown, path = ''): string[] {
  const { unwrap, element, shape } = schema as unknown as {
    unwrap?: () => z.ZodType;
    element?: z.ZodType;
    shape?: Record<string, z.ZodType>;
  };
  if (element) {
    const items = value as unknown[];
    return items.length === 0 ? [`${path} is empty`] : items.flatMap((item) => differences(element, item, path));
  }
  if (shape) {
    const names = new Set([...Object.keys(shape), ...Object.keys(value as object)]);
    return [...names].flatMap((name) => {
      const field = shape[name];
      const inside = (value as Record<string, unknown>)[name];
      if (!field || inside === undefined) return [`${path}.${name} is ${field ? 'missing' : 'not of the contract'}`];
      return differences(field, inside, `${path}.${name}`);
    });
  }
  if (unwrap) return differences(unwrap.call(schema), value, path);
  return schema.safeParse(value).success ? [] : [`${path} has another type`];
}

test.each(DOCUMENTED)('2, 4.2: %s answers in its documented shape', async (name, _, __, given = {}) => {
  const { call, history, quote, send } = await setUp({ scopes: SCOPES });
  const message = { session_id: history.numbers[0], to: '15550101', media_asset_id: 'a' };
  await send(message, await quote('messages/send', message));
  const conversation = { conversation_id: `${history.numbers[0]}/15550101`, assignee_user_id: 'u' };
  const request = name === 'AssignConversation' ? conversation : given;
  const billing = { quoteId: name === 'ResumeCampaign' ? await quote(name, request) : 'ignored' };
  const { status, headers, body } = await call(name, request, { billing });
  expect(status).toBe(200);
  const isShown = name !== 'GetApiKeyIdentity';
  expect(headers.get('x-invented')).toBe(isShown ? null : 'true');
  if (!isShown) return;
  if (name === 'ReplayEvents') expect(body['events']).toMatchObject([{ cursor: history.all()[0]?.cursor }]);
  const { response } = shapes[name as keyof typeof shapes] as unknown as { response: z.ZodType };
  expect(differences(response, body)).toEqual([]);
});

test.each([...BY_CURSOR, ...BY_PAGE, ...UNPAGED].filter((name) => !DOCUMENTED.some(([known]) => known === name)))(
  '4.2: %s, which the contract only names, has an empty answer, marked as invented',
  async (name) => {
    const { call, service } = await setUp({ scopes: SCOPES });
    const { status, headers, body } = await call(name, {});
    expect([status, headers.get('x-invented')]).toEqual([200, 'true']);
    expect(service.invented).toContain(name);
    if (BY_CURSOR.includes(name)) expect(body).toEqual({ [Object.keys(body)[0] ?? '']: [], next_cursor: '' });
    else if (BY_PAGE.includes(name)) expect(body).toMatchObject({ items: [], page: { page: 1, has_next_page: false } });
    else expect(body).toEqual({});
  },
);

describe('4.5: pages', () => {
  test.each(BY_CURSOR)('4.5: %s accepts both ways of paging, and the cursor has priority', async (name) => {
    const { call, service } = await setUp({ scopes: SCOPES });
    service.happen(20);
    const field = (body: object) => Object.values(body)[0] as unknown[];
    const first = await call(name, { limit: 1, pagination: { page: 9 } });
    expect(first.body).toHaveProperty('next_cursor');
    const cursor = String(first.body['next_cursor']);
    const second = await call(name, { limit: 1, cursor, pagination: { page: 9 } });
    const byPage = await call(name, { pagination: { page: 2, page_size: 1 } });
    expect(byPage.body['page']).toMatchObject({ page: 2, page_size: 1 });
    if (cursor === '') return;
    expect(field(second.body)).toEqual(field(byPage.body));
    expect(field(second.body)).not.toEqual(field(first.body));
  });

  test.each(BY_PAGE)('4.5: %s is paged by number only', async (name) => {
    const { call } = await setUp({ scopes: SCOPES });
    expect((await call(name, { pagination: { page: 1, page_size: 200 } })).body).not.toHaveProperty('next_cursor');
    for (const request of [{ limit: 1 }, { cursor: '' }]) expect(refusal(await call(name, request))).toEqual(INVALID);
  });

  test.each(['ListCrmTags', 'GetFlowRun', 'GetSession'])(
    '4.5, 7.4: %s has no pages: limit, cursor and pagination get REQUEST_INVALID',
    async (name) => {
      const { call } = await setUp({ scopes: SCOPES });
      for (const request of [{ limit: 1 }, { cursor: '' }, { pagination: {} }])
        expect(refusal(await call(name, request))).toEqual(INVALID);
    },
  );

  test('2.7: the page metadata of a list count its items and its pages', async () => {
    const { call } = await setUp({ scopes: SCOPES });
    const page = async (number: number) =>
      (await call('ListQuickReplies', { pagination: { page: number, page_size: 200 } })).body['page'];
    const counts = { page_size: 200, total_pages: 3, total_items: '450' };
    expect(await page(1)).toEqual({ page: 1, ...counts, has_next_page: true });
    expect(await page(3)).toEqual({ page: 3, ...counts, has_next_page: false });
  });

  test('4.5, 8: a page of a list has 50 items by default, and 200 at most', async () => {
    const { call, service } = await setUp({ scopes: SCOPES });
    service.happen(201);
    const count = async (request: object) => ((await call('ListMessages', request)).body['messages'] as []).length;
    expect([await count({}), await count({ limit: 200 })]).toEqual([50, 200]);
    expect([await count({ pagination: {} }), await count({ pagination: { page_size: 200 } })]).toEqual([50, 200]);
    const wrong = [0, 201, 1.5, '10'].flatMap((size) => [{ limit: size }, { pagination: { page_size: size } }]);
    for (const request of [...wrong, { pagination: { page: 0 } }, { pagination: { pageSize: 1 } }])
      expect(refusal(await call('ListMessages', request))).toEqual(INVALID);
  });

  test('4.5: an empty cursor asks for the first page of a list', async () => {
    const { call, service } = await setUp({ scopes: SCOPES });
    service.happen(3);
    const omitted = await call('ListMessages', { limit: 2 });
    expect(omitted.body['next_cursor']).not.toBe('');
    expect((await call('ListMessages', { limit: 2, cursor: '' })).body).toEqual(omitted.body);
  });

  test('4.5: a list that changes between two pages neither skips nor repeats an item', async () => {
    const { call, history, service } = await setUp({ scopes: SCOPES });
    service.happen(30);
    const all = (await call('ListConversations', {})).body['conversations'] as { id: string }[];
    const first = await call('ListConversations', { limit: 2, status: 'open', assignee_user_id: '' });
    // The first conversation leaves the filtered list, and a new one is added.
    await call('AssignConversation', { conversation_id: all[0]?.id, assignee_user_id: 'u' });
    service.happen(1, 'MessageReceived', { sessionId: history.numbers[0] ?? '', data: { from: '15550199' } });
    const rest = { limit: 200, status: 'open', assignee_user_id: '', cursor: first.body['next_cursor'] };
    const second = (await call('ListConversations', rest)).body['conversations'] as { id: string }[];
    const ids = [...(first.body['conversations'] as typeof all), ...second].map(({ id }) => id);
    expect(ids).toEqual([...all.map(({ id }) => id), `${history.numbers[0]}/15550199`]);
  });

  test.each(['1', 'nonsense', 'TGlzdENhbGxzIDE'])(
    '4.5: a list refuses the cursor %j, which no page gave',
    async (cursor) => {
      const { call } = await setUp({ scopes: SCOPES });
      expect(refusal(await call('ListMessages', { cursor }))).toEqual(INVALID);
    },
  );
});

describe('requests', () => {
  const many = (count: number) => Array<string>(count).fill('1');

  test.each<[name: string, what: string, request: object]>([
    ['AddCrmListMembers', '1000 contact_ids', { contact_ids: many(1_000) }],
    ['AddCrmListMembers', '10000 phones', { phones: many(10_000) }],
    ['AddCrmListMembers', 'a segment_id', { segment_id: 's', list_id: 'the list' }],
    ['EnrollRecovery', '1000 contact_ids', { contact_ids: many(1_000) }],
    ['EnrollRecovery', 'a list_id', { list_id: 'l', sequence_id: 's' }],
    ['ReplayEvents', 'a limit of 1000', { limit: 1_000 }],
    ['GetApiKeyIdentity', 'an empty request', {}],
    ['ListConversations', 'filters', { status: 'open', queue: 'sales', unknown_filter: 1 }],
  ])('4.2, 8: %s accepts %s', async (name, _, request) => {
    const { call } = await setUp({ scopes: SCOPES });
    expect((await call(name, request)).status).toBe(200);
  });

  test.each<[name: string, what: string, request: object]>([
    ['AddCrmListMembers', '1001 contact_ids', { contact_ids: many(1_001) }],
    ['AddCrmListMembers', '10001 phones', { phones: many(10_001) }],
    ['AddCrmListMembers', 'a phone that is a number', { phones: [1] }],
    ['AddCrmListMembers', 'two sources', { segment_id: 's', phones: ['1'] }],
    ['AddCrmListMembers', 'no source', {}],
    ['EnrollRecovery', '1001 contact_ids', { contact_ids: many(1_001) }],
    ['EnrollRecovery', 'two sources', { list_id: 'l', segment_id: 's' }],
    ['EnrollRecovery', 'no source', {}],
    ['ReplayEvents', 'a limit of 1001', { limit: 1_001 }],
    ['ReplayEvents', 'a limit of 0', { limit: 0 }],
    ['ReplayEvents', 'a field that it does not have', { types: ['MessageReceived'] }],
    ['GetApiKeyIdentity', 'a field', { id: '1' }],
  ])('4.2, 7.4, 8: %s refuses %s with REQUEST_INVALID', async (name, _, request) => {
    const { call } = await setUp({ scopes: SCOPES });
    expect(refusal(await call(name, request))).toEqual(INVALID);
  });

  test('4.2: AddCrmListMembers adds only phones of existing contacts, and counts the others', async () => {
    const { call, service } = await setUp({ scopes: SCOPES });
    service.happen(1, 'MessageReceived', { data: { from: '15550101' } });
    const { body } = await call('AddCrmListMembers', { phones: ['15550101', '15550999'] });
    expect(body).toEqual({ changed: '1', member_count: '1', not_found: '1' });
  });

  test('2.8, 7.3: a message that was sent to a chat_jid is found in its conversation', async () => {
    const { call, history, quote, send } = await setUp({ scopes: SCOPES });
    const [session_id = ''] = history.numbers;
    const message = { session_id, chat_jid: '15550101', body: 'hi' };
    await send(message, await quote('messages/send', message));
    const { body } = await call('ListMessages', { conversation_id: `${session_id}/15550101` });
    expect(body['messages']).toMatchObject([{ chat_jid: '15550101', body: 'hi', from_me: true }]);
  });

  test('2.9, 4.2: ListConversations and ListMessages filter by fields of their items', async () => {
    const { call, history, service } = await setUp({ scopes: SCOPES });
    service.happen(30);
    const [session_id = ''] = history.numbers;
    const { body } = await call('ListConversations', { session_id });
    const shown = body['conversations'] as { id: string; session_id: string; unread_count: number }[];
    expect(shown.length).toBeGreaterThan(0);
    expect(shown.every((one) => one.session_id === session_id)).toBe(true);
    const [{ id: conversation_id, unread_count } = { id: '', unread_count: 0 }] = shown;
    const messages = (await call('ListMessages', { conversation_id })).body['messages'] as object[];
    expect(messages).toHaveLength(unread_count);
    expect(messages.every((one) => 'conversation_id' in one && one.conversation_id === conversation_id)).toBe(true);
  });

  test.each([
    ['session_id', { session_id: crypto.randomUUID() }, [404, 'NOT_FOUND', 'SESSION_NOT_FOUND']],
    ['conversation_id', { conversation_id: 'unknown' }, [404, 'NOT_FOUND']],
    ['numeric conversation_id', { conversation_id: 1 }, [404, 'NOT_FOUND']],
  ])('7.2: an operation with an unknown %s gets 404 NOT_FOUND', async (_, request, refused) => {
    const { call } = await setUp({ scopes: SCOPES });
    for (const name of ['ListMessages', 'PauseConversationFlow', 'GetSession'])
      expect(refusal(await call(name, request))).toEqual(refused);
  });

  test('4.2: a stale assignment_version gets ASSIGNMENT_CONFLICT, and the true one is beyond Number', async () => {
    const { call, service } = await setUp({ scopes: SCOPES });
    service.happen(1);
    const { body } = await call('ListConversations', {});
    const [one] = body['conversations'] as { id: string; assignment_version: string }[];
    const version = one?.assignment_version ?? '';
    expect(String(Number(version))).not.toBe(version);
    const assign = (assignment_version: string) =>
      call('AssignConversation', { conversation_id: one?.id, assignee_user_id: 'u', assignment_version });
    const stale = [409, 'CONFLICT', 'ASSIGNMENT_CONFLICT'];
    expect(refusal(await assign(String(Number(version))))).toEqual(stale);
    expect(await assign(version)).toMatchObject({ status: 200, body: { conversation: { assignee_user_id: 'u' } } });
    expect(refusal(await assign(version))).toEqual(stale);
  });
});

describe('5.4: an API key that is restricted to a number', () => {
  async function restricted() {
    const all = await setUp({ scopes: ['product:inbox', 'messages:send', 'events:read'] });
    const [one = '', other = ''] = all.history.numbers;
    all.service.happen(30);
    all.keys.edit(all.key, { numbers: [one] });
    return { ...all, one, other };
  }

  test.each(['ListConversations', 'ListMessages', 'ListCrmTasks'])(
    '5.4: an API key restricted to a number sees only its own items in %s',
    async (name) => {
      const { call, one } = await restricted();
      const { body } = await call(name, {});
      const items = Object.values(body)[0] as { session_id?: string; conversation_id: string }[];
      expect(items.length).toBeGreaterThan(0);
      for (const { session_id, conversation_id } of items)
        expect(session_id ?? conversation_id.split('/')[0]).toBe(one);
    },
  );

  test('5.4: an API key restricted to a number gets 404 for other numbers and their conversations', async () => {
    const { call, one, other, quote, send } = await restricted();
    const places: object[] = [
      { session_id: other },
      { conversation_id: `${other}/15550101` },
      { session_id: one, conversation_id: `${other}/15550101` },
    ];
    for (const place of places)
      for (const name of ['ListMessages', 'AssignConversation', 'PauseConversationFlow'])
        expect((await call(name, { ...place, assignee_user_id: 'u' })).status).toBe(404);
    const message = { session_id: other, to: '15550101' };
    const quoteId = await quote('messages/send', message);
    expect(refusal(await send(message, quoteId))).toEqual([404, 'NOT_FOUND', 'SESSION_NOT_FOUND']);
    const own = { session_id: one, to: '15550101' };
    expect(await send(own, await quote('messages/send', own))).toMatchObject({ status: 200 });
  });

  test('4.2, E28: ReplayEvents can filter after the limit: a page is short or empty, and next_cursor moves on', async () => {
    const { history, replay, service, one, other } = await restricted();
    const [anchor] = service.happen(1, 'MessageReceived', { sessionId: one });
    const hidden = service.happen(3, 'MessageReceived', { sessionId: other });
    const [mine] = service.happen(1, 'MessageReceived', { sessionId: one });
    const after_cursor = anchor?.cursor;
    const before = await replay({ after_cursor, limit: 3 });
    expect(before.body).toMatchObject({ events: [{ cursor: mine?.cursor }], has_more: false });
    service.replay.filterAfterLimit = true;
    const empty = await replay({ after_cursor, limit: 3 });
    expect(empty.body).toMatchObject({ events: [], next_cursor: hidden.at(-1)?.cursor, has_more: true });
    service.replay.filterAfterLimit = false;
    service.chaos.turn(true);
    // Without a random fault.
    service.chaos.always((truth) => truth);
    expect((await replay({ after_cursor, limit: 3 })).body, 'as chaos does').toEqual(empty.body);
    const short = await replay({ after_cursor: hidden[1]?.cursor, limit: 3 });
    expect(short.body).toMatchObject({ events: [{ cursor: mine?.cursor }], has_more: false });
    expect(history.all().at(-1)?.cursor).toBe(short.body['next_cursor']);
  });
});
