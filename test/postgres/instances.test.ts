// Several instances on one store: what goes wrong if a transaction reads before it locks, or locks in another order.
import { expect, test } from 'vitest';
import { prune } from '../../src/keep/prune.ts';
import type { Connections } from '../../src/store/postgres/connection.ts';
import { Counts } from '../../src/store/counts.ts';
import { settle } from '../../src/store/postgres/settle.ts';
import type { Claim } from '../../src/store/work.ts';
import { until } from '../harness.ts';
import { claimed, over, type HandlerDef } from '../store/fixture.ts';
import { WRONG_LANES } from '../store/play.ts';
import { createPostgresWorld, type PostgresWorld } from './world.ts';

const ARRIVAL: HandlerDef[] = [{ name: 'h', order: 'arrival', lane: ({ session }) => session }];
/** Signs of life come each second; after so many, an instance may judge another. */
const SIGNS = 12;

async function two(defs = ARRIVAL): Promise<[PostgresWorld, PostgresWorld]> {
  const one = await createPostgresWorld(defs);
  const other = await one.beside();
  return [await one.begin(), await other.begin()];
}

/** Holds all lanes until `release`. */
async function holdLanes({ db }: { db: Connections }): Promise<() => Promise<void>> {
  const { promise: end, resolve: release } = Promise.withResolvers<void>();
  const { promise: held, resolve: hold } = Promise.withResolvers<void>();
  const done = db.write(async (tx) => {
    await tx.all('select 1 from lanes order by id for update');
    hold();
    await end;
  });
  await held;
  return async () => {
    release();
    await done;
  };
}

/** Transactions that wait for a lock. */
const waiting = (world: PostgresWorld, n: number): Promise<void> =>
  until(`${n} transactions to wait`, async () => {
    const { schema } = world.store.db;
    const own = `select 1 from pg_locks o join pg_class c on c.oid = o.relation join pg_namespace n on n.oid = c.relnamespace
      where o.pid = l.pid and n.nspname = '${schema}'`;
    const door = `l.locktype = 'advisory' and l.classid = cast(cast(hashtext('${schema} ingest') as bigint) & 4294967295 as oid)`;
    const pids = `select count(distinct l.pid) from pg_locks l where not l.granted and (exists (${own}) or ${door})`;
    return (await world.number(pids)) === n;
  });

test.each([
  ['the end of a chain comes first', true],
  ['the new event comes first', false],
])('no wake-up is lost when a lane is freed while an event comes into it: %s', async (_, endsFirst) => {
  const [one, other] = await two();
  await one.accept({ cursor: 1, session: 's' });
  const claim = await claimed(one);
  await one.accept({ cursor: 2, session: 's' });
  const release = await holdLanes(one.store);
  const settling = (): Promise<unknown> => one.store.db.write((tx) => settle(tx, [over(claim)], one.now, new Counts()));
  const acts = [settling, () => other.turn([], { tasks: 0 })];
  const doing: Promise<unknown>[] = [];
  for (const act of endsFirst ? acts : acts.toReversed()) {
    doing.push(act());
    await waiting(one, doing.length);
  }
  await release();
  await Promise.all(doing);
  expect(await one.number(WRONG_LANES)).toBe(0);
  expect(await other.cursors((await other.settle())[0])).toEqual(['2']);
});

test('ends that name their lanes in opposite orders do not wait for each other', async () => {
  const [one] = await two();
  await one.accept(...['a', 'b', 'c'].map((session, n) => ({ session, cursor: n + 1 })));
  const ended = (await one.settle()).map((claim) => over(claim));
  const release = await holdLanes(one.store);
  let tries = 0;
  const doing = [ended, ended.toReversed()].map((list) =>
    one.store.db.write((tx) => {
      tries++;
      return settle(tx, list, one.now, new Counts());
    }),
  );
  await waiting(one, 2);
  await release();
  expect((await Promise.all(doing)).toSorted((a, b) => a - b)).toEqual([0, 3]);
  expect(tries).toBe(2);
});

