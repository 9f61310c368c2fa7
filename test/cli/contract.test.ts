// What `doctor` finds about the assumptions in src/wire/README.md: at the simulator, and at services that differ.
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { ServerResponse } from 'node:http';
import { expect, onTestFinished, test } from 'vitest';
import { contract } from '../../src/cli/doctor/contract.ts';
import { createSimulatedService } from '../../src/tools/simulator/service.ts';
import { rowsUnder } from '../documents.ts';
import { see, serve } from './harness.ts';

const REMEDY = 'src/wire/README.md says what the kit assumes, and where to change it';

async function atSimulator(events: number, scopes = ['events:read']) {
  const simulator = createSimulatedService({ seed: 3 });
  const { secret } = simulator.keys.create({ name: 'doctor', scopes, validDays: null });
  const API_BASE_URL = await simulator.listen();
  onTestFinished(() => simulator.close());
  simulator.happen(events);
  const { text, exit } = await see([contract], { API_BASE_URL, API_KEY: secret });
  return { lines: text.split('\n').map((line) => line.replace(' → null', '')), exit, calls: simulator.api.calls() };
}

test('a service that does what the kit assumes is found so, in words, with five calls', async () => {
  const { lines, exit, calls } = await atSimulator(3);
  expect(lines).toEqual([
    'ok contract: replay is in the order of cursors',
    'ok contract: replay continues right after after_cursor, and keeps to limit',
    'ok contract: an unknown cursor is refused (EVENT_CURSOR_INVALID)',
    'ok contract: GET /events resumes after a cursor, in order',
    'ok contract: an unknown operation: 404 (RPC_METHOD_NOT_FOUND), x-request-id sent',
  ]);
  expect(calls).toBe(5);
  expect(exit).toBe(0);
});

test.each([0, 1])('with %i events, what cannot be seen is not claimed', async (events) => {
  const { lines } = await atSimulator(events);
  expect(lines[0]).toBe(`ok contract: ${events ? 'replay is in the order of cursors' : 'replay shows no event yet'}`);
  expect(lines).toContain('ok contract: GET /events opens an event stream');
  expect(lines).toHaveLength(4);
});

interface Truth {
  limit?: number;
  after_cursor?: string;
}
const event = (cursor: string, type = 'MessageSent') => ({ cursor, json_payload: `{"${type}":{}}` });
const ALL = ['1', '2', '3'].map((cursor) => event(cursor));
const pageOf = (events: object[], next_cursor = '3') => ({ events, next_cursor, has_more: false });
const asAssumed = ({ limit, after_cursor: after = '0' }: Truth) => {
  const events = ALL.filter(({ cursor }) => BigInt(cursor) > BigInt(after)).slice(0, limit);
  return pageOf(events, events.at(-1)?.cursor ?? after);
};
const sse = (text: string) => (response: ServerResponse) =>
  void response.writeHead(200, { 'content-type': 'text/event-stream' }).write(text);
const domain = (id: string) => `id: ${id}\nevent: domain\ndata: {"MessageSent":{}}\n\n`;
const missing = { code: 'NOT_FOUND', reason: 'RPC_METHOD_NOT_FOUND', requestId: 'r' };
const failing =
  (status: number, error: object, headers = {}) =>
  (response: ServerResponse) =>
    void response.writeHead(status, headers).end(JSON.stringify({ error }));

interface Service {
  replay?: (truth: Truth) => object;
  stream?: (response: ServerResponse) => void;
  unknown?: (response: ServerResponse) => void;
}

async function at({ replay = asAssumed, ...more }: Service): Promise<string> {
  const { stream = sse(domain('2') + domain('3')), unknown = failing(404, missing, { 'x-request-id': 'r' }) } = more;
  const url = await serve((request, response) => {
    void request.toArray().then((chunks: Buffer[]) => {
      if (request.url === '/v1/events') return stream(response);
      if (request.url !== '/v1/rpc/ReplayEvents') return unknown(response);
      const { request: truth } = JSON.parse(Buffer.concat(chunks).toString()) as { request: Truth };
      return response.end(JSON.stringify(replay(truth)));
    });
  });
  const { text } = await see([contract], { API_BASE_URL: `${url}/v1`, API_KEY: 'svc_test_key' });
  return text;
}

