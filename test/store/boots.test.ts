// Who runs handlers: deaths, suspects, orphans, and what an attempt commits for its own task.
import { expect, test } from 'vitest';
import type { Claim, Tx } from '../../src/store/work.ts';
import { discard, forget } from '../../src/operations/store/tasks.ts';
import { claimed, failed, openWorld, over, type AnyWorld } from './fixture.ts';
import { WRONG_LANES } from './play.ts';

const ARRIVAL = [{ name: 'h', order: 'arrival' as const }];

/** One task is at work. */
async function working() {
  const world = await (await openWorld(ARRIVAL)).begin();
  await world.store.work.setup('h', (tx) => tx.run('create table mine (n integer)'));
  await world.accept({ cursor: 1 });
  const claim = await claimed(world);
  return { world, claim, task: { event: claim.tasks[0]?.event ?? 0, handler: claim.handler } };
}

/** The next suspect, claimed by a process of its own. */
async function suspect(world: AnyWorld): Promise<{ claim: Claim | undefined; boot: number }> {
  const { boot } = await world.store.work.begin('suspect-2', true);
  const { claims } = await world.turn([], { suspects: true, boot });
  return { claim: claims[0], boot };
}

test('what ran when run died runs apart, one task at a time, and its lane goes on afterwards', async () => {
  const world = await (await openWorld(ARRIVAL)).begin();
  await world.accept({ cursor: 1 }, { cursor: 2 });
  await claimed(world);
  await world.begin(true);
  await world.accept({ cursor: 3 });
  const { claims, suspects } = await world.turn();
  expect([claims, suspects]).toEqual([[], 1]);
  await world.pause(ARRIVAL[0]?.name ?? '', true);
  expect((await world.turn()).suspects).toBe(0);
  await world.pause(ARRIVAL[0]?.name ?? '', false);
  const { claim, boot } = await suspect(world);
  // Also the second process is started while it holds a lane, and after its death gives it back.
  expect((await world.turn()).suspects).toBe(2);
  expect([await world.cursors(claim), claim?.tasks[0]?.crashes, claim?.tasks[0]?.attempts]).toEqual([['1'], 4, 0]);
  expect((await world.turn([], { suspects: true, boot })).claims.length).toBe(0);
  if (claim) await world.turn([over(claim)], { suspects: true, boot, tasks: 0 });
  const next = await world.turn([], { suspects: true, boot });
  expect(await world.cursors(next.claims[0])).toEqual(['2']);
  await world.turn(
    next.claims.map((one) => over(one)),
    { suspects: true, boot, tasks: 0 },
  );
  expect(await world.cursors(await claimed(world))).toEqual(['3']);
});

test('the third death of run makes a dead letter; deaths of the whole kit weigh a quarter', async () => {
  const { world } = await working();
  await world.begin(false);
  expect(await world.all('select state, crashes, attempts from tasks')).toEqual([
    { state: 0, crashes: 1, attempts: 0 },
  ]);
  for (let n = 0; n < 3; n++) await suspect(world);
  await world.store.work.begin('suspect-2', true);
  expect(await world.all('select state, crashes from tasks')).toEqual([{ state: 3, crashes: 13 }]);
  expect(await world.all('select waiting, dead from handlers')).toEqual([{ waiting: 0, dead: 1 }]);
});

test('an orphan writes nothing', async () => {
  const { world, claim, task } = await working();
  const old = world.boot;
  await world.begin(true);
  await expect(world.turn([over(claim)], { boot: old })).rejects.toMatchObject({ code: 'orphan' });
  await expect(world.store.work.complete(claim, task, () => {})).rejects.toMatchObject({ code: 'orphan' });
  await expect(world.store.work.note(claim, task, 'n', '1')).rejects.toMatchObject({ code: 'orphan' });
  expect(await world.number('select state from tasks')).toBe(0);
});

test.each(['done', 'again', 'completed'] as const)(
  'an attempt writes nothing (%s) for a task that was moved',
  async (as) => {
    const world = await (await openWorld([{ name: 'h', order: 'arrival', lane: ({ session }) => session }])).begin();
    await world.accept({ cursor: 1, session: 's' });
    await world.turn([failed(await claimed(world), world.now, { aside: true })], { tasks: 0 });
    // In a lane of its own. A person ends it, and has it run again in its first lane.
    const claim = await claimed(world);
    await discard(world.people, { handler: 'h', limit: 0 });
    await world.rerun('h');
    const task = { event: claim.tasks[0]?.event ?? 0, handler: claim.handler };
    const ended = as === 'again' ? failed(claim, world.now + 1_000) : over(claim);
    if (as === 'completed')
      await expect(world.store.work.complete(claim, task, () => {})).rejects.toThrow('has ended already');
    await world.turn(as === 'completed' ? [{ claim, outcomes: [], free: true }] : [ended], { tasks: 0 });
    expect(await world.all('select state, attempts from tasks')).toEqual([{ state: 0, attempts: 0 }]);
    expect([await world.number(WRONG_LANES), (await claimed(world)).lane > 0]).toEqual([0, true]);
  },
);

test('a handler whose file came back while it was being forgotten stays', async () => {
  const world = await (await openWorld(ARRIVAL)).begin();
  await world.load([]);
  const forgetting = forget(world.people, 'h');
  await world.load();
  await forgetting;
  await world.accept({ cursor: 1 });
  expect(await world.cursors(await claimed(world))).toEqual(['1']);
});

test('the user’s writes and the end of the task are one commit', async () => {
  const { world, claim, task } = await working();
  const write = (n: number) => (tx: Tx) => tx.run('insert into mine values (?)', n);
  const failing = world.store.work.complete(claim, task, async (tx) => {
    await write(1)(tx);
    throw new Error('no');
  });
  await expect(failing).rejects.toThrow('no');
  const called = (): Promise<never> => Promise.reject(new Error('called'));
  expect(await world.store.work.complete({ ...claim, claim: 99 }, task, called)).toBe(false);
  expect(await world.store.work.complete(claim, task, write(3))).toBe(true);
  expect(await world.all('select n from mine')).toEqual([{ n: 3 }]);
  expect(await world.all('select done, waiting from handlers')).toEqual([{ done: 1, waiting: 0 }]);
  await expect(world.store.work.complete(claim, task, write(4))).rejects.toThrow('ended already');
});

test('a statement that failed ends the completion, even if its error is caught', async () => {
  const { world, claim, task } = await working();
  const caught = world.store.work.complete(claim, task, (tx) =>
    tx.run('insert into nothing values (1)').catch(() => 0),
  );
  await expect(caught).rejects.toThrow('nothing');
  expect(await world.number('select state from tasks')).toBe(0);
});

test('work that awaits something else is rolled back after a second, and says so', async () => {
  const { world, claim, task } = await working();
  const hanging = world.store.work.complete(claim, task, async (tx) => {
    await tx.run('insert into mine values (1)');
    await new Promise(() => {});
  });
  await expect(hanging).rejects.toThrow('await nothing in it but its tx');
  expect(await world.number('select count(*) from mine')).toBe(0);
});

test('notes stay with the task', async () => {
  const { world, claim, task } = await working();
  expect(await world.store.work.note(claim, task, 'sent', '{"n":1}')).toBe(true);
  const [again] = await world.settle([{ claim, outcomes: [], free: true }]);
  expect(again?.tasks[0]?.notes).toEqual({ sent: { n: 1 } });
  expect(await world.store.work.note(claim, task, 'sent', '2')).toBe(false);
});
