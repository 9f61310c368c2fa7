// /metrics in the text format of Prometheus. No label comes from a delivery.
import { afterEach, beforeEach, expect, test } from 'vitest';
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

async function samples(): Promise<Sample[]> {
  const { text } = await ops.get('/metrics');
  return text.split('\n').flatMap((line) => {
    const [, name, labels = '', value] = /^([a-z_]+)(?:\{(.*)\})? (\S+)$/.exec(line) ?? [];
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
  expect(
    new Set(labels).isSubsetOf(new Set(['state', 'role', 'cause', 'secret', 'name', 'handler', 'verdict', 'le'])),
  ).toBe(true);
  expect((await ops.get('/metrics')).text).not.toMatch(/Type\d|session-|n\d{2}/);
});

test('simultaneous requests get the same answer', async () => {
  const texts = await Promise.all(Array.from({ length: 5 }, () => ops.get('/metrics').then(({ text }) => text)));
  expect(new Set(texts).size).toBe(1);
});

test('a metric that has labels, but no series yet, is left out', async () => {
  const { text } = await renderMetrics({
    status: await ops.store.read.status(ops.clock.time),
    counters: {},
    disk: DISK,
  });
  for (const name of ['kit_refused_total', 'kit_signed_total', 'kit_alarm']) {
    expect(text, `${name} has no sample without its label`).not.toMatch(new RegExp(`^${name} `, 'm'));
  }
});
