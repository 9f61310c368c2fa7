// What the contract says to a client of its operations (4, 5), against a scripted service or the simulator.
import { expect, onTestFinished, vi } from 'vitest';
import { loadConfig } from '../../src/config.ts';
import { operations } from '../../src/service/operations.ts';
import { holds } from './holds.ts';
import { API_KEY, errorBody, errorOf, ok, refusal, sse, startClient, startService } from './scripted.ts';
import { clientOf, ENV, QUOTE, ROUTES } from './calls.ts';

// 4.1

holds('4.1', 'an operation is POST {base_url}/rpc/<OperationName> with the key, as application/json', async () => {
  const { service, calls } = await startClient(ok());
  await service.call('ListCrmTags', {});
  expect(calls).toMatchObject([{ method: 'POST', path: '/v1/rpc/ListCrmTags' }]);
  expect(calls[0]?.headers).toMatchObject({ authorization: `Bearer ${API_KEY}`, 'content-type': 'application/json' });
});

holds('4.1', 'the body of a call has the fields of the operation in request, unchanged, and deadlineMs', async () => {
  const { service, calls } = await startClient(ok());
  await service.call('AddCrmListMembers', { list_id: 'a', phones: ['15550100'] });
  expect(calls[0]?.body).toEqual({ request: { list_id: 'a', phones: ['15550100'] }, deadlineMs: expect.any(Number) });
});

holds('4.1', 'only a call with a quote has billing, which is { quoteId }', async () => {
  const { service, calls } = await startClient(ok());
  await service.call('ResumeCampaign', { campaign_id: 'a' }, QUOTE);
  await service.call('DeleteCrmList', { list_id: 'a' });
  expect(calls.map(({ body }) => body.billing)).toEqual([QUOTE, undefined]);
});

holds('4.1', 'the client asks for a quote with the name and the request of the paid operation', async () => {
  const { service, calls } = await startClient([ok(QUOTE), ok()]);
  const request = { campaign_id: 'a' };
  const { quoteId } = await service.quote('ResumeCampaign', request);
  await service.call('ResumeCampaign', request, { quoteId });
  expect(calls[0]?.body).toEqual({ operation: 'ResumeCampaign', request });
  expect(calls[1]).toMatchObject({ path: '/v1/rpc/ResumeCampaign', body: { request, billing: QUOTE } });
});

holds('4.1', 'the deadlineMs that the client chooses is an integer from 1 to 30000', async () => {
  const { service, calls } = await startClient(ok());
  for (const withinMs of [0.5, 1.5, 29_999.9, 45_000]) await service.call('DeleteCrmList', {}, { withinMs });
  expect(calls.map(({ body }) => body.deadlineMs)).toEqual([1, 1, 29_999, 30_000]);
});

holds('4.1', 'the client sends the deadlineMs of a caller unchanged, from 1 to 30000', async () => {
  const { service, calls } = await startClient(ok());
  for (const deadlineMs of [1, 1_500, 30_000]) await service.call('DeleteCrmList', {}, { deadlineMs });
  expect(calls.map(({ body }) => body.deadlineMs)).toEqual([1, 1_500, 30_000]);
});

holds('4.1', 'the client sends no deadlineMs outside 1 to 30000, whatever a caller asks for', async () => {
  const { service, calls } = await startClient(ok());
  for (const deadlineMs of [1.5, 30_001]) await service.call('DeleteCrmList', {}, { deadlineMs }).catch(() => {});
  const sent = calls.map(({ body }) => Number(body.deadlineMs));
  expect(sent.filter((ms) => !Number.isInteger(ms) || ms < 1 || ms > 30_000)).toEqual([]);
});

holds('4.1', 'the body of an answer 200 is the operation’s response object itself, without an envelope', async () => {
  const answer = { ok: true, error: { code: 'a field like any other' } };
  const { service } = await startClient(ok(answer));
  expect(await service.call('DeleteMessageTemplate', {})).toEqual(answer);
});

holds('4.1', 'an answer 200 that is no object is an error of the client, not an empty success', async () => {
  for (const body of ['', '[]', 'null', '<html>', '{"ok":']) {
    const { service } = await startClient({ body });
    expect(await errorOf(service.call('ListCrmTags', {}))).toMatchObject({ code: 'unreadable', status: 200 });
  }
});

// 4.2

