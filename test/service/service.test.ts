// The client over real HTTP: what it sends, how it reads every kind of answer, and what it refuses without a call.
import { once } from 'node:events';
import { expect, test } from 'vitest';
import { TOO_LARGE } from '../../src/service/exchange.ts';
import { API_KEY, errorOf, json, setUp, text } from './server.ts';

const MIB = 1024 * 1024;

test('4.1: a call sends the envelope and the key, and asks for no compression', async () => {
  const { service, got } = await setUp(json({ contact_count: '9007199254740993' }));
  const answer = await service.call('ListCrmTags', { a: 1 }, { withinMs: 1_500 });
  expect(answer).toEqual({ contact_count: '9007199254740993' });
  const headers = { authorization: `Bearer ${API_KEY}`, 'accept-encoding': 'identity' };
  const body = { request: { a: 1 }, deadlineMs: 1_500 };
  expect(got).toMatchObject([{ url: '/v1/rpc/ListCrmTags', headers, body }]);
});

test('4.1, 4.3: sends, paid operations and quotes have fields of the contract only', async () => {
  const { service, got } = await setUp(json({ quote: { id: 'q' } }));
  expect(await service.quote('SendMessage', { body: 'hi' })).toMatchObject({ quoteId: 'q' });
  await service.send({ body: 'hi' }, { quoteId: 'q' });
  await service.call('ResumeCampaign', { id: '1' }, { quoteId: 'q', withinMs: 9 });
  expect(got.map(({ url, body }) => [url, body])).toEqual([
    ['/v1/billing/quotes', { operation: 'SendMessage', request: { body: 'hi' } }],
    ['/v1/messages/send', { request: { body: 'hi' }, billing: { quoteId: 'q' } }],
    ['/v1/rpc/ResumeCampaign', { request: { id: '1' }, billing: { quoteId: 'q' }, deadlineMs: 9 }],
  ]);
});

test('4.5: a list by cursor is read to its end, item by item', async () => {
  const pages = [{ messages: [{ id: 'a' }, { id: 'b' }], next_cursor: 'n' }, { messages: [{ id: 'c' }] }];
  const { service, got } = await setUp((response, number) => json(pages[number - 1] ?? {})(response, number));
  const items = await Array.fromAsync(service.items('ListMessages', { conversation_id: 'x' }));
  expect(items.map(({ id }) => id)).toEqual(['a', 'b', 'c']);
  expect(got.map(({ body }) => body['request'])).toEqual([
    { conversation_id: 'x' },
    { conversation_id: 'x', limit: 200, cursor: 'n' },
  ]);
});

test('4.5: a list by page is read to its end; one that is left early requests no further page', async () => {
  const { service, got } = await setUp((response, number) =>
    json({ messages: [{}], page: { page: number, total_pages: 3, has_next_page: number < 3 } })(response, number),
  );
  expect(await Array.fromAsync(service.items('ListQuickReplies', {}))).toHaveLength(3);
  expect(got.map(({ body }) => body['request'])).toEqual([
    {},
    { pagination: { page: 2 } },
    { pagination: { page: 3 } },
  ]);
  for await (const _ of service.items('ListQuickReplies', {})) break;
  expect(got).toHaveLength(4);
});

test.each([
  ['no page', { tags: [{}] }, 1],
  ['a list that has both kinds of pages', { tags: [{}], next_cursor: '', page: { page: 1, has_next_page: true } }, 1],
  ['an empty list whose field is missing', {}, 0],
])('4.5: %s is called once', async (_, body, items) => {
  const { service, got } = await setUp(json(body));
  expect(await Array.fromAsync(service.items('ListCrmTags', {}))).toHaveLength(items);
  expect(got).toHaveLength(1);
});

