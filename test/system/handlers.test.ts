import { afterEach, expect, test } from 'vitest';
import { culprit, DEEDS } from './culprits.ts';
import { createKit, deliver, load, makeEvent, RECORD, until, type Kit } from './kit.ts';

let kit: Kit;
afterEach(() => kit.remove());

const CASES = [
  'F24: calls process.exit',
  'F22: never resolves',
  'F21: throws a frozen error',
  'F21: throws what is no error and cannot be read',
  'F23: spins for ever',
];

test.each(CASES)(
  '%s: the task ends as a dead letter, no delivery is refused, and other tasks lose no attempt',
  async (name) => {
    kit = await createKit({ culprit: culprit(DEEDS[name]?.deed ?? ''), record: RECORD });
    await kit.start();
    const running = load(kit, 100);
    await until(() => running.acknowledged.size > 20);
    expect(await deliver(kit, { ...makeEvent(1_000_000), body: 'poison' })).toBe(204);
    const poisoned = `select t.state, t.attempts from tasks t join events e on e.seq = t.event join handlers h on h.id = t.handler
    where e.id = 'evt_1000000' and h.name = 'culprit'`;
    await until(() => kit.query<{ state: string }>(poisoned)[0]?.state === 'dead');
    await running.stop();
    expect([...running.statuses.keys()]).toEqual([204]);
    expect(kit.query(poisoned)).toEqual([{ state: 'dead', attempts: 2 }]);
    const rest = `select distinct t.state, t.attempts from tasks t join events e on e.seq = t.event where e.id <> 'evt_1000000'`;
    await until(() => kit.query<{ state: string }>(rest).every(({ state }) => state === 'done'));
    expect(kit.query(rest)).toEqual([{ state: 'done', attempts: 1 }]);
  },
);

test.each([
  `void Promise.reject(new Error('astray')); await new Promise((resolve) => setTimeout(resolve, 200))`,
  DEEDS['F26: forgets to await ctx.complete, whose work throws']?.deed ?? '',
])('a rejection that nobody awaits fails the attempt of its own handler: %s', async (stray) => {
  kit = await createKit({ culprit: culprit(stray) });
  await kit.start();
  await deliver(kit, { ...makeEvent(1), body: 'poison' });
  await until(() => kit.query<{ state: string }>('select state from tasks')[0]?.state === 'dead');
  expect(kit.query('select error from tasks')).toEqual([
    { error: expect.stringMatching(/^Error: astray \(.*culprit/) },
  ]);
});

test('no delivery is refused while a handler that spins inside ctx.complete holds the lock', async () => {
  const spin = 'await arguments[1].complete(() => { for (;;); })';
  const source = culprit(spin).replace('async handle(event) {', 'handle: async function (event) {');
  kit = await createKit({ culprit: source });
  await kit.start();
  const running = load(kit, 20);
  await until(() => running.acknowledged.size > 5);
  expect(await deliver(kit, { ...makeEvent(1_000_000), body: 'poison' })).toBe(204);
  const poisoned = `select t.state from tasks t join events e on e.seq = t.event where e.id = 'evt_1000000'`;
  await until(() => kit.query<{ state: string }>(poisoned)[0]?.state === 'dead');
  await running.stop();
  expect([...running.statuses.keys()]).toEqual([204]);
});

test('work of ctx.complete that waits for a timer writes nothing, neither at once nor later', async () => {
  kit = await createKit({
    late: `export default {
      on: 'MessageReceived', order: 'arrival', retry: { attempts: 2, firstMs: 10, maxMs: 20 },
      async setup(tx) { await tx.run('create table if not exists late (key text)'); },
      async handle(event, ctx) {
        await ctx.complete(async (tx) => {
          await tx.run('insert into late values (?)', event.key);
          await new Promise((resolve) => setTimeout(resolve, 5));
          await tx.run('insert into late values (?)', event.key);
        });
      },
    };`,
  });
  await kit.start();
  await deliver(kit, makeEvent(1));
  await until(() => kit.query<{ state: string }>('select state from tasks')[0]?.state === 'dead');
  expect(kit.query('select error from tasks')).toEqual([
    { error: expect.stringContaining('only tx may be awaited in ctx.complete and setup') },
  ]);
  expect(kit.query('select * from late')).toEqual([]);
});

test('a stop during the attempt of an isolated task does not use up the attempt', async () => {
  kit = await createKit({
    slow: `export default {
      on: 'MessageReceived', lane: 'none', order: 'arrival', retry: { attempts: 1 },
      async handle(event, ctx) {
        if (event.data.body === 'exit') process.exit(1);
        await new Promise((resolve, reject) => ctx.signal.addEventListener('abort', () => reject(ctx.signal.reason)));
      },
    };`,
  });
  await kit.start();
  await deliver(kit, makeEvent(1));
  await until(() => kit.query('select * from claims').length === 1);
  await deliver(kit, { ...makeEvent(2), body: 'exit' });
  const alone = `select c.boot from claims c join tasks t on t.id = c.task join events e on e.seq = t.event
    where e.id = 'evt_1' and t.isolated = 1`;
  await until(() => kit.query(alone).length === 1);
  expect(await kit.stop()).toBe(0);
  expect(
    kit.query(`select t.state, t.attempts from tasks t join events e on e.seq = t.event where e.id = 'evt_1'`),
  ).toEqual([{ state: 'ready', attempts: 0 }]);
});
