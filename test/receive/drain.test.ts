import { once } from 'node:events';
import { Agent, request } from 'node:http';
import { connect, type AddressInfo } from 'node:net';
import Koa from 'koa';
import { expect, test } from 'vitest';
import { createReceiveServer, drainServer } from '../../src/receive/server.ts';

test('a drain ends once the deliveries in flight are answered, although the sender would keep its connection', async () => {
  const arrived = Promise.withResolvers<void>();
  const answer = Promise.withResolvers<void>();
  const app = new Koa().use(async (ctx) => {
    arrived.resolve();
    await answer.promise;
    ctx.status = 204;
  });
  const server = createReceiveServer(app).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const agent = new Agent({ keepAlive: true });
  const sent = request({
    host: '127.0.0.1',
    port: (server.address() as AddressInfo).port,
    method: 'POST',
    agent,
  }).end();
  await arrived.promise;
  const drained = drainServer(server, () => 1);
  answer.resolve();
  const [response] = await once(sent, 'response');
  response.resume();
  await drained;
  expect([response.statusCode, response.headers.connection]).toEqual([204, 'keep-alive']);
  agent.destroy();
});

test('a drain does not wait for connections on which no delivery is complete', async () => {
  const server = createReceiveServer(new Koa()).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const [silent, halting] = [connect(port, '127.0.0.1'), connect(port, '127.0.0.1')] as const;
  const closed = [silent, halting].map((socket) => new Promise((done) => socket.on('error', done).on('close', done)));
  await Promise.all([once(silent, 'connect'), once(halting, 'connect')]);
  halting.write('POST /webhooks HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{');
  await drainServer(server, () => 0);
  await Promise.all(closed);
});
