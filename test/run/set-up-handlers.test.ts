// The setups of handlers on a real store: what runs at which start, and what is refused.
import { AsyncLocalStorage } from 'node:async_hooks';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import type { Handler } from '../../src/kit.ts';
import { checkHandler, type LoadedFolder } from '../../src/run/load-handlers.ts';
import { setUpHandlers, type SetUpOptions } from '../../src/run/set-up-handlers.ts';
import type { SqlRow } from '../../src/store/work.ts';
import { createFolder, createStore } from './fixture.ts';

type Setup = Required<Handler>['setup'];

const CREATE = 'create table mine (n bigint)';
const ADD = 'insert into mine values (1)';
const ADD_COLUMN = 'alter table mine add column name text';

function createStage(path = join(createFolder(), 'events.db')) {
  const store = createStore(path);
  const more: object[] = [];
  const files: string[] = [];
  const options: SetUpOptions = {
    store,
    scopes: new AsyncLocalStorage(),
    onFile: async (file) => void files.push(file),
    onMore: (fields) => void more.push(fields),
  };
  return {
    more,
    files,
    /** One start with these handlers. Resolves to the faults. */
    start: async (setups: Record<string, Setup | undefined>): Promise<string[]> => {
      const folder: LoadedFolder = { handlers: new Map(), faults: new Map(), over: false };
      for (const [name, setup] of Object.entries(setups)) {
        const handler = { on: '*', handle() {}, ...(setup && { setup }) };
        folder.handlers.set(`/handlers/${name}.ts`, checkHandler(handler, name, false));
      }
      await setUpHandlers(folder, options);
      return [...folder.faults.values()];
    },
    rows: (): Promise<SqlRow[]> => store.work.read('select * from mine', []),
    move: (from: string, to: string) => store.admin.giveSteps(from, to),
  };
}

const refusal = (words: string): unknown => expect.stringContaining(`: setup of handler ${words}`);
const changed = (step: number): unknown =>
  refusal(
    `count failed: step ${step} is no longer the one that has run: undo the change of step ${step}, and write what should change as a new last step (a new handler takes a name of its own; in npm run dev, Clear begins anew)`,
  );

test('a function runs at each start, and each step of a list once', async () => {
  const { start, rows } = createStage();
  let calls = 0;
  const counting: Setup = () => void calls++;
  const list: Setup = [CREATE, async (tx) => void (await tx.run(ADD))];
  expect(await start({ each: counting, count: list })).toEqual([]);
  expect(await start({ each: counting, count: [...list, ADD_COLUMN] })).toEqual([]);
  expect(await start({ each: counting, count: [...list, ADD_COLUMN] })).toEqual([]);
  expect(calls).toBe(3);
  expect(await rows()).toEqual([{ n: 1, name: null }]);
});

test('before each setup and each step, the process tells which file it is at, as a sign of life', async () => {
  const { start, files } = createStage();
  for (let starts = 0; starts < 2; starts++)
    await start({ none: undefined, each: () => {}, count: [CREATE, ADD, ADD] });
  const [each, count] = ['/handlers/each.ts', '/handlers/count.ts'];
  expect(files).toEqual([each, count, count, count, each]);
});

test('a step that fails is named with its number, those before it stay, and those after it wait for it', async () => {
  const { start, rows } = createStage();
  const [fault = ''] = await start({ count: [CREATE, 'alter tabel mine', ADD] });
  expect(fault).toMatch(/^\/handlers\/count\.ts: setup of handler count failed in step 2: .*tabel/);
  expect(await rows()).toEqual([]);
  expect(await start({ count: [CREATE, ADD_COLUMN, ADD.replace('mine', 'mine (n)')] })).toEqual([]);
  expect(await rows()).toEqual([{ n: 1, name: null }]);
});

test('a function that fails is named with its line', async () => {
  const { start } = createStage();
  const fails: Setup = [
    CREATE,
    () => {
      throw new Error('no rows');
    },
  ];
  expect(await start({ count: fails })).toEqual([
    expect.stringMatching(/set-up-handlers\.test\.ts:\d+: setup of handler count failed in step 2: no rows$/),
  ]);
});

