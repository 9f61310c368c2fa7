// The overview begins with a sentence about the health of the kit. It must be true, whatever has failed.
import { expect, onTestFinished, test } from 'vitest';
import { RULES } from '../../../src/alarms/rules/index.ts';
import { createOps, HOSTILE, INSTANCES, NOTHING_SET, share, type Ops } from '../harness.ts';

async function opened(...up: string[]): Promise<Ops> {
  const ops = await createOps(NOTHING_SET, RULES);
  onTestFinished(() => ops.close());
  for (const role of up) await ops.store.processes.beat({ role, pid: 1, started: '', boot: 1 }, ops.clock.time);
  return ops;
}

async function sentence({ get }: Ops): Promise<string> {
  return /<p class="health \w+">([^<]*)/.exec((await get('/')).text)?.[1] ?? '';
}

test.each(['store_unwritable', 'store_replaced'])(
  'E40: while the alarm %s is up, the sentence names the store, and nothing asks people to start a process',
  async (alarm) => {
    const ops = await opened('receive', 'run', 'keep');
    await ops.store.alarms.raise(alarm, 'nothing can be written: df -h', ops.clock.time);
    const { text } = await ops.get('/');
    expect(await sentence(ops)).toMatch(/^The store cannot be written: .*figures are those of before/);
    expect(text).toContain('df -h');
    expect(text).not.toMatch(/Start it|is down|does not run/);
    expect((await ops.get('/readyz')).status).toBe(503);
  },
);

test('a process that is down is marked in words, not only by colour', async () => {
  const { text } = await (await opened('receive', 'keep')).get('/');
  expect(text).toMatch(/>run is down</);
  expect(text).toMatch(/>receive</);
});

test('if the receiver is down, the sentence says how to start it', async () => {
  expect(await sentence(await opened('run', 'keep'))).toContain('Start it');
});

test.each([
  ['secret_mismatch', {}, 'Deliveries are missing. 1 alarm needs attention.'],
  ['webhook_silent', {}, 'Deliveries are missing. 1 alarm needs attention.'],
  ['failure_run', { failure_run: 3 }, 'Deliveries are refused. 1 alarm needs attention.'],
  ['failure_run', { failure_run: 0 }, 'Receiving. 1 alarm needs attention.'],
  ['dead_letters', {}, 'Receiving. 1 alarm needs attention.'],
])('%s with %j reads: %s', async (alarm, facts, words) => {
  const ops = await opened('receive', 'run', 'keep');
  await ops.store.state.note({}, facts);
  await ops.store.alarms.raise(alarm, 'because', ops.clock.time);
  expect(await sentence(ops)).toBe(words);
});

test('refused signatures are shown before an alarm is raised', async () => {
  const ops = await opened('receive', 'run', 'keep');
  const failures = { causes: {}, badSignatures: 3, badSince: null, lastBadAt: null, lastGoodAt: null };
  await ops.store.state.note({}, { failures: JSON.stringify(failures) });
  expect((await ops.get('/')).text).toContain('3 since with a bad signature');
});

/** The cells of the table of instances, without markup. */
async function instances({ get }: Ops): Promise<string[][]> {
  const table = /<caption>\s*Instances.*?<\/table>/s.exec((await get('/')).text)?.[0] ?? '';
  const rows = [...table.matchAll(/<tr>(.*?)<\/tr>/gs)].map(([, row = '']) =>
    [...row.matchAll(/<td[^>]*>(.*?)<\/td>/gs)].map(([, cell = '']) => cell.replaceAll(/<[^>]+>/g, '').trim()),
  );
  return rows.slice(1);
}

test('instances that share the store are listed: which one leads, and which one is lost', async () => {
  const ops = await opened('receive', 'run', 'keep');
  await share(ops, INSTANCES);
  expect(await instances(ops)).toEqual([
    ['first:11', 'leads', 'keep receive run', '1', '0.1.0', '2026-01-01 00:00:00'],
    ['second:22', 'stands by', 'keep receive', '1', '0.1.0', '2026-01-02 00:00:00'],
    ['third:33', 'lost since 2026-01-02 03:04:05', '–', '1', '0.1.0', '2026-01-03 00:00:00'],
  ]);
});

test('the names and versions of instances are text, whatever they hold', async () => {
  const ops = await opened('receive', 'run', 'keep');
  await share(
    ops,
    INSTANCES.map((one) => ({ ...one, name: HOSTILE, version: HOSTILE })),
  );
  const [[name, , , , version] = []] = await instances(ops);
  expect(name).toBe('&lt;img src=x onerror=&quot;alert(1)&quot;&gt;\u{fffd}[2J\u{fffd}\n&amp;&#39;:44');
  expect(version).toBe(name);
  expect((await ops.get('/')).text).not.toContain('<img');
});

test('a store in a file shows no instances', async () => {
  expect((await (await opened('receive')).get('/')).text).not.toContain('Instances');
});

test.each(['1h', '7d'])('E49: on the first day, %s draws what there is, and says since when', async (range) => {
  const ops = await opened('receive', 'run', 'keep');
  const since = ops.clock.time;
  for (let n = 0; n < 30; n++, ops.clock.time += 10_000) {
    await ops.store.state.note({ accepted: n });
    await ops.store.read.sample(ops.clock.time);
  }
  const { text } = await ops.get(`/?range=${range}`);
  expect(text.match(/<polyline/g)?.length).toBeGreaterThan(3);
  const stated = /There are figures since\s+<time datetime="([^"]+)"/.exec(text)?.[1];
  expect(Math.abs(Date.parse(stated ?? '') - since)).toBeLessThan(60_000);
});

test('E49: if there are figures of the whole range, nothing is said of their beginning', async () => {
  const ops = await opened('receive', 'run', 'keep');
  for (let n = 0; n < 70; n++, ops.clock.time += 60_000) await ops.store.read.sample(ops.clock.time);
  expect((await ops.get('/?range=1h')).text).not.toContain('There are figures since');
});
