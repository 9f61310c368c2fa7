// Which requests count as deliveries: methods, paths, Host, and headers that are not signed (hazards C1, I41 to I46
// and I71 to I74). Also the probes, and the log line of an answer that was cut off.
import { describe, expect, test } from 'vitest';
import {
  bodyOf,
  deliver,
  head,
  hmac,
  kept,
  message,
  openLine,
  pairs,
  raw,
  rows,
  SECONDS,
  send,
  signed,
  startReceiver,
  statuses,
  UNREADABLE_TARGETS,
  until,
} from './harness.ts';

const body = bodyOf();

describe('a request that is no readable HTTP', () => {
  test.each([
    ['two lengths', 400, head([...pairs(body), 'Content-Length: 5'])],
    ['headers above 16 KiB', 431, head([...pairs(body), ['X-Padding', 'x'.repeat(17_000)]])],
  ])('is refused, counted and logged: %s', async (_, status, bytes) => {
    const receiver = await startReceiver();
    expect(statuses(await raw(receiver.port, bytes))).toEqual([status]);
    expect(await receiver.counters()).toMatchObject({ 'refused.bad_http': 1 });
    expect(receiver.lines).toMatchObject([{ cause: 'bad_http', status }]);
    expect(await deliver(receiver.port, body)).toBe(204);
  });
});

describe('an answer', () => {
  test('reaches a sender that has closed its side after the whole request', async () => {
    const receiver = await startReceiver();
    const line = await openLine(receiver.port);
    line.socket.end(Buffer.concat([Buffer.from(head(pairs(body))), body]));
    expect(statuses(await line.heard('\r\n\r\n'))).toEqual([204]);
    expect(rows(receiver)).toBe(1);
  });

  test('is an empty 204 for new, duplicate and quarantined deliveries', async () => {
    const receiver = await startReceiver();
    for (const bytes of [body, body, Buffer.from('{')]) {
      const { status, text, headers } = await send(receiver.port, bytes, { headers: signed(bytes) });
      expect([status, text, headers['content-type']]).toEqual([204, '', undefined]);
    }
    expect(receiver.answered).toEqual([
      { status: 204, cause: 'new' },
      { status: 204, cause: 'duplicate' },
      { status: 204, cause: 'quarantined' },
    ]);
    expect(await receiver.counters()).toMatchObject({ accepted: 1, duplicates: 1, quarantined: 1 });
  });

  test('is given only once the delivery is on disk', async () => {
    const gate = Promise.withResolvers<void>();
    const receiver = await startReceiver({
      wrap: (store) => ({
        ...store,
        async accept(batch) {
          await gate.promise;
          return store.accept(batch);
        },
      }),
    });
    const line = await openLine(receiver.port);
    line.write(Buffer.concat([Buffer.from(head(pairs(body))), body]));
    expect((await send(receiver.port, '', { method: 'GET', path: '/livez' })).status).toBe(200);
    expect(line.text()).toBe('');
    gate.resolve();
    expect(statuses(await line.heard('\r\n\r\n'))).toEqual([204]);
  });
});

describe('a target', () => {
  test.each(UNREADABLE_TARGETS)('E86: that cannot be parsed (%s) gets 400, and no error in the log', async (target) => {
    const receiver = await startReceiver();
    for (const method of ['GET', 'POST']) {
      const { status } = await send(receiver.port, '', { method, path: target, headers: signed('') });
      expect(status).toBe(400);
    }
    expect(receiver.lines.filter(({ cause }) => cause !== 'bad_http')).toEqual([]);
    expect(await deliver(receiver.port, body)).toBe(204);
  });

  test('E86: that names a host, as proxies send it, is read like any other', async () => {
    const receiver = await startReceiver();
    const path = 'http://receiver/webhooks';
    expect((await send(receiver.port, body, { path, headers: signed(body) })).status).toBe(204);
  });
});

describe('a body that nobody reads', () => {
  test.each([
    ['GET', '/livez', 200],
    ['POST', '/elsewhere', 404],
    ['GET', '/webhooks', 405],
    ['POST', 'http://[::1/x', 400],
  ])('E84: of %s %s ends the connection after the answer', async (method, path, status) => {
    const receiver = await startReceiver();
    const line = await openLine(receiver.port);
    const bytes = Buffer.alloc(1_000_000);
    line.write(`${method} ${path} HTTP/1.1\r\nHost: x\r\nContent-Length: 100000000\r\n\r\n`);
    line.write(bytes);
    const text = await line.closed();
    expect(statuses(text)).toEqual([status]);
    expect(text.toLowerCase()).toContain('connection: close');
  });

  test('E84: an expectation that is unknown gets 417, and ends the connection', async () => {
    const receiver = await startReceiver();
    const line = await openLine(receiver.port);
    line.write(head([...pairs(body), ['Expect', 'something else']]));
    expect(statuses(await line.closed())).toEqual([417]);
  });

  test('a probe without a body keeps its connection', async () => {
    const receiver = await startReceiver();
    const line = await openLine(receiver.port);
    for (let n = 1; n < 4; n++) {
      line.write('GET /livez HTTP/1.1\r\nHost: x\r\n\r\n');
      await until(() => statuses(line.text()).length === n);
    }
    expect(line.socket.closed).toBe(false);
  });
});

