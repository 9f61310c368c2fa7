// Runs every template in a real kit beside the simulator.
import { createServer } from 'node:http';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { resolve } from 'node:path';
import { afterEach, expect, test } from 'vitest';
import { createSimulatedService, type SimulatedService } from '../../src/tools/simulator/service.ts';
import { createKit, SECRET, until, type Kit } from './kit.ts';

let kit: Kit | undefined;
let service: SimulatedService | undefined;
const forwarded = new Set<string>();
const endpoint = createServer((request, response) => {
  forwarded.add(String(request.headers['idempotency-key']));
  request.resume().on('end', () => response.writeHead(204).end());
});
afterEach(async () => {
  await kit?.remove();
  await service?.close();
  endpoint.closeAllConnections();
  endpoint.close();
});

test('every template handles its events', async () => {
  await once(endpoint.listen(0, '127.0.0.1'), 'listening');
  service = createSimulatedService({ seed: 1, addresses: { loopback: true } });
  const scopes = ['events:read', 'product:inbox', 'messages:send'];
  const { key, secret } = service.keys.create({ name: 'templates', scopes, validDays: 30 });
  kit = await createKit(
    {},
    {
      HANDLERS_DIR: resolve('templates'),
      API_BASE_URL: await service.listen(),
      API_KEY: secret,
      PAID_OPERATIONS: 'allow',
      FORWARD_URL: `http://127.0.0.1:${(endpoint.address() as AddressInfo).port}/`,
      FORWARD_SECRET: 'of the test',
      HANDOFF_TO: 'user-1',
    },
  );
  await kit.start();
  await service.webhooks.register(key, { url: `http://127.0.0.1:${kit.port}/webhooks`, secret: SECRET });
  const [session = ''] = service.history.numbers;
  const write = (n: number, body: string) =>
    service?.happen(1, 'MessageReceived', {
      sessionId: session,
      data: { session_id: session, from: `1555010${n}`, body },
    });
  for (const n of [1, 2, 3]) write(n, 'hello');
  write(4, 'a person, please');
  for (const status of ['READ', 'SENT'])
    service.happen(1, 'MessageStatusUpdated', { sessionId: session, data: { message_id: 'm1', status } });

  const tasks = () =>
    kit?.query<{ state: string; n: number }>('select state, count(*) as n from tasks group by state') ?? [];
  // Each of 4 messages gives 4 tasks: auto-reply, conversations, forward-http, handoff. Each of 4 sent messages gives a task
  // for forward-http. Each of 2 statuses gives a task for forward and one for status.
  await until(() => tasks().every(({ state }) => state === 'done') && (tasks()[0]?.n ?? 0) >= 16 + 4 + 2 + 2);
  expect(kit.query('select sum(unread) as n from conversations')).toEqual([{ n: 4 }]);
  expect(kit.query('select status from delivery_status')).toEqual([{ status: 'read' }]);
  expect(forwarded.size).toBe(10);
});
