// ctx.service against the simulator: lists, quotes, sends, media, reconnecting, and the types of all of them.
import type { ServerResponse } from 'node:http';
import { expect, expectTypeOf, onTestFinished, test } from 'vitest';
import type { ItemOf, ResponseOf } from '../../src/kit.ts';
import { ServiceError } from '../../src/service/errors.ts';
import { createService, noService, type Service } from '../../src/service/service.ts';
import { createSimulatedService } from '../../src/tools/simulator/service.ts';
import { createEndpoint } from '../tools/simulator/endpoint.ts';

const SCOPES = ['events:read', 'product:inbox', 'product:campaigns', 'messages:send', 'sessions:manage'];

async function setUp({ paid = true }: { paid?: boolean } = {}) {
  const simulator = createSimulatedService({ seed: 1 });
  const { secret: apiKey } = simulator.keys.create({ name: 'tests', scopes: SCOPES, validDays: null });
  const baseUrl = await simulator.listen();
  onTestFinished(() => simulator.close());
  const odd: object[] = [];
  const service = createService({ baseUrl, apiKey, paid, onOdd: (one) => odd.push(one) });
  async function sendOne(body: string): Promise<Record<string, unknown>> {
    const { quoteId } = await service.quote('SendMessage', { body });
    return service.send({ body }, { quoteId });
  }
  return { ...simulator, service, odd, sendOne };
}

async function errorOf(calling: Promise<unknown>): Promise<ServiceError> {
  const error = await calling.then(
    () => undefined,
    (thrown: unknown) => thrown,
  );
  expect(error).toBeInstanceOf(ServiceError);
  return error as ServiceError;
}

test('4.5: a list by cursor is read page by page to its end, and item by item', async () => {
  const { service, sendOne, api } = await setUp();
  for (let i = 1; i <= 5; i++) await sendOne(`message ${i}`);
  const before = api.calls();
  const pages = await Array.fromAsync(service.pages('ListMessages', { limit: 2 }));
  expect(pages.map(({ messages }) => messages?.length)).toEqual([2, 2, 1]);
  expect(api.calls() - before).toBe(3);
  const bodies = (await Array.fromAsync(service.items('ListMessages', { limit: 2 }))).map(({ body }) => body);
  expect(bodies).toEqual([1, 2, 3, 4, 5].map((i) => `message ${i}`));
});

test('4.5: a list by page asks for the largest pages, and is read to its end', async () => {
  const { service, api } = await setUp();
  const ids = (await Array.fromAsync(service.items('ListQuickReplies', {}))).map(({ id }) => Number(id));
  expect(ids).toEqual(Array.from({ length: 450 }, (_, i) => i + 1));
  expect(api.calls()).toBe(3);
});

test('a loop that leaves a list early requests no further page', async () => {
  const { service, api } = await setUp();
  for await (const { id } of service.items('ListQuickReplies', {})) if (id === '7') break;
  expect(api.calls()).toBe(1);
});

test('4.1, 7.3: a quote pays for one send of the same message', async () => {
  const { service, history } = await setUp();
  const { quoteId, answer } = await service.quote('SendMessage', { body: 'hi' });
  expect(answer).toMatchObject({ quoteId });
  expect(await errorOf(service.send({ body: 'another' }, { quoteId }))).toMatchObject({
    code: 'CONFLICT',
    reason: 'BILLING_QUOTE_EXPIRED',
    uncertain: false,
    retryable: false,
  });
  expect(await service.send({ body: 'hi' }, { quoteId })).toMatchObject({ message: {} });
  expect(await errorOf(service.send({ body: 'hi' }, { quoteId }))).toMatchObject({ code: 'CONFLICT' });
  expect(history.all().map(({ type }) => type)).toEqual(['MessageSent']);
});

test('without PAID_OPERATIONS=allow, paid calls are refused before a request is sent', async () => {
  const { service, api } = await setUp({ paid: false });
  for (const refused of [
    service.send({ body: 'hi' }, { quoteId: 'q' }),
    service.call('ResumeCampaign', {}),
    service.call('SomethingUnknown', {}, { quoteId: 'q' }),
  ])
    expect(await errorOf(refused)).toMatchObject({ code: 'PAID_OPERATIONS_REFUSED', uncertain: false });
  expect(api.calls()).toBe(0);
  expect(await service.quote('SendMessage', {}), 'asking for the price is free').toHaveProperty('quoteId');
});

test('4.3: media comes as a stream, with its type and size', async () => {
  const { service } = await setUp();
  const { body, mime } = await service.media('a-picture');
  expect(mime).toBe('image/png');
  expect(Buffer.concat(await Array.fromAsync(body)).toString()).toBe('not much of a picture');
  expect(await errorOf(service.media('nothing'))).toMatchObject({ code: 'NOT_FOUND', reason: 'MEDIA_NOT_FOUND' });
});

test.each(['', '.', '..'])('a media id that would lead to another route is refused: %j', async (id) => {
  const { service, api } = await setUp();
  expect(await errorOf(service.media(id))).toMatchObject({ code: 'VALIDATION_FAILED', status: 0 });
  expect(api.calls()).toBe(0);
});