describe('a method', () => {
  test.each(['GET', 'PUT', 'PATCH', 'DELETE', 'OPTIONS', 'PROPFIND', 'TRACE', 'SEARCH'])(
    'I71: %s is refused with 405, and the answer names the allowed method',
    async (method) => {
      const receiver = await startReceiver();
      const { status, headers, text } = await send(receiver.port, body, {
        method,
        headers: { ...signed(body), 'Content-Length': body.length },
      });
      expect([status, headers['allow'], text]).toEqual([405, 'POST', '']);
      expect(rows(receiver)).toBe(0);
    },
  );

  test('I71: HEAD is refused with 405', async () => {
    const receiver = await startReceiver();
    expect((await send(receiver.port, '', { method: 'HEAD' })).status).toBe(405);
  });

  test('I71: TRACE echoes no part of its request', async () => {
    const receiver = await startReceiver();
    const text = await raw(receiver.port, head([['X-Secret', 'echo-me']], 'TRACE /webhooks HTTP/1.1'));
    expect(statuses(text)).toEqual([405]);
    expect(text).not.toContain('echo-me');
  });

  test.each(['CONNECT /webhooks', 'FOO /webhooks', 'post /webhooks'])('I71: %s is refused by Node', async (start) => {
    const receiver = await startReceiver();
    const line = await openLine(receiver.port);
    line.write(head(pairs(body), `${start} HTTP/1.1`));
    line.write(body);
    expect(statuses(await line.closed()).every((status) => status === 400)).toBe(true);
    expect(rows(receiver)).toBe(0);
  });
});

describe('a path', () => {
  test.each<[string, number]>([
    ['/webhooks', 204],
    ['/webhooks?source=1', 204],
    ['http://evil.example/webhooks', 204],
    ['/webhooks/', 404],
    ['/WEBHOOKS', 404],
    ['//webhooks', 404],
    ['/%77ebhooks', 404],
    ['/webhooks%2f', 404],
    ['/webhooks%00', 404],
    ['/./webhooks', 404],
    ['/x/../webhooks', 404],
    ['/webhooks;a=b', 404],
    ['/', 404],
    ['/%', 404],
    ['/%ff', 404],
    ['*', 404],
    [`/${'x'.repeat(8_000)}`, 404],
  ])('I72: %s is answered with %d, and only the configured path stores', async (path, status) => {
    const receiver = await startReceiver();
    const text = await raw(receiver.port, head(pairs(body), `POST ${path} HTTP/1.1`), body);
    expect(statuses(text)).toEqual([status]);
    expect(rows(receiver)).toBe(status === 204 ? 1 : 0);
  });

  test('I72: that is unknown is refused with its body unread, and the connection is closed', async () => {
    const receiver = await startReceiver();
    const line = await openLine(receiver.port);
    line.write(head([['Content-Length', '100000000']], 'POST /elsewhere HTTP/1.1'));
    const text = await line.heard('\r\n\r\n');
    expect(statuses(text)).toEqual([404]);
    expect(text).toMatch(/^connection: close\r$/im);
  });

  test('I71: with a refused method and an unread body closes the connection', async () => {
    const receiver = await startReceiver();
    const line = await openLine(receiver.port);
    line.write(head([['Content-Length', '100000000']], 'PUT /webhooks HTTP/1.1'));
    const text = await line.heard('\r\n\r\n');
    expect(statuses(text)).toEqual([405]);
    expect(text).toMatch(/^connection: close\r$/im);
  });
});

describe('Host and forwarding headers', () => {
  test.each<[string, string[], number]>([
    ['a@b', ['Host: a@b'], 204],
    ['of 8 KB', [`Host: ${'h'.repeat(8_000)}`], 204],
    ['empty', ['Host:'], 204],
    ['with a path', ['Host: a/b?c#d'], 204],
    ['missing', [], 400],
  ])('I73: a Host that is %s is ignored, or refused if it is missing', async (_, lines, status) => {
    const receiver = await startReceiver();
    const text = await raw(
      receiver.port,
      head(pairs(body)).replace('Host: receiver\r\n', lines.map((line) => `${line}\r\n`).join('')),
      body,
    );
    expect(statuses(text)[0]).toBe(status);
    expect(rows(receiver)).toBe(status === 204 ? 1 : 0);
  });

  test('I73: two Hosts are ignored or refused, and cause no error in the kit', async () => {
    const receiver = await startReceiver();
    expect([204, 400]).toContain(statuses(await raw(receiver.port, head(['Host: other', ...pairs(body)]), body))[0]);
  });

  test('I74: forged forwarding headers change nothing, and never reach the log', async () => {
    const receiver = await startReceiver();
    const forged = {
      'X-Forwarded-For': '6.6.6.6, ::1',
      'X-Forwarded-Proto': 'javascript',
      'X-Forwarded-Host': 'evil.example',
      Forwarded: 'for=6.6.6.6;host=evil.example',
      'X-HTTP-Method-Override': 'DELETE',
      'X-Original-URL': '/elsewhere',
    };
    expect(await deliver(receiver.port, body, forged)).toBe(204);
    expect(await deliver(receiver.port, body, { ...forged, 'X-Svc-Signature': 'v1=' })).toBe(401);
    expect(JSON.stringify(receiver.lines)).not.toMatch(/6\.6\.6\.6|evil/);
  });
});

