// The one door: which stored event an arrival is.
import { expect, test } from 'vitest';
import { stateOf } from '../../src/store/sql.ts';
import type { Verdict } from '../../src/store/store.ts';
import { openWorld, reading, type Wanted } from './fixture.ts';

const A1: Wanted = { id: 'a', cursor: 1 };
const REPLAYED: Wanted = { cursor: 1, origin: 'replay' };
const OTHER = { data: { n: 2 } };

test.each<[string, Wanted[], Wanted, Verdict]>([
  ['the same id and cursor', [A1], A1, 'duplicate'],
  ['replay of a webhook', [A1], REPLAYED, 'duplicate'],
  ['a webhook after replay', [REPLAYED], A1, 'duplicate'],
  ['the same id with other data', [A1], { ...A1, ...OTHER }, 'conflict'],
  ['the same cursor under another id with equal data', [A1], { ...A1, id: 'b' }, 'duplicate'],
  ['the same cursor under another id with other data', [A1], { ...A1, id: 'b', ...OTHER }, 'conflict'],
  ['the same id with another cursor', [A1], { ...A1, cursor: 2 }, 'conflict'],
  ['the same cursor with another type', [A1], { ...REPLAYED, type: 'B' }, 'conflict'],
  ['the same cursor of another session', [{ ...A1, session: 's' }], { ...REPLAYED, session: 't' }, 'conflict'],
  ['an id and a cursor of two rows', [A1, { id: 'b', cursor: 2 }], { ...A1, cursor: 2 }, 'conflict'],
  ['an id that is the word null', [{ id: 'null', cursor: 1 }], { cursor: 2, origin: 'replay' }, 'new'],
  ['an id that differs by case', [{ id: 'a' }], { id: 'A' }, 'new'],
  ['what was unknown, which contradicts nothing', [{ id: 'a' }], { ...A1, session: 's' }, 'duplicate'],
])('an arrival is judged: %s', async (_, known, arrival, verdict) => {
  const world = await openWorld();
  await world.accept(...known);
  expect(await world.accept(arrival)).toEqual([verdict]);
});

test('the row gets what it lacks, and the origin, and keeps what it has', async () => {
  const world = await openWorld();
  await world.accept({ cursor: 5, origin: 'replay' });
  await world.accept({ id: 'a', cursor: 5, session: 's' });
  await world.accept({ id: 'b', cursor: 5, session: 's' });
  expect(await world.all('select cast(cursor as text) as c, id, session, origins, deliveries from events')).toEqual([
    { c: '5', id: 'a', session: 's', origins: 3, deliveries: 3 },
  ]);
});

test('an erased row equals anything', async () => {
  const world = await openWorld();
  await world.accept({ id: 'a', cursor: 1 });
  await world.exec('update events set body = null');
  expect(await world.accept({ id: 'a', cursor: 1, data: { other: 1 } })).toEqual(['duplicate']);
});

test('what replay shows at or below the floor was removed; an unknown webhook is always new', async () => {
  const world = await openWorld();
  await world.exec("insert into state values ('floor', '\"10\"')");
  const verdicts = await world.accept(
    { cursor: 10, origin: 'replay' },
    { cursor: 9, origin: 'stream' },
    { id: 'a', cursor: 8 },
    { cursor: 11, origin: 'replay' },
  );
  expect(verdicts).toEqual(['removed', 'removed', 'new', 'new']);
});

test('a page and the watermark that it proves are one transaction', async () => {
  const world = await openWorld();
  await world.exec("insert into state values ('watermark', '\"5\"')");
  const proves = (from: string, to: string) => ({ readings: [], proves: { from: from as never, to: to as never } });
  const watermark = (): Promise<unknown> => stateOf(world.people, 'watermark');
  await world.store.ingest.accept(proves('7', '9'));
  expect(await watermark()).toBe('5');
  await world.store.ingest.accept(proves('4', '9'));
  expect(await watermark()).toBe('9');
  await world.store.ingest.accept(proves('4', '8'));
  expect(await watermark()).toBe('9');
  await world.accept({ id: 'far', cursor: 1_000 });
  expect(await watermark()).toBe('9');
  await world.refuse('state', "new.name = 'watermark'");
  await expect(world.store.ingest.accept({ ...proves('9', '12'), readings: [reading()] })).rejects.toThrow('no');
  expect(await watermark()).toBe('9');
});

test('a reading that the store refuses is quarantined alone', async () => {
  const world = await openWorld();
  await world.refuse('events', "new.id = 'bad'");
  expect(await world.accept({ id: 'a' }, { id: 'bad' }, { id: 'b' })).toEqual(['new', 'quarantined', 'new']);
  expect(await world.number('select count(*) from quarantine')).toBe(1);
  expect(
    await world.all(
      "select name, cast(value as text) as value from state where name in ('events', 'quarantined') order by name",
    ),
  ).toEqual([
    { name: 'events', value: '2' },
    { name: 'quarantined', value: '1' },
  ]);
});

test('the same unreadable bytes are one row with a count', async () => {
  const world = await openWorld();
  const unreadable = {
    unreadable: { origin: 'webhook' as const, cursor: null, body: Buffer.from('{'), reason: 'not JSON' },
  };
  await world.accept(unreadable, unreadable);
  expect(await world.all('select reason, copies from quarantine')).toEqual([{ reason: 'not JSON', copies: 2 }]);
});

test('a number is never given twice, so that positions skip nothing', async () => {
  const world = await (await openWorld()).begin();
  await world.accept({ id: 'a' });
  await world.settle();
  const first = await world.number('select max(seq) from events');
  await world.exec('delete from events; delete from tasks');
  await world.accept({ id: 'b' });
  expect(await world.number('select max(seq) from events')).toBeGreaterThan(first);
  expect(await world.settle()).toHaveLength(1);
});
