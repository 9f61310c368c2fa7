// The client of the service over real HTTP: what it sends, how it handles every kind of answer, and what it refuses
// without a call.
import { createServer, type IncomingHttpHeaders, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { gzipSync } from 'node:zlib';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { ServiceError } from '../../src/service/errors.ts';
import { createService, noService, type Service } from '../../src/service/service.ts';

const API_KEY = 'svc_live_0123456789abcdef';

let server: Server;
let base: string;
let service: Service;
let requests: { method: string | undefined; url: string | undefined; headers: IncomingHttpHeaders; body: unknown }[];
let answer: (res: ServerResponse) => void;

beforeEach(async () => {
  requests = [];
  answer = json(200, {});
  server = createServer((req, res) => {
    let body = '';
    req.on('data', (chunk: Buffer) => (body += chunk.toString()));
    req.on('end', () => {
      requests.push({ method: req.method, url: req.url, headers: req.headers, body: JSON.parse(body) });
      answer(res);
    });
  });
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
  base = `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`;
  service = createService({ baseUrl: base, apiKey: API_KEY, paid: false });
});
afterEach(async () => {
  server.closeAllConnections();
  await new Promise((done) => server.close(done));
});

function json(status: number, body: unknown, headers: Record<string, string> = {}): (res: ServerResponse) => void {
  return (res) =>
    void res.writeHead(status, { 'content-type': 'application/json', ...headers }).end(JSON.stringify(body));
}

function text(
  status: number,
  body: string | Buffer,
  headers: Record<string, string> = {},
): (res: ServerResponse) => void {
  return (res) => void res.writeHead(status, { 'content-type': 'text/html', ...headers }).end(body);
}

/** The error of a call. The test fails if the call succeeds. */
async function errorOf(calling: Promise<unknown>): Promise<ServiceError> {
  const error = await calling.then(
    () => undefined,
    (thrown: unknown) => thrown,
  );
  expect(error).toBeInstanceOf(ServiceError);
  return error as ServiceError;
}

describe('requests', () => {
  test('a call is a POST to /rpc/<operation> with the envelope and the key, and asks for no compression', async () => {
    await service.call('ListCrmTags', { with_archived: true });
    expect(requests).toMatchObject([
      {
        method: 'POST',
        url: '/v1/rpc/ListCrmTags',
        headers: {
          authorization: `Bearer ${API_KEY}`,
          'content-type': 'application/json',
          'accept-encoding': 'identity',
        },
        body: { request: { with_archived: true }, deadlineMs: 30_000 },
      },
    ]);
    expect(Object.keys(requests[0]?.body as object).toSorted()).toEqual(['deadlineMs', 'request']);
  });

  test('deadlineMs is that of the caller, if the caller sets one', async () => {
    await service.call('GetApiKeyIdentity', {}, { deadlineMs: 1_500 });
    expect(requests[0]?.body).toEqual({ request: {}, deadlineMs: 1_500 });
  });

  test('a slash at the end of API_BASE_URL does no harm', async () => {
    await createService({ baseUrl: `${base}//`, apiKey: API_KEY, paid: false }).call('GetApiKeyIdentity', {});
    expect(requests[0]?.url).toBe('/v1/rpc/GetApiKeyIdentity');
  });

  test('a paid operation carries its quote, if paid operations are allowed', async () => {
    await createService({ baseUrl: base, apiKey: API_KEY, paid: true }).call(
      'ResumeCampaign',
      { id: '1' },
      { quoteId: 'q-1' },
    );
    expect(requests[0]?.body).toEqual({ request: { id: '1' }, deadlineMs: 30_000, billing: { quoteId: 'q-1' } });
  });
});

describe('E26: a request has fields of the contract only', () => {
  const PAGES = {
    cursor:
      'ListCalls ListCampaignAudience ListCampaignDeliveries ListCampaignHistory ListCampaigns ListContacts ListConversations ListCrmContacts ListCrmListMembers ListCrmOpportunities ListCrmTasks ListDialogTrees ListFlowRuns ListMedia ListMessages ListMessageTemplates ListRecoveryRuns ListViewOnceMedia',
    page: 'ListConnectedDevices ListQuickReplies ListSessions ListWarmupDevices',
    none: 'ListCrmTags ListSomethingNew GetFlowRun GetSession',
  };
  const FIRST = {
    cursor: { conversation_id: 'c', limit: 200 },
    page: { conversation_id: 'c', pagination: { page: 1, page_size: 200 } },
    none: { conversation_id: 'c' },
  };

  test.each(['cursor', 'page', 'none'] as const)('of a list by %s', async (kind) => {
    answer = json(200, { things: [{ id: '1' }] });
    for (const operation of PAGES[kind].split(' ')) {
      for await (const _ of service.pages(operation, { conversation_id: 'c' })) break;
      expect(requests.pop()?.body, operation).toEqual({ request: FIRST[kind], deadlineMs: 30_000 });
    }
  });

  test('of a list of unknown kind, which is followed if its answer names another page', async () => {
    answer = (res) => json(200, { tags: [{ id: '1' }], next_cursor: requests.length < 2 ? 'n' : '' })(res);
    expect(await Array.fromAsync(service.items('ListCrmTags', {}))).toHaveLength(2);
    expect(requests.map(({ body }) => body)).toEqual([
      { request: {}, deadlineMs: 30_000 },
      { request: { cursor: 'n' }, deadlineMs: 30_000 },
    ]);
  });

  test('of a send, a quote and a reconnection', async () => {
    answer = json(200, { quoteId: 'q' });
    const paying = createService({ baseUrl: base, apiKey: API_KEY, paid: true });
    await paying.send({ body: 'hi' }, { quoteId: 'q', deadlineMs: 5_000 });
    await paying.quote('SendMessage', { body: 'hi' });
    await errorOf(Array.fromAsync(paying.resume('s')));
    expect(requests.map(({ url, body }) => [url, body])).toEqual([
      ['/v1/messages/send', { request: { body: 'hi' }, billing: { quoteId: 'q' } }],
      ['/v1/billing/quotes', { operation: 'SendMessage', request: { body: 'hi' } }],
      ['/v1/sessions/resume', { request: { session_id: 's' } }],
    ]);
  });
});

describe('refusals before a request is sent', () => {
  test('a paid operation, unless PAID_OPERATIONS=allow', async () => {
    const error = await errorOf(service.call('ResumeCampaign', { id: '1' }, { quoteId: 'q-1' }));
    expect(error).toMatchObject({ code: 'PAID_OPERATIONS_REFUSED', status: 0, reason: null, requestId: null });
    expect(error.message).toContain('PAID_OPERATIONS=allow');
    expect(requests).toEqual([]);
  });

  test('every call without an API key; the message names the variables to set', async () => {
    const error = await errorOf(noService.call('ListCrmTags', {}));
    expect(error).toMatchObject({ code: 'NO_API_KEY', status: 0 });
    expect(error.message).toMatch(/API_BASE_URL.*API_KEY/);
  });
});

describe('answers', () => {
  test('the response object is passed on unchanged', async () => {
    answer = json(200, { tags: [{ id: 'a', contact_count: '9007199254740993' }] });
    expect(await service.call('ListCrmTags', {})).toEqual({ tags: [{ id: 'a', contact_count: '9007199254740993' }] });
  });

  test.each([
    [401, 'UNAUTHENTICATED', 'API_AUTH_REVOKED'],
    [403, 'FORBIDDEN', 'API_KEY_IP_FORBIDDEN'],
    [400, 'VALIDATION_FAILED', 'EVENT_CURSOR_INVALID'],
    [409, 'CONFLICT', 'BILLING_QUOTE_EXPIRED'],
    [428, 'PAYMENT_REQUIRED', 'BILLING_QUOTE_REQUIRED'],
    [429, 'RATE_LIMITED', 'RATE_LIMITED'],
    [503, 'UNAVAILABLE', 'OUTCOME_UNCERTAIN'],
    [504, 'UNAVAILABLE', 'RPC_DEADLINE_EXCEEDED'],
    [404, 'NOT_FOUND', undefined],
    [500, 'INTERNAL', undefined],
  ])('%i %s is a ServiceError with code, reason, status and requestId', async (status, code, reason) => {
    answer = json(
      status,
      { error: { code, message: 'texto', requestId: 'r-1', reason } },
      { 'x-request-id': 'of-the-header' },
    );
    const error = await errorOf(service.call('ListCrmTags', {}));
    expect(error).toMatchObject({ name: 'ServiceError', code, reason: reason ?? null, status, requestId: 'r-1' });
    expect(error.message, 'the message of the service may change').not.toContain('texto');
    expect(requests, 'nothing is repeated by itself').toHaveLength(1);
  });

  test('without a requestId in the envelope, that of the header is used', async () => {
    answer = json(500, { error: { code: 'INTERNAL', message: '' } }, { 'x-request-id': 'of-the-header' });
    expect(await errorOf(service.call('X', {}))).toMatchObject({ code: 'INTERNAL', requestId: 'of-the-header' });
  });

  test.each([
    [400, 'VALIDATION_FAILED'],
    [401, 'UNAUTHENTICATED'],
    [402, 'PAYMENT_REQUIRED'],
    [403, 'FORBIDDEN'],
    [404, 'NOT_FOUND'],
    [409, 'CONFLICT'],
    [413, 'VALIDATION_FAILED'],
    [418, 'unreadable'],
    [428, 'PAYMENT_REQUIRED'],
    [429, 'RATE_LIMITED'],
    [500, 'INTERNAL'],
    [502, 'UNAVAILABLE'],
    [503, 'UNAVAILABLE'],
    [504, 'UNAVAILABLE'],
    [522, 'UNAVAILABLE'],
  ])('E25: %i from a proxy, without an error envelope, is %s', async (status, code) => {
    answer = text(status, '<html>no</html>');
    expect(await errorOf(service.call('X', {}))).toMatchObject({ code, status, reason: null });
  });

  test.each([
    ['HTML', '<html>please log in</html>'],
    ['nothing', ''],
    ['half of the JSON', '{"tags":['],
    ['an array', '[]'],
    ['null', 'null'],
    ['text', '"ok"'],
    ['a number', '1'],
  ])('status 200 with %s is unreadable', async (_, body) => {
    answer = text(200, body, { 'x-request-id': 'r-2' });
    expect(await errorOf(service.call('X', {}))).toMatchObject({ code: 'unreadable', status: 200, requestId: 'r-2' });
  });

  test.each([301, 302, 303, 307, 308])('a redirect (%i) is not followed', async (status) => {
    answer = text(status, '', { location: `${base}/rpc/Elsewhere` });
    expect(await errorOf(service.call('X', {}))).toMatchObject({ code: 'unreachable', status: 0 });
    expect(requests.map(({ url }) => url)).toEqual(['/v1/rpc/X']);
  });
});

describe('F36: an answer that does not come, or does not end', () => {
  test('a connection that is cut before the answer', async () => {
    answer = (res) => void res.destroy();
    expect(await errorOf(service.call('X', {}))).toMatchObject({ code: 'unreachable', status: 0 });
  });

  test('a connection that is cut within the answer', async () => {
    answer = (res) => {
      res.writeHead(200, { 'content-length': '100' }).write('{"a":');
      setImmediate(() => res.destroy());
    };
    expect(await errorOf(service.call('X', {}))).toMatchObject({ code: 'unreachable' });
  });

  test('a port where nobody listens', async () => {
    const closed = createServer();
    await new Promise<void>((done) => closed.listen(0, '127.0.0.1', done));
    const { port } = closed.address() as AddressInfo;
    await new Promise((done) => closed.close(done));
    const error = await errorOf(
      createService({ baseUrl: `http://127.0.0.1:${port}/v1`, apiKey: API_KEY, paid: false }).call('X', {}),
    );
    expect(error.code).toBe('unreachable');
    expect(error.message).toContain('API_BASE_URL');
    expect(error.cause).toBeInstanceOf(Error);
  });

  test('TLS to a port without TLS', async () => {
    const secure = createService({ baseUrl: base.replace('http:', 'https:'), apiKey: API_KEY, paid: false });
    expect(await errorOf(secure.call('X', {}))).toMatchObject({ code: 'unreachable' });
  });

  test('a caller that aborts the call', async () => {
    const stop = new AbortController();
    answer = () => stop.abort();
    expect(await errorOf(service.call('X', {}, { signal: stop.signal }))).toMatchObject({ code: 'aborted' });
  });

  test('a caller that aborts while the answer arrives', async () => {
    const stop = new AbortController();
    answer = (res) => {
      res.writeHead(200).write('{"a":"');
      setImmediate(() => stop.abort());
    };
    expect(await errorOf(service.call('X', {}, { signal: stop.signal }))).toMatchObject({ code: 'aborted' });
  });

  test('an answer above 64 MiB is not read to its end', async () => {
    let sent = 0;
    answer = (res) => {
      const chunk = Buffer.alloc(1024 * 1024, ' ');
      res.writeHead(200);
      const more = (): void => {
        if (res.destroyed || sent >= 200) return void res.end();
        sent++;
        res.write(chunk, more);
      };
      more();
    };
    expect(await errorOf(service.call('X', {}))).toMatchObject({ code: 'unreadable', status: 200 });
    expect(sent).toBeLessThan(120);
  });

  test('the unpacked bytes of a gzip bomb count', async () => {
    answer = text(200, gzipSync(Buffer.alloc(80 * 1024 * 1024, ' ')), { 'content-encoding': 'gzip' });
    expect(await errorOf(service.call('X', {}))).toMatchObject({ code: 'unreadable' });
  });
});

test('no error shows the API key', async () => {
  answer = json(401, { error: { code: 'UNAUTHENTICATED', message: API_KEY } });
  const error = await errorOf(service.call('X', {}));
  expect(`${error.message} ${error.stack} ${JSON.stringify(error)}`).not.toContain(API_KEY);
});
