// /metrics in the text format of Prometheus. No label comes from a delivery.
import { readFileSync } from 'node:fs';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { REFUSALS } from '../../src/receive/causes.ts';
import { StoreError } from '../../src/store/store.ts';
import { renderMetrics } from '../../src/ops/metrics.ts';
import { fanOut, createOps, DISK, deliver, end, INSTANCES, share, type Ops } from './harness.ts';

let ops: Ops;
beforeEach(async () => {
  ops = await createOps();
});
afterEach(() => ops.close());

interface Sample {
  name: string;
  labels: Record<string, string>;
  value: number;
}

/** The kit's own. Those of the process have their own names and labels. */
async function samples(): Promise<Sample[]> {
  const { text } = await ops.get('/metrics');
  const all = samplesIn(text);
  return all.filter(({ name }) => name.startsWith('kit_'));
}

function samplesIn(text: string): Sample[] {
  return text.split('\n').flatMap((line) => {
    const [, name, labels = '', value] = /^([a-z_0-9]+)(?:\{(.*)\})? (\S+)$/.exec(line) ?? [];
    if (!name) {
      expect(line, 'every line is a sample or a comment').toMatch(/^(#.*)?$/);
      return [];
    }
    const pairs = [...labels.matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g)].map(([, key, held]) => [key, held]);
    return [{ name, labels: Object.fromEntries(pairs) as Record<string, string>, value: Number(value) }];
  });
}

const valueOf = (all: Sample[], name: string, labels: Record<string, string> = {}) =>
  all.find((one) => one.name === name && Object.entries(labels).every(([key, value]) => one.labels[key] === value))
    ?.value;

test('the content type is the one that Prometheus asks for', async () => {
  expect((await ops.get('/metrics')).headers['content-type']).toMatch(/^text\/plain; version=0\.0\.4/);
});

test('an empty store has metrics too', async () => {
  const all = await samples();
  expect(valueOf(all, 'kit_events')).toBe(0);
  expect(valueOf(all, 'kit_tasks', { state: 'dead' })).toBe(0);
  expect(valueOf(all, 'kit_process_up', { role: 'receive' })).toBe(0);
});

test('the metrics have the values of the store', async () => {
  await deliver(ops, { cursor: '1' }, { cursor: '2' }, { cursor: '2' });
  const [handler = 0] = await fanOut(ops, ['a']);
  await end(ops, handler, 'dead', 'broken');
  await ops.store.state.note(
    { 'refused.bad_signature': 4, unseen_failures: 3, replay_calls: 2 },
    { failure_run: 5, signers: JSON.stringify([{ fingerprint: 'f', number: 1, hits: 3, lastAt: 0, mayGo: false }]) },
  );
  await ops.store.alarms.raise('dead_letters', 'one', ops.clock.time);
  await ops.store.processes.beat({ role: 'receive', pid: 1, started: '', boot: 1 }, ops.clock.time);
  const all = await samples();
  expect({
    events: valueOf(all, 'kit_events'),
    accepted: valueOf(all, 'kit_accepted_total'),
    duplicates: valueOf(all, 'kit_duplicates_total'),
    dead: valueOf(all, 'kit_tasks', { state: 'dead' }),
    ready: valueOf(all, 'kit_tasks', { state: 'ready' }),
    refused: valueOf(all, 'kit_refused_total', { cause: 'bad_signature' }),
    attempts: valueOf(all, 'kit_attempts_total', { handler: 'a', verdict: 'dead' }),
    free: valueOf(all, 'kit_disk_free_bytes'),
    signed: valueOf(all, 'kit_signed_total', { secret: '1' }),
    unseen: valueOf(all, 'kit_unseen_failures_total'),
    calls: valueOf(all, 'kit_replay_calls_total'),
    failureRun: valueOf(all, 'kit_failure_run'),
    alarm: valueOf(all, 'kit_alarm', { name: 'dead_letters' }),
    receive: valueOf(all, 'kit_process_up', { role: 'receive' }),
  }).toEqual({
    events: 2,
    accepted: 2,
    duplicates: 1,
    dead: 1,
    ready: 1,
    refused: 4,
    attempts: 1,
    free: 1e9,
    signed: 3,
    unseen: 3,
    calls: 2,
    failureRun: 5,
    alarm: 1,
    receive: 1,
  });
});

test('instances are counted by state, if there are any', async () => {
  const counts = async () => (await samples()).filter(({ name }) => name === 'kit_instances');
  expect(await counts()).toEqual([]);
  await share(ops, INSTANCES);
  expect(await counts()).toEqual([
    { name: 'kit_instances', labels: { state: 'up' }, value: 2 },
    { name: 'kit_instances', labels: { state: 'lost' }, value: 1 },
  ]);
});

test('no label holds text from a delivery, and a thousand deliveries add no series', async () => {
  const before = (await samples()).length;
  await deliver(
    ops,
    ...Array.from({ length: 1_000 }, (_, i) => ({
      cursor: String(i + 1),
      type: `Type${i}`,
      session: `session-${i}`,
      data: { from: `n${i}` },
    })),
  );
  const all = await samples();
  expect(all.length).toBe(before);
  const labels = all.flatMap((one) => Object.keys(one.labels));
  const allowed = ['state', 'role', 'cause', 'secret', 'name', 'handler', 'verdict', 'le', 'kind', 'version', 'node'];
  expect([...new Set(labels)].filter((one) => !allowed.includes(one))).toEqual([]);
  expect((await ops.get('/metrics')).text).not.toMatch(/Type\d|session-|n\d{2}/);
});

test('simultaneous requests get the same answer', async () => {
  const texts = await Promise.all(
    Array.from({ length: 5 }, () => ops.get('/metrics').then(({ text }) => text.split('# HELP process_')[0])),
  );
  expect(new Set(texts).size).toBe(1);
});

test('a metric that has labels, but no series yet, is left out', async () => {
  const { text } = await renderMetrics({
    status: await ops.store.read.status(ops.clock.time),
    counters: {},
    handlers: [],
    disk: DISK,
  });
  for (const name of ['kit_attempts_total', 'kit_signed_total', 'kit_alarm', 'kit_attempt_seconds_bucket']) {
    expect(text, `${name} has no sample without its label`).not.toMatch(new RegExp(`^${name} `, 'm'));
  }
});

test('what is known begins at zero, so that rate() sees the first: handlers, verdicts, causes, lane faults, tokens', async () => {
  await ops.store.work.register(['a', 'b.c']);
  const all = await samples();
  for (const handler of ['a', 'b.c']) {
    for (const verdict of ['done', 'skipped', 'dead', 'retry', 'deferred'])
      expect(valueOf(all, 'kit_attempts_total', { handler, verdict })).toBe(0);
    expect(valueOf(all, 'kit_lane_faults_total', { handler })).toBe(0);
    expect(valueOf(all, 'kit_attempt_seconds_count', { handler })).toBe(0);
  }
  for (const cause of Object.keys(REFUSALS)) expect(valueOf(all, 'kit_refused_total', { cause })).toBe(0);
  for (const kind of ['form', 'bearer']) expect(valueOf(all, 'kit_wrong_tokens_total', { kind })).toBe(0);
});

test('the attempts of each handler are a histogram, also if its name holds dots', async () => {
  await ops.store.work.register(['a', 'b.c']);
  await ops.store.state.note({
    'took.5.b.c': 3,
    'took.200.b.c': 1,
    'took.Infinity.b.c': 1,
    'took.sum_us.b.c': 42_000_000,
  });
  const all = await samples();
  const below = (le: string) => valueOf(all, 'kit_attempt_seconds_bucket', { handler: 'b.c', le });
  expect(['0.002', '0.005', '0.1', '0.2', '10', '+Inf'].map(below)).toEqual([0, 3, 3, 4, 4, 5]);
  expect(valueOf(all, 'kit_attempt_seconds_sum', { handler: 'b.c' })).toBe(42);
  expect(valueOf(all, 'kit_attempt_seconds_count', { handler: 'b.c' })).toBe(5);
});

test('each handler has its backlog, the age of the oldest, and whether it is paused', async () => {
  await deliver(ops, { cursor: '1' }, { cursor: '2' });
  await fanOut(ops, ['a']);
  await ops.store.admin.pause('a', null, ops.clock.time);
  ops.clock.time += 59_000;
  const all = await samples();
  expect(valueOf(all, 'kit_tasks_waiting', { handler: 'a' })).toBe(2);
  expect(valueOf(all, 'kit_oldest_waiting_seconds', { handler: 'a' })).toBe(60);
  expect(valueOf(all, 'kit_handler_paused', { handler: 'a' })).toBe(1);
});

test('a handler that the store does not tell of in time costs its series, not the scrape', async () => {
  ops.store.read.handlers = () => Promise.reject(new StoreError('busy', 'locked'));
  const { status, text } = await ops.get('/metrics');
  expect(status).toBe(200);
  expect(text).toContain('kit_accepted_total 0');
});

test('the build and the process are named: version of the kit and of Node, memory, CPU, event loop', async () => {
  const { version } = JSON.parse(readFileSync('package.json', 'utf8')) as { version: string };
  expect(valueOf(await samples(), 'kit_build_info', { version, node: process.versions.node })).toBe(1);
  const { text } = await ops.get('/metrics');
  for (const name of ['process_cpu_seconds_total', 'process_resident_memory_bytes', 'nodejs_eventloop_lag_p99_seconds'])
    expect(text).toMatch(new RegExp(`^${name} [\\d.e-]+$`, 'm'));
});
