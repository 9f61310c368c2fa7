// What the contract says to a client of its operations (4, 5, 7, 8, 9), against a scripted service or the simulator.
import type { ServerResponse } from 'node:http';
import { expect, onTestFinished, vi } from 'vitest';
import { ConfigError, loadConfig, type Config, type Env } from '../../src/config.ts';
import { ServiceError } from '../../src/service/errors.ts';
import { operations } from '../../src/service/operations.ts';
import { createService, type Service } from '../../src/service/service.ts';
import { serviceOf } from '../../src/service/start.ts';
import { createSimulatedService } from '../../src/tools/simulator/service.ts';
import { createClock, createTestLog, createStoreFile } from '../store-file.ts';
import { holds } from './holds.ts';
import { API_KEY, cut, errorBody, errorOf, html, ok, refusal, sse, startClient, startService } from './scripted.ts';

const MIB = 1024 * 1024;
const QUOTE = { quoteId: 'q-1' };
const ENV: Env = { WEBHOOK_SECRET: `whsec_${'0'.repeat(32)}`, API_BASE_URL: 'https://api.example/v1', API_KEY: 'k' };

/** One call of each route, with an answer that fits it. */
const ROUTES: Record<Exclude<keyof Service, 'pages' | 'items'>, (service: Service) => Promise<unknown>> = {
  call: (service) => service.call('ListCrmTags', {}),
  quote: (service) => service.quote('ResumeCampaign', {}),
  send: (service) => service.send({ body: 'hi' }, QUOTE),
  media: async (service) => (await service.media('a')).body.cancel(),
  resume: (service) => Array.fromAsync(service.resume('a')),
};

// 4.1

/** The client as handlers have it, with the pace that all processes share. */
function clientOf(config: Config): Service {
  const file = createStoreFile();
  onTestFinished(() => file.remove());
  const { store } = file;
  return serviceOf({ config, store, clock: createClock(), log: createTestLog().log })(new AbortController().signal);
}

holds('4.1', 'an operation is POST {base_url}/rpc/<OperationName> with the key, as application/json', async () => {
  const { service, calls } = await startClient(ok());
  await service.call('ListCrmTags', {});
  expect(calls).toMatchObject([{ method: 'POST', path: '/v1/rpc/ListCrmTags' }]);
  expect(calls[0]?.headers).toMatchObject({ authorization: `Bearer ${API_KEY}`, 'content-type': 'application/json' });
});

holds(
  '4.1',
  'the body has the operation’s own fields in request, unchanged, and nothing that the table lacks',
  async () => {
    const { service, calls } = await startClient(ok());
    await service.call('AddCrmListMembers', { list_id: 'a', phones: ['15550100'] });
    expect(calls[0]?.body).toEqual({ request: { list_id: 'a', phones: ['15550100'] }, deadlineMs: expect.any(Number) });
  },
);

holds('4.1', 'billing is { quoteId }, and only a call with a quote has it', async () => {
  const { service, calls } = await startClient(ok());
  await service.call('ResumeCampaign', { campaign_id: 'a' }, QUOTE);
  await service.call('DeleteCrmList', { list_id: 'a' });
  expect(calls.map(({ body }) => body.billing)).toEqual([QUOTE, undefined]);
});

