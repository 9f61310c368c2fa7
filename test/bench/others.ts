// What teams write instead of the kit, in the same run: how many deliveries a second, and what a kill, a duplicate, a
// failure and a late arrival do to it.
import { execFileSync, spawn, type ChildProcess } from 'node:child_process';
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Client } from 'pg';
import { freePort } from '../../src/tools/sandbox.ts';
import { deliver, SECRET, startKit, textOf, until, type Kit } from '../harness.ts';
import { startServer } from '../postgres/server.ts';
import { drive, startBenched } from './measure.ts';

const OTHERS = join(import.meta.dirname, 'others');
/** By what each stores in. */
export const NAMES = {
  'koa.mjs': 'nothing',
  'http.mjs': 'file',
  'express.mjs': 'file',
  'bullmq.mjs': 'redis',
  'pg-boss.mjs': 'postgres',
  'graphile.mjs': 'postgres',
} as const;
export type Name = keyof typeof NAMES;

const KILL = { deliveries: 4_000, atATime: 64, killedAt: 2_000 };
const TWICE = 100;
/** Conversations of five events each. */
const TALKS = { count: 20, events: 5 };
const APART_MS = 50;
const SETTLED_MS = 5_000;
const RETRIED_MS = 20_000;
/** BullMQ looks for jobs of a dead worker each 30 s, twice; graphile-worker only after four hours. */
const AFTER_KILL_MS = 75_000;
const LIMIT_MS = 60_000;

/** It writes the cursor of each event that it has ended. Events that say so fail once. */
const HANDLER = `import { appendFileSync } from 'node:fs';
const failed = new Set();
export default { on: '*', handle({ cursor, data }) {
  if (data.fails && !failed.has(cursor)) { failed.add(cursor); throw new Error('once'); }
  appendFileSync(process.env.FOLDER + '/lines', cursor + '\\n');
} };`;

export type Rival = Pick<Kit, 'url' | 'folder' | 'pids' | 'output' | 'lines' | 'kill'> & {
  start: () => Promise<unknown>;
  stop: () => unknown;
};
export type Servers = { postgres: string; redis: number };
export interface Seen {
  rate: number;
  unhandled: number;
  doubled: number;
  overtaken: number;
  late: number;
}

