// Erasing, backing up and restoring, and the doctor: on real files, and by real HTTP.
import Database from 'better-sqlite3';
import { createServer, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { loadConfig } from '../../src/config.ts';
import { restore } from '../../src/cli/restore.ts';
import { tell } from '../../src/operations/store/open.ts';
import { takeStore } from '../../src/store/sqlite/open.ts';
import { createFolder, createWorld, WINDOW, type World } from '../store/fixture.ts';
import { ask, report } from './fixture.ts';

const SENDER = '15550100';

async function worldOf(): Promise<World> {
  const world = await createWorld().begin();
  await report(world);
  for (const [n, from] of [SENDER, 'other', SENDER].entries())
    await world.accept({ cursor: n + 1, id: `e${n + 1}`, data: { from, body: 'words of a stranger' } });
  await world.settle();
  return world;
}

const bodies = (world: World): unknown => world.rows('select seq, body is null as erased from events');
const bytesOf = (world: World): string =>
  readdirSync(dirname(world.file))
    .map((name) => readFileSync(join(dirname(world.file), name), 'latin1'))
    .join('');

test('a person is erased from events, quarantine and errors; the rows stay, and replay brings nothing back', async () => {
  const world = await worldOf();
  await world.accept({ cursor: 1, id: 'e1', type: 'B', data: { from: SENDER } });
  expect(await ask(world, 'erase', { sender: SENDER })).toMatchObject({
    events: 2,
    quarantined: 1,
    mayComeBack: false,
  });
  await world.people.checkpoint('truncate');
  expect(bytesOf(world).includes(SENDER)).toBe(false);
  await world.accept({ cursor: 1, origin: 'replay', data: { from: SENDER } });
  expect(bodies(world)).toEqual([
    { seq: 1, erased: 1 },
    { seq: 2, erased: 0 },
    { seq: 3, erased: 1 },
  ]);
});

test('an escaped number is found, and what a running attempt leaves behind is erased as it ends', async () => {
  const world = await createWorld().begin();
  await report(world);
  await world.accept({ cursor: 1, data: { from: SENDER } });
  const escaped = Buffer.from(String.raw`{"A":{"from":"\u0031555010\u0030"}}`);
  world.store.db.raw.prepare('update events set body = ?').run(escaped);
  await world.accept({ unreadable: { origin: 'webhook', cursor: null, body: escaped, reason: 'no' } });
  world.now += WINDOW;
  const claims = await world.settle();
  expect(await ask(world, 'erase', { sender: SENDER })).toMatchObject({ events: 1, quarantined: 1 });
  const error = `no answer for ${SENDER}`;
  const outcome = { event: 1, as: 'dead', error } as const;
  await world.settle(claims.map((claim) => ({ claim, outcomes: [outcome], free: true })));
  const left = 'select error from tasks union all select error from attempts';
  expect(world.rows(left)).toEqual([{ error: 'erased' }, { error: 'erased' }]);
});

test('a number in an item of replay that has no readable cursor is found', async () => {
  const world = await worldOf();
  const body = Buffer.from(JSON.stringify({ cursor: 'x', json_payload: JSON.stringify({ A: { from: SENDER } }) }));
  await world.accept({ unreadable: { origin: 'replay', cursor: null, body, reason: 'no cursor' } });
  const before = world.count('select count(*) from quarantine where body is not null');
  expect(await ask(world, 'erase', { sender: SENDER })).toMatchObject({ quarantined: before });
});

test('while history is being read, erasing says that it must be done again', async () => {
  const world = await worldOf();
  await report(world, { state: 'running' });
  expect(await ask(world, 'erase', { sender: SENDER })).toMatchObject({ events: 2, mayComeBack: true });
  expect(await ask(world, 'erase', { event: 'c:2' })).toMatchObject({ events: 1, mayComeBack: false });
  await expect(ask(world, 'erase')).rejects.toThrow('say what to erase');
  await report(world, { state: 'idle', lastAt: world.now });
  expect(await ask(world, 'erase', { sender: SENDER })).toMatchObject({ mayComeBack: false });
  await tell(world.people, 'restored_at', world.now + 1);
  expect(await ask(world, 'erase', { sender: SENDER })).toMatchObject({ mayComeBack: true });
});

function restored(world: World, file: string): Promise<unknown> {
  const config = () => loadConfig({ WEBHOOK_SECRET: 'whsec_x', DATABASE_URL: `sqlite:${world.file}` });
  return restore.run(
    {
      db: world.people,
      clock: world.clock,
      disk: () => ({ folder: '', logBytes: 0, freeBytes: 0 }),
      config,
    },
    { file },
  );
}

test('a backup holds what was there, seven stay, and restoring keeps the old store beside it', async () => {
  const world = await worldOf();
  const folder = createFolder();
  const backUp = async () =>
    (await ask<{ file: string }>(world, 'backup', {}, world.file, { BACKUP_DIR: folder })).file;
  const first = await backUp();
  const others = Array.from({ length: 6 }, (_, n) => first.replace('.db', `-${n}.db`));
  for (const file of others) writeFileSync(file, '');
  world.now += 1_000;
  const newest = await backUp();
  expect(readdirSync(folder).map((name) => join(folder, name))).toEqual([...others.slice(1), first, newest]);
  await world.accept({ cursor: 9 });
  const { old } = (await restored(world, newest)) as { old: string };
  const counts = [world.file, old].map((file) => createWorld([], file).count('select count(*) from events'));
  expect(counts).toEqual([3, 4]);
});

test('a store comes back with what only its log held, and an interrupted restore lets no kit start', async () => {
  const world = await worldOf();
  const reader = new Database(world.file);
  onTestFinished(() => void reader.close());
  reader.exec('begin; select * from events');
  await world.accept({ cursor: 9 });
  const there = createWorld([], join(createFolder(), 'events.db'));
  await restored(there, world.file);
  expect(createWorld([], there.file).count('select count(*) from events')).toBe(4);
  writeFileSync(`${there.file}-restoring`, '');
  expect(() => takeStore(there.file)).toThrow('run npx kit restore again');
});

test('a damaged backup is refused, and the store stays as it is', async () => {
  const world = await worldOf();
  const damaged = join(createFolder(), 'damaged.db');
  writeFileSync(damaged, 'no database, but long enough to be looked at');
  await expect(restored(world, damaged)).rejects.toThrow();
  expect(world.count('select count(*) from events')).toBe(3);
});

test('causes group the errors of a handler by their first line', async () => {
  const world = await worldOf();
  world.store.db.raw.exec(`update tasks set state = 3, error = 'boom' || char(10) || event where event < 3;
    update tasks set failed_at = 5, error = 'slow' where event = 3`);
  const [boom, slow] = [
    { state: 'dead', error: 'boom', tasks: 2 },
    { state: 'waiting', error: 'slow', tasks: 1 },
  ];
  expect(await ask(world, 'tasks', { causes: true })).toMatchObject([boom, slow]);
  expect(await ask(world, 'tasks', { causes: true, handler: 'h', state: 'dead' })).toMatchObject([boom]);
});

test('charts show what came in each quarter of an hour, also after pruning', async () => {
  const world = await worldOf();
  const sum = { duplicates: 0, refused: 0, failed: 0, waiting: 3, dead: 0 };
  for (const [minutes, events, done] of [
    [0, 0, 0],
    [7, 3, 0],
    [15, 10, 4],
    [30, 11, 2],
  ] as const) {
    world.now = 3_600_000 + minutes * 60_000;
    const values = '@at, @events, @duplicates, @refused, @done, @failed, @waiting, @dead';
    await world.people.run(`insert into samples values (${values})`, { at: world.now, ...sum, events, done });
  }
  const { charts } = await ask<{ charts: unknown[] }>(world, 'status', { charts: true });
  expect(charts).toMatchObject([
    { at: '1970-01-01T01:15:00.000Z', events: 10, done: 4, waiting: 3 },
    { at: '1970-01-01T01:30:00.000Z', events: 1, done: 0, waiting: 3 },
  ]);
});

/** Answers what `status` says, by the path. */
async function serve(status: (request: IncomingMessage) => number): Promise<string> {
  const server = createServer((request, response) => {
    request.resume().on('end', () => response.writeHead(status(request)).end('{"events":[],"has_more":false}'));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => void server.close());
  return `http://localhost:${(server.address() as AddressInfo).port}`;
}

test('the doctor tells what is right, what is wrong, and what is not set', async () => {
  const world = await worldOf();
  const url = await serve(({ url: path = '' }) =>
    path.startsWith('/proxy') ? 401 : path.startsWith('/alerts') ? 500 : 204,
  );
  const env = {
    WEBHOOK_SECRET: 'whsec_x',
    PORT: new URL(url).port,
    PUBLIC_URL: `${url}/proxy`,
    ALERT_URL: `${url}/alerts`,
  };
  const rows = await ask<{ check: string; state: string; text: string }[]>(world, 'doctor', {}, world.file, env);
  expect(rows.map(({ check, state }) => `${check} ${state}`)).toEqual([
    'status ok',
    'store ok',
    'receiver ok',
    'public address fault',
    'service warning',
    'alerts fault',
  ]);
  expect(rows[3]?.text).toMatch(/^the proxy changes/);
});