holds('4.2', 'ResumeCampaign is paid: without PAID_OPERATIONS=allow no request is sent', async () => {
  const { service, calls } = await startClient(ok(), { paid: false });
  expect(await errorOf(service.call('ResumeCampaign', {}, QUOTE))).toMatchObject({ code: 'PAID_OPERATIONS_REFUSED' });
  expect(calls).toEqual([]);
});

holds('4.2', 'the client sends an assignment_version back exactly; a stale one gets ASSIGNMENT_CONFLICT', async () => {
  const version = '9223372036854775807';
  const conversation = { id: 'a', assignment_version: version };
  const { service, calls } = await startClient([ok({ conversation }), refusal(409, 'CONFLICT', 'ASSIGNMENT_CONFLICT')]);
  const read = await service.call('AssignConversation', { conversation_id: 'a' });
  const assignment_version = read.conversation?.assignment_version;
  const again = service.call('AssignConversation', { conversation_id: 'a', assignment_version });
  expect(await errorOf(again)).toMatchObject({ code: 'CONFLICT', reason: 'ASSIGNMENT_CONFLICT', retryable: false });
  expect(calls[1]?.body.request).toEqual({ conversation_id: 'a', assignment_version: version });
});

holds('4.2', 'the client passes on FAILED_PRECONDITION with any status and code, and repeats no call', async () => {
  const answers = [
    [400, 'VALIDATION_FAILED'],
    [409, 'CONFLICT'],
    [412, 'FAILED_PRECONDITION'],
  ] as const;
  for (const [status, code] of answers) {
    const { service, calls } = await startClient(refusal(status, code, 'FAILED_PRECONDITION'));
    const error = await errorOf(service.call('PurgeCrmArchived', {}, { idempotent: true }));
    expect(error).toMatchObject({ status, code, reason: 'FAILED_PRECONDITION', retryable: false, uncertain: false });
    expect(calls).toHaveLength(1);
  }
});

holds('4.2', 'the client calls operations that the contract only names, and any other operation', async () => {
  const answer = { devices: [{ id: 'a' }] };
  const { service, odd } = await startClient(ok(answer));
  for (const name of ['GetSession', 'ListConnectedDevices', 'ListWarmupDevices', 'ImportContacts', 'SomethingNew'])
    expect(await service.call(name, {})).toEqual(answer);
  expect(odd).toEqual([]);
});

// 4.3

holds('4.3', 'POST /messages/send is paid: it needs PAID_OPERATIONS=allow, and carries its quote', async () => {
  const { service, calls } = await startClient(ok());
  await service.send({ to: '15550100', body: 'hi' }, QUOTE);
  expect(calls).toMatchObject([{ method: 'POST', path: '/v1/messages/send', body: { billing: QUOTE } }]);
  const unpaid = await startClient(ok(), { paid: false });
  expect(await errorOf(unpaid.service.send({}, QUOTE))).toMatchObject({ code: 'PAID_OPERATIONS_REFUSED' });
  expect(unpaid.calls).toEqual([]);
});

holds('4.3', 'POST /messages/send carries no deadlineMs, which the contract names for operations alone', async () => {
  const { service, calls } = await startClient(ok());
  await service.send({ body: 'hi' }, QUOTE);
  expect(calls).toHaveLength(1);
  expect(calls[0]?.body).not.toHaveProperty('deadlineMs');
});

holds('4.3', 'POST /billing/quotes answers a quote that carries a quote id', async () => {
  const { service, calls } = await startClient(ok(QUOTE));
  expect(await service.quote('ResumeCampaign', {})).toMatchObject(QUOTE);
  expect(calls).toMatchObject([{ method: 'POST', path: '/v1/billing/quotes' }]);
});

holds('4.3', 'the client downloads media by GET /media/{id}', async () => {
  const { service, calls } = await startClient({ headers: { 'content-type': 'image/png' }, body: 'a picture' });
  const { body, mime } = await service.media('a/b');
  expect(Buffer.concat(await Array.fromAsync(body)).toString()).toBe('a picture');
  expect([mime, calls[0]?.method, calls[0]?.path]).toEqual(['image/png', 'GET', '/v1/media/a%2Fb']);
});

