// The overview begins with the health of the kit, which must be true, whatever has failed. Then come the alarms with
// their remedies, the figures, the handlers and the store.
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
  const { text } = await get('/');
  const [, word = '', words = ''] = /<p class="word">([^<]*)<\/p>\s*<p>([^<]*)/.exec(text) ?? [];
  return `${word}. ${words}`;
}

test.each(['store_unwritable', 'store_replaced'])(
  'E40: while the alarm %s is up, the sentence names the store, and nothing asks people to start a process',
  async (alarm) => {
    const ops = await opened('receive', 'run', 'keep');
    await ops.store.alarms.raise(alarm, 'nothing can be written: df -h', ops.clock.time);
    const { text } = await ops.get('/');
    expect(await sentence(ops)).toMatch(/^Not receiving. The store cannot be written: .*figures are those of before/);
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
  ['secret_mismatch', {}, 'Not receiving. Deliveries are missing. 1 alarm needs attention.'],
  ['failure_run', { failure_run: 3 }, 'Degraded. Deliveries are refused. 1 alarm needs attention.'],
  ['dead_letters', {}, 'Degraded. Deliveries are taken. 1 alarm needs attention.'],
])('%s with %j reads: %s', async (alarm, facts, words) => {
  const ops = await opened('receive', 'run', 'keep');
  await ops.store.state.note({}, facts);
  await ops.store.alarms.raise(alarm, 'because', ops.clock.time);
  expect(await sentence(ops)).toBe(words);
});

test('alarms come by gravity, each with its remedy, its screen and its paragraph of the runbook', async () => {
  const rules = {
    can_wait: { gravity: 'warning', remedy: 'Wait <b>.', page: '/events?contradicted=yes' },
    urgent: { gravity: 'critical', remedy: 'Run.' },
  } as const;
  const ops = await createOps(NOTHING_SET, rules);
  onTestFinished(() => ops.close());
  for (const name of ['can_wait', 'unknown', 'urgent']) await ops.store.alarms.raise(name, HOSTILE, ops.clock.time);
  const { text } = await ops.get('/');
  const shown = [...text.matchAll(/<li class="(\w*)">.*?<b>(\w+)<\/b>(.*?)<\/li>/gs)];
  expect(shown.map(([, gravity, name]) => [gravity, name])).toEqual([
    ['critical', 'urgent'],
    ['warning', 'can_wait'],
    ['', 'unknown'],
  ]);
  const [urgent = '', wait = '', unknown = ''] = shown.map(([, , , rest = '']) => rest);
  expect(urgent).toContain('Remedy:</b> Run.');
  expect(urgent).toContain('href="/runbook#urgent"');
  expect(urgent).not.toContain('Go to');
  expect(wait).toMatch(/Wait &lt;b&gt;.*href="\/events\?contradicted=yes"\s*>Go to Events</s);
  expect(unknown).not.toContain('Remedy');
  expect(text).not.toContain('<img');
});

test.each([
  ['well', [], 'Overview · webhook receiver', '#1e7a46'],
  ['degraded', ['dead_letters'], '● Degraded · Overview · webhook receiver', '#d08a00'],
  ['not receiving', ['secret_mismatch'], '● Not receiving · Overview · webhook receiver', '#b3261e'],
])('the tab of a kit that is %s says so by its title and its icon', async (_, alarms, title, colour) => {
  const ops = await opened('receive', 'run', 'keep');
  for (const name of alarms) await ops.store.alarms.raise(name, 'because', ops.clock.time);
  const { text } = await ops.get('/');
  expect(text).toContain(`<title>${title}</title>`);
  expect(text).toMatch(
    new RegExp(`rel="icon" type="image/svg\\+xml" href="data:image/svg\\+xml,[^"]*${encodeURIComponent(colour)}`),
  );
});

test('the navigation counts alarms, paused handlers, dead letters and quarantined rows, in words for screen readers', async () => {
  const ops = await opened('receive', 'run', 'keep');
  expect((await ops.get('/')).text).not.toContain('class="count"');
  await ops.store.alarms.raise('dead_letters', 'because', ops.clock.time);
  await ops.store.state.note({ 'tasks.dead': 1_200, quarantined: 2 });
  await ops.store.admin.pause('answer', null, ops.clock.time);
  const counts = async () =>
    [...(await ops.get('/')).text.matchAll(/>([\w ]+) <span class="count">(\S+)<span class="unseen"> ([\w ]+)</g)].map(
      ([, ...words]) => words.join(' '),
    );
  expect(await counts()).toEqual([
    'Overview 1 alarm',
    'Handlers 1 paused',
    'Dead letters 1,200 dead letters',
    'Refused 2 quarantined',
  ]);
  await ops.store.admin.pause(null, null, ops.clock.time);
  expect(await counts()).toContain('Handlers all paused');
});

test('restarts and raised alarms are marked in the charts', async () => {
  const ops = await opened('receive', 'run', 'keep');
  for (let n = 0; n < 30; n++, ops.clock.time += 60_000) {
    if (n === 10) await ops.store.state.note({}, { boot: 2n });
    if (n === 20) await ops.store.alarms.raise('dead_letters', 'because', ops.clock.time);
    await ops.store.read.sample(ops.clock.time);
  }
  const { text } = await ops.get('/');
  expect(text).toMatch(/<title>[^<]*\nrestart<\/title>/);
  expect(text).toMatch(/<title>[^<]*\nalarm dead_letters<\/title>/);
});

test('samples of an older kit, which lack figures of attempts, leave these out', async () => {
  const ops = await opened('receive', 'run', 'keep');
  const old = { accepted: 1, duplicates: 0, refused: 0, quarantined: 0, handled: 0, acks: [] };
  const from = ops.clock.time;
  ops.store.read.samples = async () =>
    [1, 2, 3].map((n) => ({ at: from - (4 - n) * 900_000, ...old, accepted: n * 100 }));
  const { status, text } = await ops.get('/');
  expect(status).toBe(200);
  expect(text).toMatch(/succeeded 0.*failed 0.*accepted 200/s);
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