holds('4.1', 'a quote is made for the same operation name and the same request', async () => {
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

holds('4.1', 'the deadlineMs of a caller is sent as it is, from 1 to 30000', async () => {
  const { service, calls } = await startClient(ok());
  for (const deadlineMs of [1, 1_500, 30_000]) await service.call('DeleteCrmList', {}, { deadlineMs });
  expect(calls.map(({ body }) => body.deadlineMs)).toEqual([1, 1_500, 30_000]);
});

holds('4.1', 'a deadlineMs outside 1 to 30000 is not sent, whatever a caller asks for', async () => {
  const { service, calls } = await startClient(ok());
  for (const deadlineMs of [1.5, 30_001]) await service.call('DeleteCrmList', {}, { deadlineMs }).catch(() => {});
  const sent = calls.map(({ body }) => Number(body.deadlineMs));
  expect(sent.filter((ms) => !Number.isInteger(ms) || ms < 1 || ms > 30_000)).toEqual([]);
});

holds('4.1', 'the body of a 200 is the operation’s response object itself, without an envelope', async () => {
  const answer = { ok: true, error: { code: 'a field like any other' } };
  const { service } = await startClient(ok(answer));
  expect(await service.call('DeleteMessageTemplate', {})).toEqual(answer);
});

holds('4.1', 'an answer that is no object is an error, and no empty success', async () => {
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

holds(
  '4.2',
  'a stale assignment_version is refused with ASSIGNMENT_CONFLICT; the version is sent back exactly',
  async () => {
    const version = '9223372036854775807';
    const conversation = { id: 'a', assignment_version: version };
    const { service, calls } = await startClient([
      ok({ conversation }),
      refusal(409, 'CONFLICT', 'ASSIGNMENT_CONFLICT'),
    ]);
    const read = await service.call('AssignConversation', { conversation_id: 'a' });
    const assignment_version = read.conversation?.assignment_version;
    const again = service.call('AssignConversation', { conversation_id: 'a', assignment_version });
    expect(await errorOf(again)).toMatchObject({ code: 'CONFLICT', reason: 'ASSIGNMENT_CONFLICT', retryable: false });
    expect(calls[1]?.body.request).toEqual({ conversation_id: 'a', assignment_version: version });
  },
);

holds('4.2', 'operations of which only the name is shown can be called, and so can any other', async () => {
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

holds('4.3', 'GET /media/{id} is a download', async () => {
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

holds(
  '4.3',
  'each event: message of a reconnection is progress, and a new qr may come; event: end ends it',
  async () => {
    const items = [
      { event: 'progress', progress: {} },
      { event: 'qr', qr: { data: 'x' } },
      { event: 'later', later: {} },
    ];
    const messages = items.map((item): [string, object] => ['message', item]);
    const { service } = await startClient(sse(...messages, ['ping', {}], ['end', {}], ['message', { event: 'late' }]));
    expect(await Array.fromAsync(service.resume('a'))).toEqual(items);
  },
);

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

holds('4.3', 'the client waits at least 5 minutes for a reconnection, and not for ever', async () => {
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
  'cursor mode: limit is at most 200, the first page has no cursor, each further one the next_cursor',
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

holds('4.5', 'cursor mode: an empty next_cursor is the end, and so is none', async () => {
  for (const body of [{ messages: [], next_cursor: '' }, { messages: [] }]) {
    const { service, calls } = await startClient(ok(body));
    expect(await Array.fromAsync(service.items('ListMessages', {}))).toEqual([]);
    expect(calls).toHaveLength(1);
  }
});

holds('4.5', 'cursor mode: the limit and the cursor of the request are kept', async () => {
  const { service, calls } = await startClient(ok({ messages: [] }));
  await Array.fromAsync(service.pages('ListMessages', { limit: 50, cursor: 'x' }));
  expect(calls[0]?.body.request).toEqual({ limit: 50, cursor: 'x' });
});

holds(
  '4.5',
  'page mode: pagination { page, page_size } from page 1, page_size at most 200, up to the last page',
  async () => {
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
  },
);

holds('4.5', 'page mode: page and page_size of the request are kept', async () => {
  const { service, calls } = await startClient(ok({ messages: [], page: { page: 9, has_next_page: false } }));
  await Array.fromAsync(service.pages('ListQuickReplies', { pagination: { page: 9, page_size: 50 } }));
  expect(calls.map(({ body }) => body.request)).toEqual([{ pagination: { page: 9, page_size: 50 } }]);
});

for (const operation of BY_CURSOR)
  holds('4.5', `${operation} accepts a cursor, and is read by it`, async () => {
    const items = itemsField(operation);
    const { service, calls } = await startClient([
      ok({ [items]: [{ id: 'a' }], next_cursor: 'x' }),
      ok({ [items]: [] }),
    ]);
    expect(await Array.fromAsync(service.items(operation, {}))).toEqual([{ id: 'a' }]);
    expect(calls.map(({ body }) => body.request)).toEqual([{ limit: 200 }, { limit: 200, cursor: 'x' }]);
  });

for (const operation of BY_PAGE)
  holds('4.5', `${operation} is read by page alone`, async () => {
    const items = itemsField(operation);
    const { service, calls } = await startClient(
      ok({ [items]: [{ id: 'a' }], page: { page: 1, has_next_page: false } }),
    );
    expect(await Array.fromAsync(service.items(operation, {}))).toEqual([{ id: 'a' }]);
    expect(calls.map(({ body }) => body.request)).toEqual([{ pagination: { page: 1, page_size: 200 } }]);
  });

holds('4.5', 'a list that accepts both ways is read by cursor, without pagination', async () => {
  const { service, calls } = await startClient(ok({ campaigns: [{}], page: { page: 1, has_next_page: true } }));
  expect(await Array.fromAsync(service.items('ListCampaignHistory', {}))).toHaveLength(1);
  expect(calls.map(({ body }) => body.request)).toEqual([{ limit: 200 }]);
});

holds('4.5', 'a list without paging, such as ListCrmTags, is asked without limit', async () => {
  const { service, calls } = await startClient(ok({ tags: [{ id: 'a' }] }));
  expect(await Array.fromAsync(service.items('ListCrmTags', {}))).toEqual([{ id: 'a' }]);
  expect(calls.map(({ body }) => body.request)).toEqual([{}]);
});

// 5

holds('5.1', 'every call carries Authorization: Bearer <API_KEY>', async () => {
  for (const call of Object.values(ROUTES)) {
    const { service, calls } = await startClient({ body: 'event: end\ndata: {}\n\n' });
    await call(service).catch(() => {});
    expect(calls.map(({ headers }) => headers.authorization)).toEqual([`Bearer ${API_KEY}`]);
  }
});

for (const reason of ['API_AUTH_REQUIRED', 'API_AUTH_REVOKED'])
  holds('5.1', `a refused key is 401 with reason ${reason}`, async () => {
    const { service, calls } = await startClient(refusal(401, 'UNAUTHENTICATED', reason));
    expect(await errorOf(service.call('GetSession', {}))).toMatchObject({
      code: 'UNAUTHENTICATED',
      reason,
      status: 401,
    });
    expect(calls).toHaveLength(1);
  });

holds('5.1', 'a missing permission is 403, and not repeated', async () => {
  const { service, calls } = await startClient(refusal(403, 'FORBIDDEN'));
  expect(await errorOf(service.call('GetSession', {}))).toMatchObject({ code: 'FORBIDDEN', reason: null });
  expect(calls).toHaveLength(1);
});

holds('5.1', 'the secret of the key is in no error', async () => {
  const { service } = await startClient({ status: 401, body: { error: { code: API_KEY, message: API_KEY } } });
  const error = await errorOf(service.call('GetSession', {}));
  expect(`${error.message} ${error.stack} ${JSON.stringify(error)}`).not.toContain(API_KEY);
});

for (const prefix of ['svc_live_', 'svc_test_', 'old_live_', 'old_test_'])
  holds('5.2', `a key with the prefix ${prefix} works${prefix.startsWith('old') ? ': a legacy prefix' : ''}`, () => {
    expect(loadConfig({ ...ENV, API_KEY: `${prefix}0123` }).API_KEY).toBe(`${prefix}0123`);
  });

holds('5.2', 'test keys send real messages: they, too, need PAID_OPERATIONS=allow', async () => {
  expect(API_KEY).toMatch(/^svc_test_/);
  const { service, calls } = await startClient(ok(), { paid: loadConfig(ENV).PAID_OPERATIONS === 'allow' });
  expect(await errorOf(service.send({}, QUOTE))).toMatchObject({ code: 'PAID_OPERATIONS_REFUSED' });
  expect(calls).toEqual([]);
});

holds('5.4', 'an identifier outside the key answers 404', async () => {
  const { service, calls } = await startClient(refusal(404, 'NOT_FOUND', 'SESSION_NOT_FOUND'));
  expect(await errorOf(service.call('GetSession', {}))).toMatchObject({ code: 'NOT_FOUND', retryable: false });
  expect(calls).toHaveLength(1);
});

holds('5.5', 'a call from another address is 403 API_KEY_IP_FORBIDDEN, and not repeated', async () => {
  const { service, calls } = await startClient(refusal(403, 'FORBIDDEN', 'API_KEY_IP_FORBIDDEN'));
  expect(await errorOf(service.call('GetSession', {}))).toMatchObject({ reason: 'API_KEY_IP_FORBIDDEN' });
  expect(calls).toHaveLength(1);
});

holds('5.6', 'above the key’s own limit a call gets 429 API_KEY_RATE_LIMITED, and is made again later', async () => {
  const { service, calls, waits } = await startClient([refusal(429, 'RATE_LIMITED', 'API_KEY_RATE_LIMITED'), ok()]);
  await service.call('GetSession', {});
  expect([calls.length, waits.length]).toEqual([2, 1]);
});

holds('5.6', 'the kit can be told the key’s own limit (API_CALLS_PER_MINUTE), and keeps to it', async () => {
  const { url, calls } = await startService(ok());
  const limits = { API_CALLS_PER_MINUTE: '5', RECONCILE_CALLS_PER_MINUTE: '1' };
  const config = loadConfig({ ...ENV, ...limits, API_BASE_URL: url });
  const service = clientOf(config);
  for (let i = 0; i < 10; i++) await service.call('GetSession', {}, { withinMs: 1 }).catch(() => {});
  expect(calls.length).toBeGreaterThan(0);
  expect(calls.length).toBeLessThanOrEqual(5);
});

// 7.1

holds('7.1', 'an error has code, reason and requestId', async () => {
  const { service } = await startClient(refusal(409, 'CONFLICT', 'BILLING_QUOTE_EXPIRED'));
  expect(await errorOf(service.call('DeleteCrmList', {}))).toMatchObject({
    code: 'CONFLICT',
    reason: 'BILLING_QUOTE_EXPIRED',
    requestId: 'r-1',
    status: 409,
  });
});

holds('7.1', 'reason may be absent', async () => {
  const { service } = await startClient(refusal(404, 'NOT_FOUND'));
  expect(await errorOf(service.call('GetSession', {}))).toMatchObject({ code: 'NOT_FOUND', reason: null });
});

holds('7.1', 'the header x-request-id has the id of the call, also if the body has none', async () => {
  const { service } = await startClient({ status: 500, headers: { 'x-request-id': 'r-2' }, body: 'no envelope' });
  expect(await errorOf(service.call('DeleteCrmList', {}))).toMatchObject({ requestId: 'r-2' });
});

holds('7.1', 'behaviour is decided by the code, also if the status is another', async () => {
  const { service, calls } = await startClient([refusal(418, 'UNAVAILABLE'), ok()]);
  await service.call('GetSession', {});
  expect(calls).toHaveLength(2);
});

holds('7.1', 'the message is never compared or shown, because it may change', async () => {
  const errors = ['Chave revogada', 'RATE_LIMITED: tente de novo'].map(async (message) => {
    const body = { error: { code: 'FORBIDDEN', message, requestId: 'r-1' } };
    const { service, calls } = await startClient({ status: 403, body });
    const { code, retryable, uncertain, message: words } = await errorOf(service.call('GetSession', {}));
    return { code, retryable, uncertain, words, calls: calls.length };
  });
  const [one, other] = await Promise.all(errors);
  expect(one).toEqual(other);
  expect(one?.words).not.toContain('revogada');
});

// 7.2

/** HTTP statuses of a category, and whether a call that only reads is made again after it. */
const CATEGORIES: [code: string, statuses: number[], repeated: boolean, reaction: string][] = [
  ['UNAUTHENTICATED', [401], false, 'is not repeated'],
  ['FORBIDDEN', [403], false, 'is not repeated'],
  ['NOT_FOUND', [404], false, 'is not repeated: check the identifier'],
  ['VALIDATION_FAILED', [400, 413], false, 'is not repeated: fix the request'],
  ['CONFLICT', [409], false, 'is not repeated: the caller reads the state again'],
  ['PAYMENT_REQUIRED', [402, 428], false, 'is not repeated: the caller makes a quote or pays'],
  ['RATE_LIMITED', [429], true, 'is repeated with back-off'],
  ['UNAVAILABLE', [503, 504], true, 'is repeated with back-off'],
  ['INTERNAL', [500], true, 'is repeated later'],
];
for (const [code, statuses, repeated, reaction] of CATEGORIES)
  for (const status of statuses) {
    holds('7.2', `${status} ${code} ${reaction}`, async () => {
      const { service, calls, waits } = await startClient([refusal(status, code), refusal(status, code), ok()]);
      const outcome = await service.call('GetSession', {}).catch((error: unknown) => error);
      expect(calls).toHaveLength(repeated ? 3 : 1);
      if (repeated) expect(waits[1]).toBeGreaterThan((waits[0] ?? 0) / 2);
      else expect(outcome).toMatchObject({ code, status, retryable: false, uncertain: false });
    });
    holds('7.2', `${status} without an error envelope, as from a proxy, is ${code}`, async () => {
      const { service, calls } = await startClient([html(status), ok()]);
      if (repeated) await service.call('GetSession', {});
      else expect(await errorOf(service.call('GetSession', {}))).toMatchObject({ code, status });
      expect(calls).toHaveLength(repeated ? 2 : 1);
    });
  }

holds(
  '7.2',
  'RATE_LIMITED: what changes something was surely not done, and may be made again by the caller',
  async () => {
    const { service, calls } = await startClient(refusal(429, 'RATE_LIMITED', 'RATE_LIMITED'));
    expect(await errorOf(service.call('DeleteCrmList', {}))).toMatchObject({ uncertain: false, retryable: true });
    expect(calls).toHaveLength(1);
  },
);

holds('7.2', 'INTERNAL: the error has the requestId to report', async () => {
  const { service } = await startClient(refusal(500, 'INTERNAL'));
  expect(await errorOf(service.call('DeleteCrmList', {}))).toMatchObject({ code: 'INTERNAL', requestId: 'r-1' });
});

// 7.3

const UNCERTAIN: [status: number, reason: string][] = [
  [503, 'OUTCOME_UNCERTAIN'],
  [504, 'RPC_DEADLINE_EXCEEDED'],
];
for (const [status, reason] of UNCERTAIN)
  holds('7.3', `a send with ${status} ${reason} is uncertain, and not sent again`, async () => {
    const { service, calls } = await startClient(refusal(status, 'UNAVAILABLE', reason));
    const sending = service.send({ body: 'hi' }, { ...QUOTE, idempotent: true });
    expect(await errorOf(sending)).toMatchObject({ reason, uncertain: true, retryable: false });
    expect(calls).toHaveLength(1);
  });

for (const status of [503, 504])
  holds('7.3', `a paid operation that failed with ${status} is not retried automatically`, async () => {
    const { service, calls } = await startClient(refusal(status, 'UNAVAILABLE'));
    const paid = service.call('ResumeCampaign', {}, { ...QUOTE, idempotent: true });
    expect(await errorOf(paid)).toMatchObject({ uncertain: true, retryable: false });
    expect(calls).toHaveLength(1);
  });

holds('7.3', 'a send whose answer is lost is uncertain, too', async () => {
  const { service, calls } = await startClient(cut);
  expect(await errorOf(service.send({}, QUOTE))).toMatchObject({ uncertain: true, retryable: false });
  expect(calls).toHaveLength(1);
});

/** The simulator, and a client of it that has sent one message whose answer was lost. */
async function sendUncertain() {
  const simulator = createSimulatedService({ seed: 1 });
  const scopes = ['events:read', 'product:inbox', 'messages:send'];
  const { secret: apiKey } = simulator.keys.create({ name: 'contract', scopes, validDays: null });
  const baseUrl = await simulator.listen();
  onTestFinished(() => simulator.close());
  const service = createService({ baseUrl, apiKey, paid: true });
  const { quoteId } = await service.quote('SendMessage', { body: 'hi' });
  simulator.chaos.next('504');
  const error = await errorOf(service.send({ body: 'hi' }, { quoteId }));
  return { simulator, service, quoteId, error };
}

holds('7.3', 'after an uncertain send, ListMessages or the event MessageSent shows that it was made', async () => {
  const { simulator, service, error } = await sendUncertain();
  expect(error).toMatchObject({ uncertain: true });
  expect(await Array.fromAsync(service.items('ListMessages', {}))).toMatchObject([{ body: 'hi' }]);
  expect(simulator.history.all().map(({ type }) => type)).toEqual(['MessageSent']);
});

holds('7.3', 'the same quote never fires twice: the second send is refused, and a new quote sends again', async () => {
  const { simulator, service, quoteId } = await sendUncertain();
  expect(await errorOf(service.send({ body: 'hi' }, { quoteId }))).toMatchObject({
    code: 'CONFLICT',
    uncertain: false,
  });
  const again = await service.quote('SendMessage', { body: 'hi' });
  await service.send({ body: 'hi' }, { quoteId: again.quoteId });
  expect(simulator.history.all()).toHaveLength(2);
});

// 7.4: the reasons that change what the client does, or that it answers itself

holds('7.4', 'PAYLOAD_TOO_LARGE: a body above 12 MiB is not sent, and the error names media_asset_id', async () => {
  const { service, calls } = await startClient(ok());
  const error = await errorOf(service.call('UploadMedia', { file: 'x'.repeat(12 * MIB) }));
  expect(error).toMatchObject({ code: 'VALIDATION_FAILED', reason: 'PAYLOAD_TOO_LARGE', uncertain: false });
  expect(error.message).toContain('media_asset_id');
  expect(calls).toEqual([]);
});

const REASONS: [reason: string, status: number, code: string, repeated: boolean][] = [
  ['RATE_LIMITED', 429, 'RATE_LIMITED', true],
  ['API_KEY_RATE_LIMITED', 429, 'RATE_LIMITED', true],
  ['ACCESS_CONTROL_UNAVAILABLE', 503, 'UNAVAILABLE', true],
  ['RPC_DEADLINE_EXCEEDED', 504, 'UNAVAILABLE', true],
  ['RPC_METHOD_NOT_FOUND', 404, 'NOT_FOUND', false],
  ['RPC_METHOD_FORBIDDEN', 403, 'FORBIDDEN', false],
  ['RPC_REQUEST_INVALID', 400, 'VALIDATION_FAILED', false],
  ['RPC_DEADLINE_INVALID', 400, 'VALIDATION_FAILED', false],
  ['BILLING_QUOTE_REQUIRED', 428, 'PAYMENT_REQUIRED', false],
  ['BILLING_QUOTE_EXPIRED', 409, 'CONFLICT', false],
  ['SESSION_NOT_FOUND', 404, 'NOT_FOUND', false],
  ['SESSION_DISCONNECTED', 409, 'CONFLICT', false],
  ['MEDIA_NOT_FOUND', 404, 'NOT_FOUND', false],
];
for (const [reason, status, code, repeated] of REASONS)
  holds(
    '7.4',
    `${reason} is ${status} ${code}, ${repeated ? 'and a read is repeated' : 'for the caller'}`,
    async () => {
      const { service, calls } = await startClient([refusal(status, code, reason), ok()]);
      const outcome = await service.call('GetSession', {}).catch((error: unknown) => error);
      expect(calls).toHaveLength(repeated ? 2 : 1);
      if (!repeated) expect(outcome).toMatchObject({ reason, status, code, retryable: false });
    },
  );

// 8

/** Makes `most` calls, which must all be sent, and one more, which must wait for the next minute. */
async function proveLimit(most: number, call: (service: Service) => Promise<unknown>): Promise<void> {
  const { service, calls, waits, clock } = await startClient({ body: 'event: end\ndata: {}\n\n' });
  const began = clock.time;
  for (let i = 0; i < most; i++) await call(service).catch(() => {});
  expect([calls.length, waits]).toEqual([most, []]);
  expect(await errorOf(call(service))).toMatchObject({ code: 'RATE_LIMITED', status: 0 });
  expect([calls.length, clock.time]).toEqual([most, began]);
}

holds('8', 'operations and sends: at most 120 a minute, together with reconciliation’s', async () => {
  const { url, calls } = await startService(ok());
  const config = loadConfig({ ...ENV, API_BASE_URL: url, PAID_OPERATIONS: 'allow' });
  const service = clientOf(config);
  for (let i = 0; i < 200; i++) {
    const calling = i % 2 === 0 ? service.call('DeleteCrmList', {}) : service.send({}, QUOTE);
    const error = await calling.then(
      () => undefined,
      (thrown: ServiceError) => thrown.code,
    );
    if (error !== undefined) break;
  }
  expect(calls.length + config.RECONCILE_CALLS_PER_MINUTE).toBe(120);
});

holds('8', 'POST /billing/quotes: at most 60 a minute', () => proveLimit(60, ROUTES.quote));
holds('8', 'GET /media/{id}: at most 60 a minute', () => proveLimit(60, ROUTES.media));
holds('8', 'POST /sessions/resume: at most 10 a minute', () => proveLimit(10, ROUTES.resume));

holds('8', 'a body of /rpc, /messages/send and /billing/quotes has at most 12 MiB', async () => {
  const { service, calls } = await startClient(ok(QUOTE));
  const large = { file: 'x'.repeat(12 * MIB) };
  const fits = { file: 'x'.repeat(12 * MIB - 200) };
  for (const call of [
    () => service.call('UploadMedia', large),
    () => service.send(large, QUOTE),
    () => service.quote('SendMessage', large),
  ])
    expect(await errorOf(call())).toMatchObject({ reason: 'PAYLOAD_TOO_LARGE', status: 0 });
  expect(calls).toEqual([]);
  await service.call('UploadMedia', fits);
  expect(calls).toHaveLength(1);
});

holds('8', 'a body of /sessions/resume has at most 4 KiB', async () => {
  const { service, calls } = await startClient(sse(['end', {}]));
  expect(await errorOf(Array.fromAsync(service.resume('x'.repeat(4_096))))).toMatchObject({
    reason: 'PAYLOAD_TOO_LARGE',
  });
  expect(calls).toEqual([]);
});

holds('8', 'a media download has at most 64 MiB', async () => {
  const sized = (bytes: number) => async (response: ServerResponse) => {
    for (let sent = 0; sent < bytes && !response.destroyed; sent += MIB)
      await new Promise((done) => response.write(Buffer.alloc(Math.min(MIB, bytes - sent)), done));
    response.end();
  };
  const { service } = await startClient([sized(64 * MIB), sized(65 * MIB)]);
  const read = async (): Promise<number> => {
    let bytes = 0;
    for await (const chunk of (await service.media('a')).body) bytes += chunk.length;
    return bytes;
  };
  expect(await read()).toBe(64 * MIB);
  expect(await errorOf(read())).toMatchObject({ code: 'unreadable' });
});

holds('8', '429 has no Retry-After: waits of 1, 2, 4, 8 … s up to 60 s, with random variation', async () => {
  const { service, waits } = await startClient(refusal(429, 'RATE_LIMITED', 'RATE_LIMITED'));
  await errorOf(service.call('GetSession', {}, { withinMs: 900_000 }));
  expect(waits.length).toBeGreaterThan(10);
  for (const [i, ms] of waits.entries()) {
    const most = Math.min(60_000, 1_000 * 2 ** i);
    expect(ms).toBeGreaterThanOrEqual(most / 2);
    expect(ms).toBeLessThanOrEqual(most);
  }
  expect(new Set(waits.slice(6)).size, 'random').toBeGreaterThan(1);
});

holds('8', 'after a 429 the client makes fewer calls: half as many a minute', async () => {
  const { url, calls } = await startService(refusal(429, 'RATE_LIMITED', 'RATE_LIMITED'), ok());
  const config = loadConfig({ ...ENV, API_BASE_URL: url });
  const service = clientOf(config);
  for (let i = 0; i < 120; i++) await service.call('DeleteCrmList', {}, { withinMs: 1 }).catch(() => {});
  expect(calls.length).toBeGreaterThan(1);
  expect(calls.length).toBeLessThanOrEqual((120 - config.RECONCILE_CALLS_PER_MINUTE) / 2);
});

// 9

holds('9', 'every route hangs below the base address', async () => {
  for (const call of Object.values(ROUTES)) {
    const { service, calls } = await startClient({ body: 'event: end\ndata: {}\n\n' });
    await call(service).catch(() => {});
    expect(calls.map(({ path }) => path)).toEqual([expect.stringMatching(/^\/v1\/[a-z]/)]);
  }
});

holds('9', 'a base address that ends in /v1 is accepted, also with a slash behind it', () => {
  for (const API_BASE_URL of ['https://api.example/v1', 'https://api.example/some/where/v1/'])
    expect(loadConfig({ ...ENV, API_BASE_URL })).toMatchObject({ API_BASE_URL });
});

holds('9', 'a base address that does not end in /v1 is a fault at the start', () => {
  for (const API_BASE_URL of ['https://api.example', 'https://api.example/v2', 'https://api.example/v1/rpc'])
    expect(() => loadConfig({ ...ENV, API_BASE_URL })).toThrow(ConfigError);
});