holds('4.3', 'POST /sessions/resume has the body { request: { session_id } }', async () => {
  const { service, calls } = await startClient(sse(['end', {}]));
  await Array.fromAsync(service.resume('5f0c3a52-6f1e-4c55-9a52-9d9f5b1f6d11'));
  expect(calls).toMatchObject([{ method: 'POST', path: '/v1/sessions/resume' }]);
  expect(calls[0]?.body).toEqual({ request: { session_id: '5f0c3a52-6f1e-4c55-9a52-9d9f5b1f6d11' } });
});

holds('4.3', 'a reconnection yields the object of each event: message, also a qr, until event: end', async () => {
  const items = [
    { event: 'progress', progress: {} },
    { event: 'qr', qr: { data: 'x' } },
    { event: 'later', later: {} },
  ];
  const messages = items.map((item): [string, object] => ['message', item]);
  const { service } = await startClient(sse(...messages, ['ping', {}], ['end', {}], ['message', { event: 'late' }]));
  expect(await Array.fromAsync(service.resume('a'))).toEqual(items);
});

holds('4.3', 'a reconnection that is cut off before event: end is an error', async () => {
  const { service } = await startClient(sse(['message', { event: 'progress', progress: {} }]));
  expect(await errorOf(Array.fromAsync(service.resume('a')))).toMatchObject({ code: 'unreadable' });
});

holds('4.3', 'the failure of a reconnection is event: error with the standard error body', async () => {
  const { service } = await startClient(sse(['error', errorBody('UNAVAILABLE', 'PAIRING_UNAVAILABLE')]));
  expect(await errorOf(Array.fromAsync(service.resume('a')))).toMatchObject({
    code: 'UNAVAILABLE',
    reason: 'PAIRING_UNAVAILABLE',
    requestId: 'r-1',
  });
});

holds('4.3', 'the client waits at least 5 minutes for a reconnection, and less than 6', async () => {
  const limits: number[] = [];
  const limit = new AbortController();
  const spy = vi.spyOn(AbortSignal, 'timeout').mockImplementation((ms) => (limits.push(ms), limit.signal));
  onTestFinished(() => spy.mockRestore());
  const { service } = await startClient((response) => response.writeHead(200).write(':\n'));
  const reading = errorOf(Array.fromAsync(service.resume('a')));
  await vi.waitUntil(() => limits.length > 0);
  limit.abort(new DOMException('time is up', 'TimeoutError'));
  expect(await reading).toMatchObject({ code: 'unreachable' });
  expect(limits).toEqual([expect.toSatisfy((ms: number) => ms >= 300_000 && ms < 360_000)]);
});

// 4.5

const BY_CURSOR =
  'ListCalls ListCampaignAudience ListCampaignDeliveries ListCampaignHistory ListCampaigns ListContacts ListConversations ListCrmContacts ListCrmListMembers ListCrmOpportunities ListCrmTasks ListDialogTrees ListFlowRuns ListMedia ListMessages ListMessageTemplates ListRecoveryRuns ListViewOnceMedia'.split(
    ' ',
  );
const BY_PAGE = 'ListConnectedDevices ListQuickReplies ListSessions ListWarmupDevices'.split(' ');
const itemsField = (operation: string): string =>
  (operations[operation as 'ListMessages'].pages as { items?: string }).items ?? 'things';

holds(
  '4.5',
  'in cursor mode the client asks for 200 items a page: first without cursor, then with next_cursor',
  async () => {
    const { service, calls } = await startClient([
      ok({ messages: [{ id: 'a' }], next_cursor: 'x' }),
      ok({ messages: [{ id: 'b' }], next_cursor: 'y' }),
      ok({ messages: [{ id: 'c' }], next_cursor: '' }),
    ]);
    const ids = (await Array.fromAsync(service.items('ListMessages', { conversation_id: '1' }))).map(({ id }) => id);
    expect(ids).toEqual(['a', 'b', 'c']);
    expect(calls.map(({ body }) => body.request)).toEqual([
      { conversation_id: '1', limit: 200 },
      { conversation_id: '1', limit: 200, cursor: 'x' },
      { conversation_id: '1', limit: 200, cursor: 'y' },
    ]);
  },
);

holds('4.5', 'in cursor mode an empty or missing next_cursor is the end of the list', async () => {
  for (const body of [{ messages: [], next_cursor: '' }, { messages: [] }]) {
    const { service, calls } = await startClient(ok(body));
    expect(await Array.fromAsync(service.items('ListMessages', {}))).toEqual([]);
    expect(calls).toHaveLength(1);
  }
});