test('2.14: reconnecting a number yields its progress until the end', async () => {
  const { service, history } = await setUp();
  const [number = ''] = history.numbers;
  const progress = await Array.fromAsync(service.resume(number));
  expect(progress.map(({ event }) => event)).toEqual(['progress', 'connected']);
  expect(progress[0]).toMatchObject({ progress: { session_id: number } });
  expect(await errorOf(Array.fromAsync(service.resume('another')))).toMatchObject({ reason: 'SESSION_NOT_FOUND' });
  expect(await errorOf(Array.fromAsync(service.resume('x'.repeat(4096))))).toMatchObject({
    reason: 'PAYLOAD_TOO_LARGE',
    status: 0,
  });
});

test('without an API key, the error of every method names the variables to set', async () => {
  const calls: Record<keyof Service, () => Promise<unknown>> = {
    call: () => noService.call('ResumeCampaign', {}),
    pages: () => Array.fromAsync(noService.pages('ListMessages', {})),
    items: () => Array.fromAsync(noService.items('ListMessages', {})),
    quote: () => noService.quote('ResumeCampaign', {}),
    send: () => noService.send({}, { quoteId: 'q' }),
    media: () => noService.media('a'),
    resume: () => Array.fromAsync(noService.resume('a')),
  };
  for (const call of Object.values(calls)) {
    const error = await errorOf(call());
    expect(error).toMatchObject({ code: 'NO_API_KEY', status: 0, uncertain: false });
    expect(error.message).toMatch(/set API_BASE_URL and API_KEY$/);
  }
});

/** A service that gives this answer to every request. */
async function answering(answer: (response: ServerResponse, number: number) => unknown) {
  const odd: object[] = [];
  const { url, got } = await createEndpoint(({ number }, response) => void answer(response, number));
  const service = createService({ baseUrl: url, apiKey: 'k', paid: true, onOdd: (one) => odd.push(one) });
  return { service, got, odd };
}
const json = (body: object) => (response: ServerResponse) => response.end(JSON.stringify(body));
const stream = (text: string) => (response: ServerResponse) => response.end(text);

test('an answer that does not fit its shape is passed on unchanged, and reported once', async () => {
  const body = { tags: [{ id: 1 }, { id: 'b', contact_count: 7 }], added: true };
  const { service, odd } = await answering(json(body));
  expect(await service.call('ListCrmTags', {})).toEqual(body);
  expect(await service.call('ListCrmTags', {})).toEqual(body);
  expect(odd).toEqual([{ operation: 'ListCrmTags', field: 'tags.id' }]);
});

test('an answer with missing or additional fields fits its shape', async () => {
  const { service, odd } = await answering(json({ messages: [{}, { id: 'a', media: {}, added: { in: 'v2' } }] }));
  expect(await Array.fromAsync(service.items('ListMessages', {}))).toHaveLength(2);
  expect(odd).toEqual([]);
});

test.each([
  ['ListMessages', { messages: [{}], next_cursor: 'same' }],
  ['ListQuickReplies', { messages: [{}], page: { page: 1, has_next_page: true } }],
])('if the pages of %s repeat, the list ends with an error', async (operation, body) => {
  const { service, got } = await answering(json(body));
  const error = await errorOf(Array.fromAsync(service.pages(operation, {})));
  expect(error).toMatchObject({ code: 'unreadable' });
  expect(got.length).toBeLessThanOrEqual(2);
});

test('if the contract does not name the field of the items, the only array is used', async () => {
  const { service } = await answering(json({ contacts: [{ id: 'a' }], next_cursor: '' }));
  expect(await Array.fromAsync(service.items('ListContacts', {}))).toEqual([{ id: 'a' }]);
});

test.each([{ a: [], b: [] }, { messages: {} }])('an answer without clear items is an error: %j', async (body) => {
  const { service } = await answering(json(body));
  const operation = 'a' in body ? 'ListContacts' : 'ListMessages';
  const error = await errorOf(Array.fromAsync(service.items(operation, {})));
  expect(error.message).toContain('src/service/operations.ts');
});

test.each([{ id: 'q' }, { quote_id: 'q' }, { quoteId: 'q' }, { quote: { id: 'q' } }])(
  'the id of a quote is found in %j',
  async (body) => {
    const { service } = await answering(json(body));
    expect(await service.quote('ResumeCampaign', {})).toEqual({ quoteId: 'q', answer: body });
  },
);

test('8: media above 64 MiB end with an error, and so do media that are cut off', async () => {
  const mib = Buffer.alloc(1024 * 1024);
  const { service } = await answering(async (response, number) => {
    if (number === 2) return response.writeHead(200, { 'content-length': 100 }).write('half', () => response.destroy());
    for (let sent = 0; sent < 70 && !response.destroyed; sent++) await new Promise((done) => response.write(mib, done));
    return response.end();
  });
  const read = async () => Array.fromAsync((await service.media('a')).body, ({ length }) => length);
  expect(await errorOf(read())).toMatchObject({ code: 'unreadable', status: 200 });
  expect(await errorOf(read())).toMatchObject({ code: 'unreachable' });
});