test.each<[string, Service, string]>([
  ['ignores limit', { replay: (one) => asAssumed({ ...one, limit: 3 }) }, 'a page of replay has more than 2 items'],
  ['shows the newest first', { replay: () => pageOf(ALL.toReversed().slice(0, 2)) }, 'has items out of order'],
  [
    'ignores after_cursor',
    { replay: ({ limit }) => asAssumed({ limit: limit ?? 3 }) },
    'items that were not asked for',
  ],
  [
    'leaves events out',
    { replay: (one) => (one.limit === 1 ? asAssumed({ limit: 1, after_cursor: '2' }) : asAssumed(one)) },
    'replay shows 3 where 2 comes next',
  ],
  ['has cursors that are no numbers', { replay: () => pageOf([event('a')]) }, 'items without a cursor'],
  [
    'stays where it is',
    { replay: (one) => ({ ...asAssumed(one), next_cursor: '0' }) },
    'a next_cursor that is not the last',
  ],
  [
    'puts two types into a payload',
    { replay: () => pageOf([{ cursor: '3', json_payload: '{"A":{},"B":{}}' }]) },
    'items that cannot be read',
  ],
  ['streams no events', { stream: (response) => response.end('{}') }, 'GET /events: the answer is not an event stream'],
  ['streams in another order', { stream: sse(domain('3') + domain('2')) }, 'GET /events: its ids do not ascend'],
  ['streams without cursors', { stream: sse(domain('x')) }, 'GET /events: an event without a decimal cursor'],
  ['answers 400 to unknown names', { unknown: failing(400, missing, { 'x-request-id': 'r' }) }, 'operation: 400 (RPC'],
  ['sends no envelope', { unknown: (response) => response.writeHead(404).end('<p>') }, '404 (no reason)'],
  ['sends no x-request-id', { unknown: failing(404, missing) }, 'x-request-id not sent'],
  ['knows every operation', { unknown: (response) => response.end('{}') }, 'is answered as if it existed'],
])('a service that %s is found out, with what to read', async (_, service, words) => {
  const text = await at(service);
  const found = text.split('\n').find((line) => line.includes(words));
  expect(found, text).toMatch(/^warning contract: /);
  expect(found).toContain(REMEDY);
});

test('an unknown cursor may be answered with reset_required, and the stream with refresh', async () => {
  const reset = { ...pageOf([], ''), reset_required: true };
  const refresh = sse('event: refresh\ndata: {"reason":"replay_limit"}\n\n');
  const text = await at({
    replay: (one) => (one.after_cursor?.length === 19 ? reset : asAssumed(one)),
    stream: refresh,
  });
  expect(text).toContain('ok contract: an unknown cursor gets reset_required');
  expect(text).toContain('ok contract: GET /events answers an old cursor with refresh (replay_limit)');
  expect(text).not.toContain('warning');
});

test('a limit that is reached says nothing about the contract', async () => {
  const text = await at({ unknown: failing(429, { code: 'RATE_LIMITED' }) });
  expect(text).toContain('skipped contract: because KitUnknownOperation: 429 RATE_LIMITED');
});

test('the files that src/wire/README.md names exist', () => {
  const rows = rowsUnder('src/wire/README.md', 'What the contract leaves open');
  expect(rows.length).toBeGreaterThan(15);
  const named = readFileSync('src/wire/README.md', 'utf8').match(/`[\w/-]+\.ts`/g) ?? [];
  for (const file of named) expect(existsSync(join('src', file.slice(1, -1))), file).toBe(true);
  for (const [, , where] of rows) expect(where).toMatch(/`[\w/-]+\.ts`/);
});
