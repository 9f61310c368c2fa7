// What a person reads first: one sentence that is true, whatever has broken.
import { expect, onTestFinished, test } from 'vitest';
import { createOps, type Ops } from './rig.ts';

async function opened(...up: string[]): Promise<Ops> {
  const ops = await createOps();
  onTestFinished(() => ops.close());
  for (const role of up) await ops.store.beat({ role, pid: 1, started: '', boot: 1 }, ops.clock.time);
  return ops;
}

async function sentence({ get }: Ops): Promise<string> {
  return /<p class="health \w+">([^<]*)/.exec((await get('/')).text)?.[1] ?? '';
}

test('where the page itself cannot write a sign of life, the store is to blame, and nobody is told to start anything', async () => {
  const words = await sentence(await opened());
  expect(words).toMatch(/^The store cannot be written: .*df -h/);
  expect(words).not.toContain('Start');
  expect(words).toContain('figures below are from before');
});

test('a process that is down is called so, not merely coloured', async () => {
  const { text } = await (await opened('receive', 'keep')).get('/');
  expect(text).toMatch(/>run is down</);
  expect(text).toMatch(/>receive</);
});

test('a receiver that is gone is to be started', async () => {
  expect(await sentence(await opened('run', 'keep'))).toContain('Start it');
});

test.each([
  ['secret_mismatch', {}, 'Deliveries are missing: one thing needs a person.'],
  ['webhook_silent', {}, 'Deliveries are missing: one thing needs a person.'],
  ['failure_run', { failure_run: 3 }, 'Deliveries are refused: one thing needs a person.'],
  ['failure_run', { failure_run: 0 }, 'Deliveries are taken, but one thing needs a person.'],
  ['dead_letters', {}, 'Deliveries are taken, but one thing needs a person.'],
])('%s with %j reads: %s', async (alarm, facts, words) => {
  const ops = await opened('receive', 'run', 'keep');
  await ops.store.note({}, facts);
  await ops.store.raise(alarm, 'because', ops.clock.time);
  expect(await sentence(ops)).toBe(words);
});

test('refused signatures show before any alarm', async () => {
  const ops = await opened('receive', 'run', 'keep');
  const failures = { causes: {}, badSignatures: 3, badSince: null, lastBadAt: null, lastGoodAt: null };
  await ops.store.note({}, { failures: JSON.stringify(failures) });
  expect((await ops.get('/')).text).toContain('3 since, signed by no secret of ours');
});