holds('4.5', 'in cursor mode the client keeps the limit and the cursor of the caller', async () => {
  const { service, calls } = await startClient(ok({ messages: [] }));
  await Array.fromAsync(service.pages('ListMessages', { limit: 50, cursor: 'x' }));
  expect(calls[0]?.body.request).toEqual({ limit: 50, cursor: 'x' });
});

holds('4.5', 'in page mode the client asks for pages of 200 items, from page 1 to the last', async () => {
  const page = (number: number, more: boolean): object => ({ page: number, has_next_page: more });
  const { service, calls } = await startClient([
    ok({ messages: [{ id: 'a' }], page: page(1, true) }),
    ok({ messages: [{ id: 'b' }], page: page(2, false) }),
  ]);
  expect(await Array.fromAsync(service.items('ListQuickReplies', {}))).toEqual([{ id: 'a' }, { id: 'b' }]);
  expect(calls.map(({ body }) => body.request)).toEqual([
    { pagination: { page: 1, page_size: 200 } },
    { pagination: { page: 2, page_size: 200 } },
  ]);
});

holds('4.5', 'in page mode the client keeps the page and the page_size of the caller', async () => {
  const { service, calls } = await startClient(ok({ messages: [], page: { page: 9, has_next_page: false } }));
  await Array.fromAsync(service.pages('ListQuickReplies', { pagination: { page: 9, page_size: 50 } }));
  expect(calls.map(({ body }) => body.request)).toEqual([{ pagination: { page: 9, page_size: 50 } }]);
});

for (const operation of BY_CURSOR)
  holds('4.5', `the client reads ${operation} by cursor`, async () => {
    const items = itemsField(operation);
    const { service, calls } = await startClient([
      ok({ [items]: [{ id: 'a' }], next_cursor: 'x' }),
      ok({ [items]: [] }),
    ]);
    expect(await Array.fromAsync(service.items(operation, {}))).toEqual([{ id: 'a' }]);
    expect(calls.map(({ body }) => body.request)).toEqual([{ limit: 200 }, { limit: 200, cursor: 'x' }]);
  });

for (const operation of BY_PAGE)
  holds('4.5', `the client reads ${operation} by page alone`, async () => {
    const items = itemsField(operation);
    const { service, calls } = await startClient(
      ok({ [items]: [{ id: 'a' }], page: { page: 1, has_next_page: false } }),
    );
    expect(await Array.fromAsync(service.items(operation, {}))).toEqual([{ id: 'a' }]);
    expect(calls.map(({ body }) => body.request)).toEqual([{ pagination: { page: 1, page_size: 200 } }]);
  });

holds('4.5', 'the client reads a list that accepts both ways by cursor, without pagination', async () => {
  const { service, calls } = await startClient(ok({ campaigns: [{}], page: { page: 1, has_next_page: true } }));
  expect(await Array.fromAsync(service.items('ListCampaignHistory', {}))).toHaveLength(1);
  expect(calls.map(({ body }) => body.request)).toEqual([{ limit: 200 }]);
});

holds('4.5', 'the client calls a list without pages, such as ListCrmTags, without limit', async () => {
  const { service, calls } = await startClient(ok({ tags: [{ id: 'a' }] }));
  expect(await Array.fromAsync(service.items('ListCrmTags', {}))).toEqual([{ id: 'a' }]);
  expect(calls.map(({ body }) => body.request)).toEqual([{}]);
});

// 5

holds('5.1', 'every call of the client carries Authorization: Bearer <API_KEY>', async () => {
  for (const call of Object.values(ROUTES)) {
    const { service, calls } = await startClient({ body: 'event: end\ndata: {}\n\n' });
    await call(service).catch(() => {});
    expect(calls.map(({ headers }) => headers.authorization)).toEqual([`Bearer ${API_KEY}`]);
  }
});

for (const reason of ['API_AUTH_REQUIRED', 'API_AUTH_REVOKED'])
  holds('5.1', `a call with a refused API key fails with 401 ${reason}, and is not repeated`, async () => {
    const { service, calls } = await startClient(refusal(401, 'UNAUTHENTICATED', reason));
    expect(await errorOf(service.call('GetSession', {}))).toMatchObject({
      code: 'UNAUTHENTICATED',
      reason,
      status: 401,
    });
    expect(calls).toHaveLength(1);
  });

