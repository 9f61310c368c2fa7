// The setups of handlers on a real store: what runs at which start, and what is refused.
import { AsyncLocalStorage } from 'node:async_hooks';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import type { Loaded } from '../../src/run/load.ts';
import { digestOf, setUp } from '../../src/run/setup.ts';
import type { Scope } from '../../src/run/stray.ts';
import { createFolder } from '../store/fixture.ts';
import { createStore, FILE, handlerOf } from './fixture.ts';

type Setup = NonNullable<Loaded['setup']>;

const CREATE = 'create table mine (n bigint)';
const ADD = 'insert into mine values (1)';

function createStage() {
  const store = createStore();
  const scopes = new AsyncLocalStorage<Scope>();
  const silences: number[] = [];
  return {
    scopes,
    silences,
    /** One start. Resolves to the fault. */
    start: (setup: Setup, file = FILE): Promise<string | null> =>
      setUp(handlerOf({ setup, file }), store.work, scopes, (ms) => silences.push(ms)),
    rows: () => store.work.read('select * from mine', []),
  };
}

test('a function runs at each start, and each step of a list once', async () => {
  const { start, rows, silences } = createStage();
  let calls = 0;
  const list: Setup = [CREATE, async (tx) => void (await tx.run(ADD))];
  for (const setup of [list, list, [...list, 'alter table mine add column name text']]) {
    expect(await start(setup)).toBeNull();
    expect(await start(() => void calls++)).toBeNull();
  }
  expect(calls).toBe(3);
  // Announced before each step, and taken back.
  expect(silences.slice(0, 3).map((ms) => ms > 60_000)).toEqual([true, true, false]);
  expect(await rows()).toEqual([{ n: 1, name: null }]);
});

test('a step that fails is named with its number and line, those before it stay, and those after it wait', async () => {
  const { start, rows } = createStage();
  const file = join(createFolder(), 'count.ts');
  writeFileSync(file, "setup: [\n  'create table mine (n bigint)',\n  'alter tabel mine',\n]");
  expect(await start([CREATE, 'alter tabel mine', ADD], file)).toMatch(
    new RegExp(`^${file}: setup of handler one failed in step 2: .*tabel`),
  );
  expect(await rows()).toEqual([]);
  expect(await start([CREATE, ADD, ADD])).toBeNull();
  expect(await rows()).toHaveLength(2);
});

test.each<[string, (scopes: AsyncLocalStorage<Scope>) => Setup]>([
  ['throws', () => [CREATE, () => Promise.reject(new Error('no rows'))]],
  ['fails where nobody awaits it', (scopes) => [CREATE, () => void scopes.getStore()?.fail(new Error('no rows'))]],
])('a function that %s is named with its line', async (_, setup) => {
  const { start, scopes } = createStage();
  const fault = await start(setup(scopes));
  expect(fault).toMatch(/setup\.test\.ts:\d+: setup of handler one failed in step 2: no rows$/);
});

test.each<[string, string[], RegExp]>([
  ['is edited', [CREATE, `${ADD}, (2)`], /step 2 is no longer the one that has run: undo its change, and write/],
  ['changes its place', [ADD, CREATE, ADD], /step 1 is no longer/],
  ['is left out', [CREATE], /step 2 has run, and is missing: put it back, and write what should change as a new last/],
])('a start is refused, and runs nothing, if a step that has run %s', async (_, list, fault) => {
  const { start, rows } = createStage();
  await start([CREATE, ADD]);
  expect(await start(list)).toMatch(fault);
  expect(await rows()).toEqual([{ n: 1 }]);
  expect(await start([CREATE, ADD])).toBeNull();
});

test('white space changes no step, and every other letter does', () => {
  const step = `update a set b = 'x y' where c = 1`;
  expect(digestOf(`  update  a\n set b = 'x y'\twhere c = 1\n`)).toBe(digestOf(step));
  for (const other of [step.replace('x y', 'xy'), step.replace('x y', '--x'), step.replace('b', 'd')])
    expect(digestOf(other)).not.toBe(digestOf(step));
});
