// The pings of HEARTBEAT_URL, with a real HTTP endpoint.
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { beforeEach, expect, onTestFinished, test } from 'vitest';
import { createHeartbeat } from '../../src/alarms/heartbeat.ts';
import type { Account } from '../../src/processes/channel.ts';
import { createClock, createTestLog, type TestClock, type TestLog } from '../reconcile/harness.ts';

const WORKS: Account = {
  processes: { receive: 'up', run: 'up', keep: 'up' },
  alarms: [],
  failureRun: 0,
  causes: {},
};

let account: Account | undefined;
let answer: number;
let pings: string[];
let url: string;
let clock: TestClock;
let testLog: TestLog;
let stopping: AbortController;
let step: () => Promise<number>;

function heartbeat(to: string): () => Promise<number> {
  const accounts = { latest: () => account };
  return createHeartbeat(to, { accounts, clock, log: testLog.log, signal: stopping.signal });
}

beforeEach(async () => {
  account = WORKS;
  answer = 200;
  pings = [];
  clock = createClock();
  testLog = createTestLog();
  const endpoint = createServer((req, res) => {
    pings.push(`${req.method} ${req.url}`);
    res.writeHead(answer, { location: '/elsewhere' }).end('OK');
  });
  await new Promise<void>((done) => endpoint.listen(0, '127.0.0.1', done));
  onTestFinished(() => void endpoint.close());
  url = `http://127.0.0.1:${(endpoint.address() as AddressInfo).port}/beat?key=s3cret`;
  stopping = new AbortController();
  step = heartbeat(url);
});

const lines = (): number => testLog.text().split('\n').filter(Boolean).length;

test('while the kit works, HEARTBEAT_URL gets a GET each minute', async () => {
  expect(await step()).toBe(60_000);
  expect(pings).toEqual(['GET /beat?key=s3cret']);
  expect(lines()).toBe(0);
});

test.each<[string, Account | undefined]>([
  ['nothing is known of the main process', undefined],
  ['the main process gives no sign of life', { ...WORKS, processes: { ...WORKS.processes, receive: 'down' } }],
  ['no handler runs', { ...WORKS, processes: { ...WORKS.processes, run: 'down' } }],
  ['deliveries cannot be committed', { ...WORKS, alarms: [{ name: 'store_unwritable', since: '', detail: '' }] }],
])('there is no ping while %s, and the next one follows soon afterwards', async (_, state) => {
  account = state;
  expect(await step()).toBe(2_000);
  expect(pings).toEqual([]);
});

test('a failed ping is logged once an hour, without the address, and the next one comes after a minute', async () => {
  for (answer of [500, 302]) {
    for (let minute = 0; minute < 60; minute++, clock.time += 60_000) expect(await step()).toBe(60_000);
  }
  expect(pings).toHaveLength(120);
  expect(lines()).toBe(2);
  expect(testLog.text()).toContain('HEARTBEAT_URL did not take a ping');
  expect(testLog.text()).not.toMatch(/s3cret|127\.0\.0\.1/);
});

test('an address that cannot be reached is a failed ping', async () => {
  const gone = heartbeat('http://127.0.0.1:1/');
  expect(await gone()).toBe(60_000);
  expect(lines()).toBe(1);
});

test('a ping that is aborted by a stop is not logged', async () => {
  stopping.abort();
  await step();
  expect([pings, lines()]).toEqual([[], 0]);
});
