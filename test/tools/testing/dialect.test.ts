// What src/handlers/README.md says about SQL in handlers. It runs in memory, and by `npm run test:postgres` on PostgreSQL.
import { expect, test } from 'vitest';
import { defineHandler, type SqlRow, type Tx } from '#kit';
import { deliver, fixture } from '#kit/testing';

const EXPECTED = process.env['KIT_TEST_STORE'] ? 'postgres' : 'sqlite';

/** Runs the work in `ctx.complete`. */
async function completing(work: (tx: Tx) => Promise<void>, tables: string[] = []) {
  const handler = defineHandler({
    on: 'MessageReceived',
    retry: { attempts: 1 },
    async setup(tx) {
      for (const table of tables) await tx.run(table);
    },
    handle: (_, ctx) => ctx.complete(work),
  });
  const outcome = await deliver(handler, fixture('MessageReceived'));
  expect(outcome.tasks).toMatchObject([{ state: 'done', error: null }]);
  return outcome;
}

test('tx.dialect names the database', async () => {
  let dialect = '';
  await completing(async (tx) => void (dialect = tx.dialect));
  expect(dialect).toBe(EXPECTED);
});

test('the portable subset: ?, text and bigint, a conflict target, and columns with the name of their table', async () => {
  const add = (tx: Tx, n: bigint) =>
    tx.run('insert into sizes values (?, ?) on conflict (name) do update set n = sizes.n + excluded.n', 'a', n);
  const { query } = await completing(
    async (tx) => {
      await add(tx, 2n ** 62n);
      await add(tx, 1n);
      await tx.run(`insert into sizes values ('what?', ?)`, 7);
    },
    ['create table if not exists sizes (name text primary key, n bigint not null)'],
  );
  expect(await query('select n from sizes order by name')).toEqual([{ n: 2n ** 62n + 1n }, { n: 7 }]);
});

test('a statement without effect changes no row, so a key makes an insert idempotent', async () => {
  const changes: number[] = [];
  await completing(
    async (tx) => {
      for (const key of ['k', 'k'])
        changes.push((await tx.run('insert into keys values (?) on conflict do nothing', key)).changes);
    },
    ['create table if not exists keys (key text primary key)'],
  );
  expect(changes).toEqual([1, 0]);
});

test('what differs: JSON, and the case of names', async () => {
  const said: (SqlRow | undefined)[] = [];
  await completing(async (tx) => {
    const json = tx.dialect === 'postgres' ? `cast(? as json) ->> 'a'` : `json_extract(?, '$.a')`;
    said.push(await tx.get(`select ${json} as a`, '{"a":"b"}'));
    said.push(await tx.get('select 1 as someName'));
    said.push(await tx.get('select 1 as "someName"'));
    said.push(await tx.get('select 1 < 2 as less'));
  });
  const folded = EXPECTED === 'postgres' ? { somename: 1 } : { someName: 1 };
  expect(said).toEqual([{ a: 'b' }, folded, { someName: 1 }, { less: 1 }]);
  const { query } = await completing(async () => {});
  const time = EXPECTED === 'postgres' ? 'now()' : `datetime('now')`;
  expect(await query(`select ${time} as at`)).toEqual([{ at: expect.stringMatching(/^\d{4}-\d\d-\d\d /) }]);
});

test.each([
  ['an integer of more than 32 bits', 'create table if not exists t (n integer)', `insert into t values (${2 ** 40})`],
  [
    'do update without a column',
    'create table if not exists t (n bigint primary key)',
    'insert into t values (1) on conflict do update set n = 2',
  ],
])('PostgreSQL refuses %s', async (_, table, statement) => {
  const handler = defineHandler({
    on: 'MessageReceived',
    retry: { attempts: 1 },
    setup: (tx) => void tx.run(table),
    handle: (__, ctx) => ctx.complete((tx) => void tx.run(statement)),
  });
  const { tasks } = await deliver(handler, fixture('MessageReceived'));
  expect(tasks).toMatchObject([{ state: EXPECTED === 'postgres' ? 'dead' : 'done' }]);
});