describe('headers that are not signed', () => {
  test.each<[string, Record<string, string>]>([
    ['I41: another event id', { 'X-Svc-Event-Id': 'evt_other' }],
    ['I42: the type of a ping', { 'X-Svc-Event-Type': 'webhook.ping' }],
    ['I43: attempt -1', { 'X-Svc-Attempt': '-1' }],
    ['I43: attempt 999999', { 'X-Svc-Attempt': '999999' }],
    ['I43: attempt abc', { 'X-Svc-Attempt': 'abc' }],
    ['I44: a delivery id of 8 KB', { 'X-Svc-Delivery-Id': 'd'.repeat(8_000) }],
    ['I44: a delivery id that is not ASCII', { 'X-Svc-Delivery-Id': 'é\u00ff' }],
    ['a cookie and an authorization', { Cookie: 'a=b', Authorization: 'Basic eDp5' }],
    ['none of the usual ones', { 'User-Agent': '' }],
  ])('%s: only the body counts', async (_, headers) => {
    const receiver = await startReceiver();
    expect(await deliver(receiver.port, body, headers)).toBe(204);
    expect(kept(receiver).events).toMatchObject([{ id: 'evt_1', cursor: '1' }]);
    expect((await receiver.store.read.events({ limit: 1 }, 0)).events[0]?.type).toBe('MessageReceived');
    expect(receiver.lines).toEqual([]);
  });

  test('I46: that differ between copies do not matter: there is one row, and the other copies are duplicates', async () => {
    const receiver = await startReceiver();
    for (let n = 1; n <= 50; n++) {
      const headers = {
        'X-Svc-Event-Id': `evt_${n}`,
        'X-Svc-Delivery-Id': `d${n}`,
        'X-Svc-Attempt': String(n),
        'X-Svc-Event-Type': `T${n}`,
      };
      expect(await deliver(receiver.port, body, headers)).toBe(204);
    }
    expect(rows(receiver)).toBe(1);
    expect(await receiver.counters()).toMatchObject({ accepted: 1, duplicates: 49 });
  });

  test('are found whether their names are in upper or lower case', async () => {
    const receiver = await startReceiver();
    const headers = { 'x-svc-TIMESTAMP': String(SECONDS), 'X-SVC-signature': `v1=${hmac(body)}` };
    expect((await send(receiver.port, body, { headers })).status).toBe(204);
  });
});

describe('the probes', () => {
  test('tell anybody that the process lives and that deliveries can be committed', async () => {
    const receiver = await startReceiver();
    for (const path of ['/livez', '/readyz'])
      expect((await send(receiver.port, '', { method: 'GET', path })).status).toBe(200);
    expect((await send(receiver.port, '', { method: 'POST', path: '/readyz' })).status).toBeGreaterThanOrEqual(400);
  });

  test('F18: show a drain, in which deliveries still get 204 and their connections are closed', async () => {
    const receiver = await startReceiver();
    receiver.drain();
    const ready = await send(receiver.port, '', { method: 'GET', path: '/readyz' });
    expect([ready.status, ready.text]).toEqual([503, 'draining\n']);
    expect((await send(receiver.port, '', { method: 'GET', path: '/livez' })).status).toBe(200);
    const text = await raw(receiver.port, head(pairs(body)), body);
    expect(statuses(text)).toEqual([204]);
    expect(text).toMatch(/^connection: close\r$/im);
  });
});

test('an error in the receiver itself is answered, and logged without its stack and without any text of the delivery', async () => {
  const receiver = await startReceiver();
  receiver.verifier.body = () => {
    throw new TypeError(`cannot read ${body.toString()}`);
  };
  const { status, text } = await send(
    receiver.port,
    bodyOf({ data: { MessageReceived: message({ body: 'private' }) } }),
    { headers: signed(body) },
  );
  expect(status).toBe(500);
  expect(text).not.toMatch(/private|hello|TypeError/);
  expect(receiver.lines).toMatchObject([{ cause: 'broken_answer', error: 'TypeError' }]);
  expect(JSON.stringify(receiver.lines)).not.toMatch(/private|hello|cannot read/);
});