test.each<[string, string[], number]>([
  ['is edited', [CREATE, `${ADD}, (2)`], 2],
  ['comes before a new one', [CREATE, ADD_COLUMN, ADD], 2],
  ['changes its place', [ADD, CREATE], 1],
  ['follows one that is left out', [ADD], 1],
])('a start is refused, and runs nothing, if a step that has run %s', async (_, list, step) => {
  const { start, rows } = createStage();
  await start({ count: [CREATE, ADD] });
  expect(await start({ count: [...list, ADD] })).toEqual([changed(step)]);
  expect(await rows()).toEqual([{ n: 1 }]);
  expect(await start({ count: [CREATE, ADD] })).toEqual([]);
});

test.each<[string, Setup | undefined]>([
  ['fewer steps', [CREATE]],
  ['no setup', undefined],
  ['a function alone', () => {}],
])('an older release with %s starts and tells so, and the release after it goes on', async (_, older) => {
  const { start, rows, more } = createStage();
  await start({ count: [CREATE, ADD] });
  expect(await start({ count: older })).toEqual([]);
  expect(more).toEqual([{ handler: 'count', ran: 2, steps: Array.isArray(older) ? 1 : 0 }]);
  expect(await start({ count: [CREATE, ADD, ADD] })).toEqual([]);
  expect(await rows()).toEqual([{ n: 1 }, { n: 1 }]);
  expect(await start({ count: [CREATE, ADD_COLUMN] })).toEqual([changed(2)]);
  expect(more).toHaveLength(1);
});

test('a renamed handler is refused before it repeats a step, and goes on when its steps have moved', async () => {
  const { start, rows, move } = createStage();
  await start({ count: ['create table if not exists mine (n bigint)', ADD], other: [ADD] });
  const renamed = { tally: ['create table if not exists mine (n bigint)', ADD, ADD], other: [ADD] };
  expect(await start(renamed)).toEqual([
    refusal(
      'tally failed: its steps have run for count, which is gone, or broken: if it was renamed, npx kit tasks move --from count --to tally takes them along; if not, give its tables other names (in npm run dev, Clear begins anew)',
    ),
  ]);
  expect(await rows()).toHaveLength(2);
  expect(await move('count', 'tally')).toBe(2);
  expect(await start(renamed)).toEqual([]);
  expect(await rows()).toHaveLength(3);
});

test('a new handler may begin with the step of another that is loaded, or of one that is gone and went on otherwise', async () => {
  const { start, rows } = createStage();
  const shared = 'create table if not exists mine (n bigint)';
  await start({ one: [shared, ADD] });
  expect(await start({ one: [shared, ADD], two: [shared, ADD] })).toEqual([]);
  expect(await start({ two: [shared, ADD], three: [shared, `${ADD}, (2)`] })).toEqual([]);
  expect(await rows()).toHaveLength(4);
});

test('two instances that start at once run each step once, and both have no faults', async () => {
  const path = join(createFolder(), 'events.db');
  const instances = [createStage(path), createStage(path), createStage(path)];
  const list = [CREATE, ...Array.from({ length: 5 }, (_, n) => `insert into mine values (${n})`)];
  expect(await Promise.all(instances.map(({ start }) => start({ count: list })))).toEqual([[], [], []]);
  expect(await instances[0]?.rows()).toHaveLength(5);
});

test('of two releases that start at once with different steps, one is refused', async () => {
  const path = join(createFolder(), 'events.db');
  const [one, other] = [createStage(path), createStage(path)];
  const faults = await Promise.all([
    one.start({ count: [CREATE, ADD] }),
    other.start({ count: [CREATE, ADD_COLUMN, ADD_COLUMN.replace('name', 'more')] }),
  ]);
  expect(faults.flat()).toEqual([changed(2)]);
});
