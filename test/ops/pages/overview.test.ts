// The overview begins with a sentence about the health of the kit. It must be true, whatever has failed.
import { expect, onTestFinished, test } from 'vitest';
import { RULES } from '../../../src/alarms/rules/index.ts';
import { createOps, NOTHING_SET, type Ops } from '../harness.ts';

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