/** PostgreSQL from npm, and the machine's own Redis, both with synced writes. */
export async function startServers(): Promise<Servers & { stop: () => Promise<void> }> {
  if (!existsSync(join(OTHERS, 'node_modules'))) execFileSync('npm', ['ci'], { cwd: OTHERS, stdio: 'inherit' });
  const server = await startServer({ safe: true });
  const [folder, redis] = [mkdtempSync(join(tmpdir(), 'kit-redis-')), await freePort()];
  const flags = [
    '--port',
    String(redis),
    '--dir',
    folder,
    '--appendonly',
    'yes',
    '--appendfsync',
    'always',
    '--save',
    '',
  ];
  const child = spawn('redis-server', flags, { stdio: 'ignore' }).on('error', () =>
    console.error('there is no redis-server: BullMQ cannot be measured'),
  );
  return {
    ...{ postgres: server.url, redis },
    stop: async () => {
      child.kill('SIGKILL');
      await server.stop();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

let databases = 0;

/** `lines`: it writes what it has ended, which the kit's own handler does, too. */
export async function startRival(name: Name, servers: Servers, lines = false): Promise<Rival> {
  const [folder, port, database] = [mkdtempSync(join(tmpdir(), 'kit-other-')), await freePort(), `other${++databases}`];
  if (NAMES[name] === 'postgres') {
    const client = new Client({ connectionString: servers.postgres });
    await client.connect();
    await client.query(`create database ${database}`);
    await client.end();
  }
  if (NAMES[name] === 'redis')
    execFileSync('redis-cli', ['-p', String(servers.redis), 'flushall'], { stdio: 'ignore' });
  const own = {
    PORT: String(port),
    FOLDER: folder,
    SECRET,
    REDIS_PORT: String(servers.redis),
    ...(lines && { LINES: '1' }),
  };
  const env = { ...process.env, ...own, DATABASE_URL: servers.postgres.replace(/[^/]+$/, database) };
  let child: ChildProcess | undefined;
  let output = '';
  const start = async (): Promise<void> => {
    const begun = spawn(process.execPath, [join(OTHERS, name)], { env });
    child = begun;
    for (const stream of [begun.stdout, begun.stderr]) stream.on('data', (part: Buffer) => (output += part.toString()));
    await until(`${name} to be ready`, () => {
      if (begun.exitCode !== null) throw new Error(`${name} has ended: ${output}`);
      return fetch(`http://127.0.0.1:${port}`, { method: 'POST' }).then(
        () => true,
        () => false,
      );
    });
  };
  const kill = async (): Promise<void> => {
    child?.kill('SIGKILL');
    await until('it to end', () => child?.signalCode !== null);
  };
  await start();
  return {
    ...{ url: `http://127.0.0.1:${port}/webhooks`, folder, start, kill },
    pids: () => [child?.pid ?? 0],
    output: () => output,
    lines: () => textOf(join(folder, 'lines')).split('\n').slice(0, -1),
    stop: async () => {
      await kill();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

/** Accepted and handled a second, with 64 connections. */
export async function rateOf(name: Name | undefined, servers: Servers, count: number): Promise<number> {
  const rival = name ? await startRival(name, servers) : await startBenched('second');
  const { rate } = await drive(rival as Kit, { count }).finally(() => rival.stop());
  return rate;
}

/** How many events are not handled 75 s after a kill, handled twice, and handled after a later one of their conversation. */
export async function behaviourOf(name: Name | undefined, servers: Servers): Promise<Omit<Seen, 'rate'>> {
  const rival = name ? await startRival(name, servers, true) : await startKit({ handlers: { 'one.js': HANDLER } });
  try {
    const unhandled = await leftBy(rival);
    const doubled = await doubledBy(rival);
    const overtaken = await misorderedBy(rival, 10_000, (at) => at === 0, sameOrder);
    const late = await misorderedBy(rival, 20_000, () => false, swapped);
    return { unhandled, doubled, overtaken, late };
  } finally {
    await rival.stop();
  }
}

const eventOf = (cursor: number, from: string, fails = false) => ({
  id: `event-${cursor}`,
  type: 'Thing',
  cursor: String(cursor),
  session_id: 'session',
  data: { from, timestamp_unix_ms: Date.now(), ...(fails && { fails }) },
});

/** Waits until what it handles has not grown for a while. */
async function settled(rival: Rival, forMs = SETTLED_MS): Promise<string[]> {
  for (let before = -1, since = performance.now(); performance.now() - since < forMs; await sleep(100)) {
    const now = rival.lines().length;
    if (now !== before) since = performance.now();
    before = now;
  }
  return rival.lines();
}

async function leftBy(rival: Rival): Promise<number> {
  const accepted: number[] = [];
  let next = 0;
  const send = async (): Promise<void> => {
    while (next < KILL.deliveries) {
      const cursor = ++next;
      const status = await deliver(rival.url, eventOf(cursor, `1555${cursor % 100}`)).catch(() => 0);
      if (status === 204) accepted.push(cursor);
      if (status === 0) return;
    }
  };
  const sending = Promise.all(Array.from({ length: KILL.atATime }, send));
  await until('half of them to be accepted', () => accepted.length >= KILL.killedAt, LIMIT_MS);
  await rival.kill();
  await sending;
  await rival.start();
  const handled = new Set((await settled(rival, AFTER_KILL_MS)).map(Number));
  return accepted.filter((cursor) => !handled.has(cursor)).length;
}

/** The duplicate comes when the first one is handled. */
async function doubledBy(rival: Rival): Promise<number> {
  const events = Array.from({ length: TWICE }, (_, n) => eventOf(5_000 + n, `1666${n}`));
  for (const event of [...events, ...events]) await deliver(rival.url, event);
  const lines = await settled(rival);
  return events.filter(({ cursor }) => lines.filter((line) => line === cursor).length > 1).length;
}

const sameOrder = (at: number): number => at;
const swapped = (at: number): number => (at % 2 === 0 && at + 1 < TALKS.events ? at + 1 : at % 2 === 0 ? at : at - 1);

/** How many events ended after one that comes later in their conversation. */
async function misorderedBy(
  rival: Rival,
  first: number,
  fails: (at: number) => boolean,
  place: (at: number) => number,
): Promise<number> {
  const cursorOf = (talk: number, at: number): number => first + talk * TALKS.events + at;
  for (let at = 0; at < TALKS.events; at++) {
    const those = Array.from({ length: TALKS.count }, (_, talk) => cursorOf(talk, place(at)));
    await Promise.all(
      those.map((cursor, talk) => deliver(rival.url, eventOf(cursor, `${first}${talk}`, fails(place(at))))),
    );
    await sleep(APART_MS);
  }
  const ended = (await settled(rival, RETRIED_MS)).map(Number);
  let misordered = 0;
  for (let talk = 0; talk < TALKS.count; talk++) {
    const of = ended.filter((cursor) => cursor >= cursorOf(talk, 0) && cursor < cursorOf(talk + 1, 0));
    if (new Set(of).size < TALKS.events) throw new Error(`not all events of a conversation were handled: ${of.join()}`);
    misordered += of.filter((cursor, n) => of.slice(0, n).some((before) => before > cursor)).length;
  }
  return misordered;
}
