// The way from SQLite to PostgreSQL: all of the store, or nothing. Most of it goes while the kit runs.
import { expect, test } from 'vitest';
import { copy } from '../../src/tools/commands/copy.ts';
import { loadConfig } from '../../src/config.ts';
import { lockBeside } from '../../src/store/sqlite/open.ts';
import { claimed, createWorld, over, WINDOW, type HandlerDef } from '../store/fixture.ts';
import { createPostgresWorld } from './world.ts';

const DEFS: HandlerDef[] = [{ name: 'h', lane: ({ session }) => session }];
const DAY = 86_400_000;

type Copied = { rows: number; isOver: boolean };

/** `go`: the command, with a schema that does not exist yet. `running`: as long as the kit runs. */
async function start() {
  const old = await createWorld(DEFS).begin();
  const config = () => loadConfig({ WEBHOOK_SECRET: 'whsec_test', DATABASE_URL: `sqlite:${old.file}` });
  const fresh = await createPostgresWorld(DEFS);
  await fresh.exec(`drop schema "${fresh.store.db.schema}" cascade`);
  const go = async (args = {}): Promise<Copied> => {
    const result = await copy.run({ config } as never, { url: fresh.url, ...args });
    return result as Copied;
  };
  const running = async (work: () => Promise<unknown>): Promise<void> => {
    const lock = lockBeside(old.file);
    await work().finally(() => lock.close());
  };
  return { old, fresh, go, running };
}

test('a store goes on as it was, and is copied once', async () => {
  const { old, fresh, go } = await start();
  await old.accept({ id: 'old', cursor: 1, session: 's' }, { id: 'waits', cursor: 2, session: 's' });
  old.now += WINDOW;
  const claim = await claimed(old);
  await expect(go()).rejects.toThrow('did not end by itself');
  const first = { event: claim.tasks[0]?.event ?? 0, as: 'done', error: null } as const;
  await old.turn([{ claim, outcomes: [first], free: true }], { tasks: 0 });
  old.now += 2 * DAY;
  const body = Buffer.from([0, 0xff, 0x7b]);
  await old.accept(
    { id: 'new', cursor: 3, session: 's' },
    { unreadable: { origin: 'webhook', cursor: null, body, reason: 'not JSON' } },
  );
  await expect(go()).resolves.toMatchObject({ isOver: true });

  const world = await (await fresh.beside()).begin();
  world.now = old.now;
  const later = await world.accept({ id: 'old', cursor: 1, session: 's' }, { id: 'later', cursor: 4, session: 's' });
  expect(later).toEqual(['duplicate', 'new']);
  world.now += WINDOW;
  const claims = await world.settle();
  expect(await world.cursors(claims[0])).toEqual(['2', '3', '4']);
  await world.settle(claims.map((one) => over(one)));
  expect(await world.all('select waiting, done from handlers')).toEqual([{ waiting: 0, done: 4 }]);
  expect(await world.all('select state, count(*) as n from tasks group by 1')).toEqual([{ state: 1, n: 4 }]);
  expect(await world.one('select body from quarantine')).toEqual(body);
  await expect(go()).rejects.toThrow('has tables already');
});

test('what changes while the kit runs is copied again', async () => {
  const { old, fresh, go, running } = await start();
  const both = async (sql: string): Promise<unknown> => {
    const rows = await fresh.all(sql.replaceAll('from ', `from "${fresh.store.db.schema}".`));
    expect(rows).toEqual(await old.all(sql));
    return rows;
  };
  const accept = (from: number, upTo: number): Promise<unknown> =>
    old.accept(
      ...Array.from({ length: upTo - from }, (_, n) => ({ id: `e${from + n}`, cursor: from + n, session: 's' })),
    );
  await accept(1, 50);
  old.now += WINDOW;
  await old.settle();
  await running(async () => {
    await expect(go()).resolves.toMatchObject({ isOver: false });
    // The same id comes back with another row, and the rows before it are gone.
    await old.exec('delete from tasks where event <= 20; delete from events where seq <= 20');
    await old.exec("update events set id = 'e1' where seq = 30; update events set body = null where seq = 40");
    await accept(50, 60);
    await expect(go()).resolves.toMatchObject({ isOver: false });
    await old.exec("update tasks set error = 'nul ' || char(0) || ' in it', attempts = 3 where event = 45");
  });
  await old.exec('update lanes set boot = null');
  await expect(go()).resolves.toMatchObject({ isOver: true });
  expect(await both('select seq, id, cursor, body from events order by seq')).toHaveLength(39);
  await both('select event, lane, state, attempts from tasks order by event');
  await both('select * from lanes order by id');
  await both('select id, name, position, waiting, done from handlers');
  expect(await old.all("select name from sqlite_schema where name like 'copying%'")).toEqual([]);
});

test('a copy that goes on after others were begun misses no change', async () => {
  const { old, fresh, go, running } = await start();
  await old.accept({ id: 'one', cursor: 1, session: 's' });
  old.now += WINDOW;
  const claims = await old.settle();
  await running(async () => {
    await go();
    const other = new URL(fresh.url);
    other.searchParams.set('schema', 'test_given_up');
    await go({ url: other.href });
    await go({ url: other.href, stop: true });
    await old.settle(claims.map((one) => over(one)));
    await go({ url: other.href });
    await go({ url: other.href, stop: true });
  });
  await expect(go()).resolves.toMatchObject({ isOver: true });
  expect(await fresh.all(`select state from "${fresh.store.db.schema}".tasks`)).toEqual([{ state: 1 }]);
});

test('a copy that was begun is given up, and begun again', async () => {
  const { old, go, running } = await start();
  await old.accept({ id: 'one', cursor: 1 });
  await running(async () => {
    await go();
    await go({ stop: true });
    await old.accept({ id: 'two', cursor: 2 });
    await expect(go()).resolves.toMatchObject({ isOver: false });
  });
  await expect(go()).resolves.toMatchObject({ isOver: true });
});
