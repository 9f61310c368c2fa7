import { once } from 'node:events';
import { Agent, request } from 'node:http';
import type { AddressInfo } from 'node:net';
import Koa from 'koa';
import { expect, test } from 'vitest';
import { createReceiveServer, drainServer } from '../../src/receive/server.ts';

test('a drain ends once what was in flight is answered, though the sender would keep its connection', async () => {
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
  const drained = drainServer(server);
  answer.resolve();
  const [response] = await once(sent, 'response');
  response.resume();
  await drained;
  expect([response.statusCode, response.headers.connection]).toEqual([204, 'keep-alive']);
  agent.destroy();
});