test('an event with a lower number becomes visible first, so that a position misses none', async () => {
  const [one, other] = await two();
  const { promise: end, reject: release } = Promise.withResolvers<never>();
  const { promise: held, resolve: hold } = Promise.withResolvers<void>();
  const busy = one.store.db.write(async (tx) => {
    await tx.run("insert into events (id, type, received_at, origin, origins) values ('busy', 'A', 0, 1, 1)");
    hold();
    return end;
  });
  await held;
  const first = one.accept({ id: 'a' }, { id: 'busy' });
  await waiting(one, 1);
  const second = other.accept({ id: 'b' });
  await waiting(one, 2);
  release(new Error('rolled back'));
  await expect(busy).rejects.toThrow('rolled back');
  expect([await first, await second]).toEqual([['new', 'new'], ['new']]);
  expect(await one.all('select id from events order by seq')).toEqual([{ id: 'a' }, { id: 'busy' }, { id: 'b' }]);
});

test('instances that receive and run at once miss no event, run none twice, and hold no lane together', async () => {
  const [one, other] = await two();
  const ran: number[] = [];
  const held = new Set<number>();
  let left = 200;

  async function run(world: PostgresWorld): Promise<void> {
    let claims: Claim[] = [];
    while (left > 0 || claims.length > 0 || (await open(world)) > 0) {
      if (left > 0) {
        const base = (left -= 4);
        await world.accept(...[1, 2, 3, 4].map((n) => ({ cursor: base + n, session: `s${n % 3}` })));
      }
      for (const { lane } of claims) held.delete(lane);
      const ended = claims.map((claim) => over(claim));
      ({ claims } = await world.turn(ended, { tasks: 5, chain: 2 }));
      for (const { lane, tasks } of claims) {
        expect(held.has(lane)).toBe(false);
        held.add(lane);
        ran.push(...tasks.map(({ event }) => event));
      }
    }
  }
  await Promise.all([run(one), run(other)]);
  expect([ran.length, new Set(ran).size]).toEqual([200, 200]);
  expect(await one.all('select waiting, done from handlers')).toEqual([{ waiting: 0, done: 200 }]);
  expect(await one.number(WRONG_LANES)).toBe(0);
});

const open = (world: PostgresWorld): Promise<number> =>
  world.number(
    'select (select count(*) from tasks where state = 0) + (select max(seq) - min(position) from events, handlers)',
  );

/** The instance gives signs of life, and the other one none. */
async function signs(world: PostgresWorld, silent: PostgresWorld, times = SIGNS): Promise<void> {
  await world.exec(`update boots set seen_at = seen_at - 11000 where id = ${silent.boot}`);
  for (let n = 0; n < times; n++) {
    world.now += 1_000;
    await world.turn([], { tasks: 0 });
  }
}

test('the lanes of an instance without a sign of life are given back, and what it writes afterwards changes nothing', async () => {
  const [frozen, other] = await two();
  await frozen.store.work.setup('h', (tx) => tx.run('create table mine (n integer)'));
  await frozen.accept({ cursor: 1, session: 's' });
  const claim = await claimed(frozen);
  await signs(other, frozen);
  expect(await other.all('select state, crashes, attempts from tasks')).toEqual([
    { state: 0, crashes: 1, attempts: 0 },
  ]);
  const task = { event: claim.tasks[0]?.event ?? 0, handler: claim.handler };
  const orphan = { code: 'orphan' };
  await expect(frozen.turn([over(claim)])).rejects.toMatchObject(orphan);
  await expect(frozen.store.work.note(claim, task, 'n', '1')).rejects.toMatchObject(orphan);
  const write = frozen.store.work.complete(claim, task, (tx) => tx.run('insert into mine values (1)'));
  await expect(write).rejects.toMatchObject(orphan);
  expect(await other.one('select count(*) from mine')).toBe(0);
  const { boot } = await other.store.work.begin('suspect-1', true);
  const { claims } = await other.turn([], { suspects: true, boot });
  expect(await other.cursors(claims[0])).toEqual(['1']);
});

