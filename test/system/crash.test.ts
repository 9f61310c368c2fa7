import { rmSync } from 'node:fs';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { createKit, deliver, load, makeEvent, RECORD, until, type Kit } from './kit.ts';

let kit: Kit;
beforeEach(async () => {
  kit = await createKit({ record: RECORD });
});
afterEach(() => kit.remove());

function handled(): number {
  return kit.query<{ n: number }>('select count(*) as n from seen')[0]?.n ?? 0;
}

function outOfOrder(): unknown[] {
  return kit.query(
    `select * from (select key, late, cursor < max(cursor) over (partition by lane order by n rows between unbounded preceding and 1 preceding) as back from seen) where back and not late`,
  );
}

test('F48: a thousand concurrent copies of one event make one row and one run of the handler, and all get 204', async () => {
  await kit.start();
  const statuses = await Promise.all(Array.from({ length: 1_000 }, () => deliver(kit, makeEvent(1))));
  expect(new Set(statuses)).toEqual(new Set([204]));
  await until(() => handled() === 1);
  expect(kit.query('select copies from events')).toEqual([{ copies: 999 }]);
});

test('shuffled events are handled once each, in cursor order within their lane, except those marked late', async () => {
  await kit.start();
  const events = Array.from({ length: 2_000 }, (_, n) => makeEvent(n, 20)).toSorted(() => Math.random() - 0.5);
  const copies = events.filter((_, n) => n % 5 === 0);
  const statuses = await Promise.all([...events, ...copies].map((event) => deliver(kit, event)));
  expect(new Set(statuses)).toEqual(new Set([204]));
  await until(() => handled() === 2_000);
  expect(kit.query('select key from seen group by key having count(*) > 1')).toEqual([]);
  expect(outOfOrder()).toEqual([]);
});

test('the tasks that a killed run process was running wait again, and the next run process handles them', async () => {
  await kit.start();
  const running = load(kit, 200);
  await until(() => running.acknowledged.size > 50);
  const first = await kit.alive('run');
  process.kill(first, 'SIGKILL');
  await until(() => running.acknowledged.size > 200);
  await running.stop();
  expect([...running.statuses.keys()]).toEqual([204]);
  await until(() => handled() === running.acknowledged.size);
  await kit.alive('run', first);
});

test('if the write-ahead log is deleted while the kit runs, deliveries are refused, and a stop writes back all acknowledged events', async () => {
  await kit.start();
  const acknowledged: string[] = [];
  for (let n = 0; n < 30; n++) if ((await deliver(kit, makeEvent(n))) === 204) acknowledged.push(`evt_${n}`);
  rmSync(`${kit.folder}/events.db-wal`);
  expect(await deliver(kit, makeEvent(100))).toBe(503);
  await kit.stop();
  await kit.start();
  const ids = new Set(kit.query<{ id: string }>('select id from events').map(({ id }) => id));
  expect(acknowledged.filter((id) => !ids.has(id))).toEqual([]);
  expect(acknowledged).toHaveLength(30);
  expect(await deliver(kit, makeEvent(100))).toBe(204);
});
