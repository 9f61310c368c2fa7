// The way from SQLite to PostgreSQL: all of the store, or nothing.
import { expect, test } from 'vitest';
import { copy } from '../../src/tools/commands/copy.ts';
import { loadConfig } from '../../src/config.ts';
import { claimed, createWorld, over, WINDOW, type HandlerDef } from '../store/fixture.ts';
import { createPostgresWorld } from './world.ts';

const DEFS: HandlerDef[] = [{ name: 'h', lane: ({ session }) => session }];
const DAY = 86_400_000;

test('a store goes on as it was, and is copied once', async () => {
  const old = await createWorld(DEFS).begin();
  await old.accept({ id: 'old', cursor: 1, session: 's' }, { id: 'waits', cursor: 2, session: 's' });
  old.now += WINDOW;
  const claim = await claimed(old);
  const config = () => loadConfig({ WEBHOOK_SECRET: 'whsec_test', DATABASE_URL: `sqlite:${old.file}` });
  const fresh = await createPostgresWorld(DEFS);
  const go = (): Promise<unknown> => copy.run({ config } as never, { url: fresh.url });
  await expect(go()).rejects.toThrow('did not end by itself');
  const first = { event: claim.tasks[0]?.event ?? 0, as: 'done', error: null } as const;
  await old.turn([{ claim, outcomes: [first], free: true }], { tasks: 0 });
  old.now += 2 * DAY;
  const body = Buffer.from([0, 0xff, 0x7b]);
  await old.accept(
    { id: 'new', cursor: 3, session: 's' },
    { unreadable: { origin: 'webhook', cursor: null, body, reason: 'not JSON' } },
  );
  await expect(go()).resolves.toMatchObject({ rows: 8 });

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
  await expect(go()).rejects.toThrow('there is a store already');
});
