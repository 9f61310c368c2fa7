import { once } from 'node:events';
import { createServer } from 'node:https';
import { createServer as createTcpServer, type AddressInfo, type Server } from 'node:net';
import { expect, onTestFinished, test } from 'vitest';
import { createPost, LIMITS_MS, type PostOptions } from '../../../src/tools/simulator/post.ts';
import { certificate, privateKey } from './certificate.ts';

async function listen(server: Server, close: () => void = () => {}) {
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(async () => {
    server.close();
    close();
    await once(server, 'close');
  });
  return (server.address() as AddressInfo).port;
}

async function secure() {
  const hosts: (string | undefined)[] = [];
  const server = createServer({ cert: certificate, key: privateKey }, (request, response) => {
    hosts.push(request.headers.host);
    request.resume().on('end', () => response.writeHead(204).end());
  });
  return { hosts, port: await listen(server, () => server.closeAllConnections()) };
}

function send(url: string, options: PostOptions) {
  const post = createPost(options);
  onTestFinished(() => post.close());
  return post.send({ url: new URL(url), address: '127.0.0.1' }, Buffer.from('{}'), {});
}

test('6.3: https deliveries connect to the checked address and keep the registered host name', async () => {
  const { hosts, port } = await secure();
  expect(await send(`https://localhost:${port}/`, { ca: certificate })).toBe(204);
  expect(await send(`https://127.0.0.1:${port}/`, { ca: certificate })).toBe(204);
  expect(hosts).toEqual([`localhost:${port}`, `127.0.0.1:${port}`]);
});

test('a certificate of an unknown authority or for another name is the failure "certificate"', async () => {
  const { hosts, port } = await secure();
  expect(await send(`https://localhost:${port}/`, {})).toBe('certificate');
  expect(await send(`https://hooks.example:${port}/`, { ca: certificate })).toBe('certificate');
  expect(hosts).toEqual([]);
});

test('6.3, 8: a receiver has 5 s to accept the connection and 10 s to answer', () => {
  expect(LIMITS_MS).toEqual({ connectMs: 5_000, answerMs: 10_000 });
});

test('6.3: a delivery fails if its connection takes longer than its own, shorter time limit', async () => {
  const silent = createTcpServer();
  const sockets: { destroy(): void }[] = [];
  silent.on('connection', (socket) => sockets.push(socket));
  const port = await listen(silent, () => sockets.forEach((socket) => socket.destroy()));
  const answer = await send(`https://localhost:${port}/`, { connectMs: 200, answerMs: 15_000 });
  expect(answer).toBe('connect timeout');
});