test.each([
  ['ListMessages', { messages: [{}], next_cursor: 'same' }],
  ['ListQuickReplies', { messages: [{}], page: { page: 1, has_next_page: true } }],
  ['ListMessages', { messages: [], next_cursor: 12 }],
  ['ListContacts', { a: [], b: [] }],
])('a list is an error if its pages repeat, or are not clear: %s %j', async (operation, body) => {
  const { service, got } = await setUp(json(body));
  expect(await errorOf(Array.fromAsync(service.items(operation, {})))).toMatchObject({ code: 'unreadable' });
  expect(got.length).toBeLessThanOrEqual(2);
});

test('without PAID_OPERATIONS=allow, paid calls are refused before a request is sent', async () => {
  const { service, got } = await setUp(json({ id: 'q' }), { paid: false });
  for (const refused of [
    service.send({ body: 'hi' }, { quoteId: 'q' }),
    service.call('ResumeCampaign', {}),
    service.call('SomethingUnknown', {}, { quoteId: 'q' }),
  ])
    expect(await errorOf(refused)).toMatchObject({ code: 'PAID_OPERATIONS_REFUSED', uncertain: false });
  expect(got).toEqual([]);
  expect(await service.quote('SendMessage', {}), 'asking for the price is free').toHaveProperty('quoteId');
});

test('without an API key, the error names the variables to set', async () => {
  const { service, got } = await setUp(json({}), { apiKey: '' });
  const error = await errorOf(Array.fromAsync(service.items('ListMessages', {})));
  expect(got).toEqual([]);
  expect(`${error.code} ${error.message}`).toMatch(/^NO_API_KEY .* set API_BASE_URL and API_KEY$/);
});

test.each(['<html>', '', '{"tags":[', '[]'])('status 200 with %j is unreadable', async (body) => {
  const { service } = await setUp(text(body, 200, { 'x-request-id': 'r-2' }));
  expect(await errorOf(service.call('X', {}))).toMatchObject({ code: 'unreadable', status: 200, requestId: 'r-2' });
});

test('a redirect is not followed', async () => {
  const { service, got } = await setUp(text('', 308, { location: '/v1/rpc/Elsewhere' }));
  expect((await errorOf(service.call('X', {}))).message).toContain('redirects');
  expect(got).toHaveLength(1);
});

test('8: an answer above 64 MiB is not read to its end, and neither are media', async () => {
  const sent: number[] = [];
  const { service } = await setUp(async (response, number) => {
    const closed = once(response, 'close');
    for (sent[number] = 0; sent[number] < 200 && !response.destroyed; sent[number]++)
      await Promise.race([closed, new Promise((done) => response.write(Buffer.alloc(MIB, ' '), done))]);
    return response.end();
  });
  expect(await errorOf(service.call('X', {}))).toMatchObject({ code: 'unreadable', reason: TOO_LARGE, status: 200 });
  const { body } = await service.media('a');
  expect(await errorOf(Array.fromAsync(body ?? [], () => 0))).toMatchObject({ code: 'unreadable', status: 200 });
  expect(Math.max(...sent.slice(1))).toBeLessThan(150);
});

test('4.3: media come as a stream with type and size; leaving them closes the connection', async () => {
  const closed = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  const { service } = await setUp((response, number) => {
    if (number === 1) return text('a picture', 200, { 'content-type': 'image/png', 'content-length': 9 })(response, 1);
    response.once('close', () => closed[number - 2]?.resolve());
    return response.write('a beginning');
  });
  const answer = await service.media('a/b');
  expect(['content-type', 'content-length'].map((name) => answer.headers.get(name))).toEqual(['image/png', '9']);
  expect(await answer.text()).toBe('a picture');
  for await (const chunk of (await service.media('a')).body ?? []) if (chunk.length > 0) break;
  await (await service.media('a')).body?.cancel();
  await Promise.all(closed.map(({ promise }) => promise));
});

test('the end of the attempt aborts calls, also those that have a signal of their own', async () => {
  const { service, ends } = await setUp((response) => response.writeHead(200).write('{', () => ends.abort()));
  const { signal } = new AbortController();
  expect(await errorOf(service.call('X', {}, { signal }))).toMatchObject({ code: 'aborted', uncertain: true });
});
