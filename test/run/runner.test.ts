// Turns and chains with real handlers, on a real store: what one handler does to the others.
import { AsyncLocalStorage } from 'node:async_hooks';
import { join } from 'node:path';
import { setImmediate as immediate } from 'node:timers/promises';
import { pino } from 'pino';
import { expect, onTestFinished, test, vi } from 'vitest';
import { systemClock as clock } from '../../src/base/clock.ts';
import type { Handler } from '../../src/kit.ts';
import { checkHandler } from '../../src/run/load.ts';
import { Runner, type RunnerOptions } from '../../src/run/runner.ts';
import { erase } from '../../src/operations/store/erase.ts';
import { openForPeople } from '../../src/operations/store/open.ts';
import { openSqlite } from '../../src/store/sqlite/open.ts';
import { StoreError } from '../../src/store/store.ts';
import { until } from '../harness.ts';
import { createFolder, createWorld, reading, type Wanted } from '../store/fixture.ts';

const COMMON = {
  clock,
  log: pino({ level: 'silent' }),
  windowMs: 20,
  places: 4,
  careful: false,
  suspects: false,
  serviceFor: () => expect.unreachable('a call'),
};

async function start(defs: Record<string, Handler>, { places = 4 } = {}) {
  const store = openSqlite(join(createFolder(), 'events.db'));
  const { boot } = await store.work.begin('live', false);
  const names = Object.keys(defs);
  const ids = await store.work.register(
    names.map((name) => ({ name, file: `/${name}.ts`, fault: null })),
    0,
  );
  const handlers = new Map(
    names.map((name) => [ids.get(name) ?? 0, { ...checkHandler(defs[name], name, true), file: `/${name}.ts` }]),
  );
  const scopes: RunnerOptions['scopes'] = new AsyncLocalStorage();
  const onTurn = (): void => expect(scopes.getStore(), 'the scope of a handler in the runner').toBeUndefined();
  const runner = new Runner({ ...COMMON, store: store.work, boot, handlers, places, scopes, onTurn });
  const row = (sql: string): unknown => store.db.raw.prepare(sql).get();
  onTestFinished(async () => {
    await runner.drain(100).catch(() => {});
    store.close();
  });
  return {
    runner,
    store,
    row,
    rows: (sql: string) => store.db.raw.prepare(sql).all() as Record<string, unknown>[],
    accept: async (...list: Wanted[]) => {
      await store.ingest.accept({
        readings: list.map((one) => reading({ type: 'MessageStatusUpdated', session: null, ...one })),
      });
      runner.wake();
    },
    ended: (n: number) =>
      until(
        `${n} tasks to end`,
        () => (row('select count(*) as n from tasks where state > 0') as { n: number }).n >= n,
      ),
  };
}

const ALL = { on: '*' } as const;

test('a lane goes on behind a failed task only when that one is done, and in order', async () => {
  const seen: string[] = [];
  let failures = 2;
  const kit = await start({
    h: {
      ...ALL,
      retry: { firstMs: 1, maxMs: 2 },
      handle(event) {
        seen.push(String(event.cursor));
        if (event.cursor === '2' && failures-- > 0) throw new Error('not yet');
      },
    },
  });
  await kit.accept({ cursor: 3 }, { cursor: 1 }, { cursor: 2 });
  await kit.ended(3);
  expect(seen).toEqual(['1', '2', '2', '2', '3']);
  expect(kit.row('select attempts, state from tasks where cursor = 2')).toEqual({ attempts: 3, state: 1 });
});

test('a handler that only another instance has loaded is left to it', async () => {
  const kit = await start({ h: { ...ALL, handle() {} } });
  kit.store.db.raw.exec(
    "insert into handlers (name, file, state, position) values ('other', '/other.ts', 'loaded', 0)",
  );
  await kit.accept({ cursor: 1 });
  await kit.ended(1);
  expect(kit.rows('select name, position from handlers order by id')).toEqual([
    { name: 'h', position: 1 },
    { name: 'other', position: 0 },
  ]);
});

test.each<[string, (event: { cursor: string | null }) => string, RegExp]>([
  [
    'throws',
    () => {
      throw new Error('odd');
    },
    /its lane function failed: Error: odd/,
  ],
  [
    'spins',
    () => {
      for (;;);
    },
    /did not return within 100 ms/,
  ],
])('a lane function that %s on an event makes a dead letter of it, and the others go on', async (_, fault, words) => {
  const seen: string[] = [];
  const kit = await start({
    bad: { ...ALL, order: 'arrival', lane: (event) => (event.cursor === '2' ? fault(event) : 'a'), handle: () => {} },
    good: { ...ALL, order: 'arrival', handle: (event) => void seen.push(String(event.cursor)) },
  });
  await kit.accept({ cursor: 1 }, { cursor: 2 }, { cursor: 3 });
  await kit.ended(6);
  expect(seen.toSorted()).toEqual(['1', '2', '3']);
  expect(kit.rows('select cast(cursor as text) as c, error from tasks where state = 3')).toEqual([
    { c: '2', error: expect.stringMatching(words) },
  ]);
});

test('hanging calls of one handler leave a place for another', async () => {
  const seen: string[] = [];
  const kit = await start({
    slow: { ...ALL, lane: 'none', order: 'arrival', handle: () => new Promise(() => {}) },
    quick: { ...ALL, lane: 'none', order: 'arrival', handle: (event) => void seen.push(String(event.cursor)) },
  });
  await kit.accept(...Array.from({ length: 20 }, (_, n) => ({ cursor: n + 1 })));
  await kit.ended(20);
  expect(seen).toHaveLength(20);
  expect(kit.row('select count(*) as n from tasks where state = 0')).toEqual({ n: 20 });
});

