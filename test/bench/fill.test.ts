// `npm run bench` and `npm run pressure` write their past directly into the tables, so the schema has to accept it.
import { join } from 'node:path';
import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { expect, test } from 'vitest';
import { fill } from './fill.ts';
import { openSqlite } from '../../src/store/sqlite/open.ts';

test('a past with waiting tasks is written, and its lanes wait for the task that has failed', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'kit-fill-'));
  await fill(folder, { events: 100, waiting: 40, lanes: 7 }, () => {});
  const store = openSqlite(`${folder}/events.db`, { owner: true });
  const { tasks } = await store.read.status(Date.now());
  expect(tasks).toMatchObject({ ready: 40, done: 60 });
  const handlers = [...(await store.work.register(['noting'])).values()];
  const turn = { now: Date.now(), boot: 1, settle: [], fanOut: null, room: 100, handlers };
  expect((await store.work.turn(turn)).claims).toEqual([]);
  store.close();
});