test('an instance is not judged during a long set-up, nor at its end', async () => {
  const [one, slow] = await two();
  const begun = await slow.store.work.begin('live', true);
  slow.boot = begun.boot;
  await signs(one, slow);
  await slow.load();
  one.now += 1_000;
  await one.turn([], { tasks: 0 });
  expect(await one.number('select count(*) from boots')).toBe(2);
  await signs(one, slow);
  expect(await one.number('select count(*) from boots')).toBe(1);
});

test('an instance judges no other before its own signs have come for 10 s', async () => {
  const [silent, other] = await two();
  await signs(other, silent, 5);
  // As after a standstill of this instance.
  other.now += 4_000;
  await signs(other, silent, 9);
  expect(await other.number('select count(*) from boots')).toBe(2);
  await signs(other, silent, 2);
  expect(await other.number('select count(*) from boots')).toBe(1);
});

test('a completion that is under way when its instance is judged comes first', async () => {
  const [one, other] = await two();
  await one.store.work.setup('h', (tx) => tx.run('create table mine (n integer)'));
  await one.accept({ cursor: 1, session: 's' });
  const claim = await claimed(one);
  await signs(other, one, SIGNS - 2);
  const judging = Promise.withResolvers<unknown>();
  const done = await one.store.work.complete(
    claim,
    { event: claim.tasks[0]?.event ?? 0, handler: claim.handler },
    async (tx) => {
      await tx.run('insert into mine values (1)');
      judging.resolve(signs(other, one, 2));
      await waiting(other, 1);
    },
  );
  await judging.promise;
  expect([done, await other.one('select count(*) from mine')]).toEqual([true, 1]);
  expect(await other.all('select state, crashes from tasks')).toEqual([{ state: 1, crashes: 0 }]);
});

test('a claim that is lost while the user’s work runs takes the writes of that work with it', async () => {
  const [one] = await two();
  await one.store.work.setup('h', (tx) => tx.run('create table mine (n integer)'));
  await one.accept({ cursor: 1, session: 's' });
  const claim = await claimed(one);
  const task = { event: claim.tasks[0]?.event ?? 0, handler: claim.handler };
  const done = one.store.work.complete(claim, task, async (tx) => {
    await tx.run('insert into mine values (1)');
    await one.turn([{ claim, outcomes: [], free: true }], { tasks: 0 });
  });
  expect([await done, await one.number('select count(*) from mine')]).toEqual([false, 0]);
});

test('a task that a rerun puts back while its event is pruned stays, and so does the event', async () => {
  const [one, other] = await two();
  await one.accept({ cursor: 1, session: 's' }, { cursor: 2, session: 's' });
  const claim = await claimed(one);
  await one.turn([over(claim)], { tasks: 0 });
  const pruned = await one.store.db.write(async (tx) => {
    await tx.run('update tasks set state = 0 where event = 1');
    const pruning = prune(other.people, one.now + 1_000);
    await waiting(one, 1);
    return [pruning];
  });
  await Promise.all(pruned);
  expect(await one.all('select e.seq, t.state from events e left join tasks t on t.event = e.seq')).toEqual([
    { seq: 1, state: 0 },
  ]);
});

test('an event waits for an instance that has its handler', async () => {
  const [one, other] = await two();
  await other.load([{ name: 'only here' }, ...ARRIVAL]);
  await other.store.work.end(other.boot);
  await one.accept({ cursor: 1, session: 's' });
  await one.settle();
  const state = (): Promise<unknown[]> => one.all("select state, position from handlers where name = 'only here'");
  expect(await state()).toEqual([{ state: 'loaded', position: 0 }]);
  await signs(one, other);
  expect(await state()).toEqual([{ state: 'missing', position: 0 }]);
  await other.begin();
  await other.load([{ name: 'only here', order: 'arrival' }, ...ARRIVAL]);
  other.defs.push({ name: 'only here', order: 'arrival' });
  expect(await other.settle()).toHaveLength(1);
});