test('a stop lets what runs end, gives the rest back, and counts nothing', async () => {
  const begun: string[] = [];
  const kit = await start(
    {
      h: {
        ...ALL,
        order: 'arrival',
        lane: 'none',
        async handle(event, { signal }) {
          begun.push(String(event.cursor));
          await new Promise((_, reject) => signal.addEventListener('abort', () => reject(new Error('stopped'))));
        },
      },
    },
    { places: 2 },
  );
  await kit.accept({ cursor: 1 }, { cursor: 2 }, { cursor: 3 });
  await until('two to begin', () => begun.length === 2);
  await kit.runner.drain(1_000);
  expect(kit.rows('select distinct state, attempts, crashes from tasks')).toEqual([
    { state: 0, attempts: 0, crashes: 0 },
  ]);
  expect(kit.row('select count(*) as n from lanes where boot is not null')).toEqual({ n: 0 });
});

test('an attempt whose event is still being read at a stop does not begin', async () => {
  const begun: unknown[] = [];
  const kit = await start({ h: { ...ALL, order: 'arrival', handle: (event) => void begun.push(event.cursor) } });
  const { work } = kit.store;
  const events = work.events.bind(work);
  const asked = Promise.withResolvers<void>();
  const go = Promise.withResolvers<void>();
  vi.spyOn(work, 'events').mockImplementationOnce(async (seqs) => {
    asked.resolve();
    await go.promise;
    return events(seqs);
  });
  // The body is too large to be kept in memory.
  await kit.accept({ cursor: 1, data: { text: 'x'.repeat(100_000) } });
  await asked.promise;
  const drained = kit.runner.drain(1_000);
  go.resolve();
  await drained;
  expect([begun, kit.row('select state, attempts from tasks')]).toEqual([[], { state: 0, attempts: 0 }]);
});

test('a stop gives lanes back, also if the outcomes cannot be written', async () => {
  const kit = await start({
    h: {
      ...ALL,
      order: 'arrival',
      handle: (_, { signal }) => new Promise((_resolve, reject) => signal.addEventListener('abort', reject)),
    },
  });
  await kit.accept({ cursor: 1 });
  await until('a claim', () => (kit.row('select count(boot) as n from lanes') as { n: number }).n === 1);
  vi.spyOn(kit.store.work, 'turn').mockRejectedValue(new StoreError('full', 'no room'));
  await expect(kit.runner.drain(1_000)).rejects.toThrow('no room');
  expect(kit.row('select count(boot) as n from lanes')).toEqual({ n: 0 });
});

test('a suspect begins only when the outcome of the one before it is written', async () => {
  const world = await createWorld([{ name: 'h', order: 'arrival', lane: ({ cursor }) => cursor }]).begin();
  await world.accept({ cursor: 1 }, { cursor: 2 });
  await world.settle();
  await world.begin(true);
  const { work } = world.store;
  const { boot } = await work.begin('suspect-1', true);
  const held: number[] = [];
  let end = (): void => {};
  async function handle(): Promise<void> {
    held.push(world.count(`select count(*) from lanes where boot = ${boot}`));
    runner.wake();
    await new Promise<void>((resolve) => (end = resolve));
  }
  // An attempt ends while the next turn has already begun.
  async function look(wanted: number[]): ReturnType<typeof work.look> {
    end();
    for (let n = 0; n < 5; n++) await immediate();
    return work.look(wanted);
  }
  const handler = { ...checkHandler({ ...ALL, handle }, 'h', true), file: '/h.ts' };
  const handlers = new Map([[world.ids.get('h') ?? 0, handler]]);
  const own = { boot, handlers, suspects: true, scopes: new AsyncLocalStorage() as RunnerOptions['scopes'] };
  const runner: Runner = new Runner({ ...COMMON, ...own, store: { ...work, look } });
  await until('both to end', () => world.count('select count(*) from tasks where state = 1') === 2);
  await runner.drain(100);
  expect(held).toEqual([1, 1]);
});

test('no more attempts begin than the rate allows', async () => {
  const at: number[] = [];
  const kit = await start({
    h: {
      ...ALL,
      order: 'arrival',
      lane: 'none',
      rate: { perMinute: 600 },
      handle: () => void at.push(performance.now()),
    },
  });
  await kit.accept({ cursor: 1 }, { cursor: 2 }, { cursor: 3 });
  await kit.ended(3);
  expect((at[2] ?? 0) - (at[0] ?? 0)).toBeGreaterThanOrEqual(195);
});

test('an event that is erased while its task waits is not handed out', async () => {
  const seen: (string | null)[] = [];
  const erased = Promise.withResolvers<void>();
  async function handle(event: { cursor: string | null }): Promise<void> {
    seen.push(event.cursor);
    await erased.promise;
  }
  const kit = await start({ h: { ...ALL, lane: 'none', handle } }, { places: 1 });
  await kit.accept({ cursor: 1 }, { cursor: 2 });
  await until('the first attempt', () => seen.length > 0);
  await erase(openForPeople(kit.store.db), { event: seen[0] === '1' ? 2 : 1 });
  erased.resolve();
  await kit.ended(2);
  expect([seen.length, kit.rows('select state from tasks order by state')]).toEqual([1, [{ state: 1 }, { state: 2 }]]);
});