holds('5.1', 'a call without its permission fails with 403, and is not repeated', async () => {
  const { service, calls } = await startClient(refusal(403, 'FORBIDDEN'));
  expect(await errorOf(service.call('GetSession', {}))).toMatchObject({ code: 'FORBIDDEN', reason: null });
  expect(calls).toHaveLength(1);
});

holds('5.1', 'no error of the client contains the API key', async () => {
  const { service } = await startClient({ status: 401, body: { error: { code: API_KEY, message: API_KEY } } });
  const error = await errorOf(service.call('GetSession', {}));
  expect(`${error.message} ${error.stack} ${JSON.stringify(error)}`).not.toContain(API_KEY);
});

for (const prefix of ['svc_live_', 'svc_test_', 'old_live_', 'old_test_'])
  holds('5.2', `an API key with the ${prefix.startsWith('old') ? 'legacy ' : ''}prefix ${prefix} works`, () => {
    expect(loadConfig({ ...ENV, API_KEY: `${prefix}0123` }).API_KEY).toBe(`${prefix}0123`);
  });

holds('5.2', 'a test API key sends real messages, so it, too, needs PAID_OPERATIONS=allow', async () => {
  expect(API_KEY).toMatch(/^svc_test_/);
  const { service, calls } = await startClient(ok(), { paid: loadConfig(ENV).PAID_OPERATIONS === 'allow' });
  expect(await errorOf(service.send({}, QUOTE))).toMatchObject({ code: 'PAID_OPERATIONS_REFUSED' });
  expect(calls).toEqual([]);
});

holds('5.4', 'a call for a number outside the API key fails with 404, and is not repeated', async () => {
  const { service, calls } = await startClient(refusal(404, 'NOT_FOUND', 'SESSION_NOT_FOUND'));
  expect(await errorOf(service.call('GetSession', {}))).toMatchObject({ code: 'NOT_FOUND', retryable: false });
  expect(calls).toHaveLength(1);
});

holds('5.5', 'a call from an address that the API key does not allow fails with 403, and is not repeated', async () => {
  const { service, calls } = await startClient(refusal(403, 'FORBIDDEN', 'API_KEY_IP_FORBIDDEN'));
  expect(await errorOf(service.call('GetSession', {}))).toMatchObject({ reason: 'API_KEY_IP_FORBIDDEN' });
  expect(calls).toHaveLength(1);
});

holds('5.6', 'a read above the API key’s own limit gets 429 API_KEY_RATE_LIMITED, and is repeated later', async () => {
  const { service, calls, waits } = await startClient([refusal(429, 'RATE_LIMITED', 'API_KEY_RATE_LIMITED'), ok()]);
  await service.call('GetSession', {});
  expect([calls.length, waits.length]).toEqual([2, 1]);
});

holds('5.6', 'the client keeps to API_CALLS_PER_MINUTE, which can be the API key’s own limit', async () => {
  const { url, calls } = await startService(ok());
  const limits = { API_CALLS_PER_MINUTE: '5', RECONCILE_CALLS_PER_MINUTE: '1' };
  const config = loadConfig({ ...ENV, ...limits, API_BASE_URL: url });
  const service = clientOf(config);
  for (let i = 0; i < 10; i++) await service.call('GetSession', {}, { withinMs: 1 }).catch(() => {});
  expect(calls.length).toBeGreaterThan(0);
  expect(calls.length).toBeLessThanOrEqual(5);
});

holds('5.6', 'calls of all routes count towards the API key’s own limit', async () => {
  const { url, calls } = await startService({ body: 'event: end\ndata: {}\n\n' });
  const limits = { API_CALLS_PER_MINUTE: '4', RECONCILE_CALLS_PER_MINUTE: '1', PAID_OPERATIONS: 'allow' };
  const service = clientOf(loadConfig({ ...ENV, ...limits, API_BASE_URL: url }));
  const { quote, media, resume } = ROUTES;
  for (const call of [quote, media, resume]) await call(service).catch(() => {});
  expect(calls).toHaveLength(3);
  const late = service.send({}, { ...QUOTE, withinMs: 1 });
  expect(await errorOf(late)).toMatchObject({ code: 'RATE_LIMITED', status: 0 });
  expect(calls).toHaveLength(3);
});