test('a reader that leaves media in the middle closes the connection', async () => {
  const closed = Promise.withResolvers<void>();
  const { service } = await answering((response) => {
    response.once('close', closed.resolve);
    response.write('a beginning');
  });
  const { body } = await service.media('a');
  for await (const chunk of body) if (chunk.length > 0) break;
  await closed.promise;
});

test('2.14, 7.1: an error in the progress of a number is thrown after the earlier items', async () => {
  const failure = { error: { code: 'UNAVAILABLE', message: 'x', requestId: 'r', reason: 'PAIRING_UNAVAILABLE' } };
  const qr = { event: 'qr', qr: { data: 'code' } };
  const { service } = await answering(
    stream(
      `data: ${JSON.stringify(qr)}\n\nevent: ping\ndata: {}\n\nevent: error\ndata: ${JSON.stringify(failure)}\n\n`,
    ),
  );
  const seen: object[] = [];
  const reading = async () => {
    for await (const one of service.resume('a')) seen.push(one);
  };
  expect(await errorOf(reading())).toMatchObject({ code: 'UNAVAILABLE', reason: 'PAIRING_UNAVAILABLE' });
  expect(seen).toEqual([qr]);
});

test.each([
  ['{"error":{"code":"UNAUTHENTICATED"}}', 'UNAUTHENTICATED', 401, false],
  ['{"error":{"code":"PAYMENT_REQUIRED"}}', 'PAYMENT_REQUIRED', 402, false],
  ['{"error":{"code":"INTERNAL"}}', 'INTERNAL', 500, true],
  ['{"error":{"code":"SOMETHING_NEW"}}', 'SOMETHING_NEW', 0, false],
  ['<html>', 'unreadable', 0, false],
])(
  'E25: an error within a stream, %s, is judged by its code, not by status 200',
  async (data, code, status, retryable) => {
    const { service } = await answering(stream(`event: error\ndata: ${data}\n\n`));
    const error = await errorOf(Array.fromAsync(service.resume('a')));
    expect(error).toMatchObject({ code, status, retryable });
    expect(error.message).not.toContain('200');
  },
);

test.each([
  ['is cut off', 'event: message\ndata: {}\n\n'],
  ['says what is no object', 'event: message\ndata: 1\n\n'],
])('progress that %s is unreadable', async (_, text) => {
  const { service } = await answering(stream(text));
  expect(await errorOf(Array.fromAsync(service.resume('a')))).toMatchObject({ code: 'unreadable' });
});

test('the name of an operation decides the type of its answer', () => {
  expectTypeOf<NonNullable<ResponseOf<'ListMessages'>['messages']>[number]['created_at_unix_ms']>().toEqualTypeOf<
    `${bigint}` | undefined
  >();
  expectTypeOf<ResponseOf<'GetFlowRun'>['steps']>().extract<unknown[]>().items.toHaveProperty('at_unix_ms');
  expectTypeOf<ItemOf<'ListCrmTasks'>['title']>().toEqualTypeOf<string | undefined>();
  expectTypeOf<ItemOf<'ListQuickReplies'>['parts']>().not.toBeUnknown();
  expectTypeOf<ItemOf<'ListContacts'>>().toEqualTypeOf<Record<string, unknown>>();
  expectTypeOf<ResponseOf<'GetSession'>>().toEqualTypeOf<Record<string, unknown>>();
  expectTypeOf<ResponseOf<'SomethingNew'>>().toEqualTypeOf<Record<string, unknown>>();
  expectTypeOf<ServiceError['reason']>().toEqualTypeOf<string | null>();
});

test.each([
  [504, 'DEADLINE_EXCEEDED', undefined, true],
  [409, 'CONFLICT', 'OUTCOME_UNCERTAIN', true],
  [422, 'SOMETHING_NEW', undefined, false],
])('7.3: a send that is answered %i %s %s is uncertain: %s', async (status, code, reason, uncertain) => {
  const error = { code, message: 'x', ...(reason && { reason }) };
  const { service } = await answering((response) => response.writeHead(status).end(JSON.stringify({ error })));
  expect(await errorOf(service.send({ body: 'once' }, { quoteId: 'q' }))).toMatchObject({ code, uncertain });
});

test('a next_cursor that is not text is an error, not the end of the list', async () => {
  const { service } = await answering(json({ messages: [], next_cursor: 12 }));
  expect(await errorOf(Array.fromAsync(service.items('ListMessages', {})))).toMatchObject({ code: 'unreadable' });
});

test('media that are cancelled before the first read close their connection', async () => {
  const closed = Promise.withResolvers<void>();
  const { service } = await answering((response) => {
    response.once('close', closed.resolve);
    response.write('a beginning');
  });
  await (await service.media('a')).body.cancel();
  await closed.promise;
});
