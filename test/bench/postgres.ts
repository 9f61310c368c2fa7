// The kit on PostgreSQL: beside SQLite, two instances beside one, with a past, and while an instance or the server goes.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createServer, connect, type Socket } from 'node:net';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { Client } from 'pg';
import { freePort } from '../../src/tools/sandbox.ts';
import { deliver, SECRET, startKit, until, type Kit } from '../harness.ts';
import { startServer } from '../postgres/server.ts';
import type { Load } from './load.ts';
import { drive, seenBy, startBenched } from './measure.ts';
import { rateOf as rateOfOther } from './others.ts';

type Server = Awaited<ReturnType<typeof startServer>>;
export type Figure = { what: string; values: number[]; wanted: string };

/** Milliseconds to the server and back, as in another zone of a cloud. */
const AWAY_MS = 4;
const SLOW_MS = 5;
const PAST = 3_000_000;
const CHUNK = 100_000;
/** Events that wait before the instances begin to handle them. */
const BACKLOG = 5_000;
const WAITING = 6;
const DELIVERIES = { apartMs: 5, count: 2_000, restartAt: 800 };
/** A task that lasts until its kit ends. It writes when and where it began. */
const HOLDING = `import { appendFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
export default { on: '*', order: 'arrival', lane: 'none', timeoutMs: 600_000, async handle({ key }, { signal }) {
  appendFileSync(process.env.FOLDER + '/lines', key + ' ' + Date.now() + '\\n');
  await sleep(600_000, undefined, { signal });
} };`;

export async function postgres({ rounds, events }: { rounds: number; events: number }): Promise<Figure[]> {
  const server = await startServer({ safe: true });
  let schemas = 0;
  const addressOf = (url = server.url): string => `${url}?schema=bench${++schemas}`;
  const full = addressOf();
  const ratios = { store: [] as number[], instances: [] as number[], growth: [] as number[], other: [] as number[] };
  try {
    const away = await startAway(server.url);
    await fill(full);
    for (let round = 0; round < rounds; round++) {
      const first = PAST + round * events * 2;
      const [file, empty] = [await rateOf(undefined, events), await rateOf(addressOf(), events)];
      const filled = await rateOf(full, events, first);
      const [one, two] = [await rateOfAll(addressOf(away), 1), await rateOfAll(addressOf(away), 2)];
      const other = await rateOfOther('graphile.mjs', { postgres: server.url, redis: 0 }, events);
      console.error(`round ${round + 1}: ${JSON.stringify({ file, empty, filled, one, two, other })}`);
      ratios.other.push(empty / other);
      ratios.store.push(empty / file);
      ratios.growth.push(filled / empty);
      ratios.instances.push(two / one);
    }
    const [killed, stopped] = [await handOver(addressOf(), 'kill'), await handOver(addressOf(), 'stop')];
    const { longest, refused } = await restarted(server, addressOf());
    return [
      { what: 'PostgreSQL: rate of that on SQLite, 64 connections', values: ratios.store, wanted: '≥ 0.5' },
      {
        what: 'two instances: rate of that of one, handlers of 5 ms, 4 ms away',
        values: ratios.instances,
        wanted: '≥ 1.7',
      },
      { what: 'three million stored events: of the empty rate', values: ratios.growth, wanted: '≥ 0.9' },
      { what: 'rate of that of Koa with graphile-worker, on the same server', values: ratios.other, wanted: '≥ 1.5' },
      { what: 'an instance is killed: ms until its tasks are at work elsewhere', values: [killed], wanted: '≤ 15000' },
      { what: 'an instance stops: ms until its tasks are at work elsewhere', values: [stopped], wanted: '≤ 1000' },
      { what: 'the server restarts under 200/s: longest answer, ms', values: [longest], wanted: '≤ 8000' },
      { what: 'the server restarts under 200/s: answers that are no 2xx', values: [refused], wanted: '≤ 0' },
    ];
  } finally {
    await server.stop();
  }
}

async function rateOf(url: string | undefined, count: number, first = 0): Promise<number> {
  const kit = await startBenched('second', '', 0, url && { DATABASE_URL: url });
  const { rate } = await drive(kit, { count, first });
  await kit.stop();
  return rate;
}

/** Events a second that so many instances handle, after each has taken its share of the deliveries. */
async function rateOfAll(url: string, instances: number): Promise<number> {
  const kits: Kit[] = [];
  const env = { DATABASE_URL: url, RUN_CONCURRENCY: '8' };
  while (kits.length < instances) kits.push(await startBenched('second', '', SLOW_MS, env));
  const share = { warm: 500, count: BACKLOG / instances, connections: 64 / instances };
  const senders = kits.map((kit, n) => {
    const port = Number(new URL(kit.url).port);
    const load: Load = { ...share, rate: null, lanes: 10_000, first: n * BACKLOG, port, secret: SECRET };
    return spawn(process.execPath, [join(import.meta.dirname, 'load.ts'), JSON.stringify(load)]);
  });
  const each = (): number[] => kits.map((kit) => seenBy(kit)[0] ?? 0);
  const handled = (): number => each().reduce((sum, n) => sum + n, 0);
  await Promise.all(senders.map(({ stdout }) => once(createInterface({ input: stdout }), 'line')));
  await until('the warm-up to be handled', () => handled() >= instances * share.warm, 120_000);
  const [before, eachBefore] = [handled(), each()];
  await ask(kits, 'pause');
  for (const { stdin } of senders) stdin.write('go\n');
  await Promise.all(senders.map((sender) => once(sender, 'exit')));
  await ask(kits, 'resume');
  // One that was not asked itself notices within a second.
  await until('each to begin', () => each().every((n, kit) => n > (eachBefore[kit] ?? 0)), 10_000);
  const [begun, since] = [handled(), performance.now()];
  await until('all to be handled', () => handled() - before >= BACKLOG, 600_000);
  const rate = ((before + BACKLOG - begun) * 1_000) / (performance.now() - since);
  await Promise.all(kits.map((kit) => kit.stop()));
  return rate;
}

async function ask([kit]: Kit[], operation: 'pause' | 'resume'): Promise<void> {
  const headers = { 'content-type': 'application/json' };
  const body = JSON.stringify({ handler: 'noting' });
  await fetch(`${kit?.opsUrl}/api/${operation}`, { method: 'POST', headers, body });
}

/** A server whose every byte takes half of AWAY_MS to and from the other one. */
async function startAway(url: string): Promise<string> {
  const [there, port] = [new URL(url), await freePort()];
  const later = (from: Socket, to: Socket): void => {
    from.on('data', (chunk) => setTimeout(() => to.write(chunk), AWAY_MS / 2));
    from.on('close', () => setTimeout(() => to.destroy(), AWAY_MS / 2)).on('error', () => {});
  };
  const proxy = createServer({ noDelay: true }, (client) => {
    const other = connect({ port: Number(new URL(url).port), host: there.hostname, noDelay: true });
    later(client, other);
    later(other, client);
  });
  await once(proxy.listen(port, '127.0.0.1').unref(), 'listening');
  there.port = String(port);
  return there.href;
}

/** Past events, all handled. */
async function fill(url: string): Promise<void> {
  const kit = await startBenched('second', '', 0, { DATABASE_URL: url });
  await until('its handler to be registered', async () => (await kit.status()).handlers.length > 0);
  await kit.stop();
  const schema = new URL(url).searchParams.get('schema');
  const client = new Client({
    connectionString: url.split('?')[0],
    options: `-c search_path=${schema} -c synchronous_commit=off`,
  });
  await client.connect();
  const body = JSON.stringify({ data: { MessageReceived: { body: 'x'.repeat(300) } } });
  for (let from = 1; from <= PAST; from += CHUNK) {
    if (from % (10 * CHUNK) === 1) console.error(`filling PostgreSQL: ${from - 1} of ${PAST} events`);
    const n = `generate_series(${from}, ${from + CHUNK - 1}) n`;
    await client.query(`insert into events (seq, cursor, id, type, session, created_at, received_at, origin, origins, body)
      overriding system value select n, 100000000 + n, substr(encode(sha256(n::text::bytea), 'hex'), 1, 36), 'MessageReceived', 's', ${Date.now()},
        ${Date.now()}, 1, 1, '${body}' from ${n}`);
    await client.query(`insert into tasks (event, handler, lane, cursor, state, due_at, ended_at)
      select n, 1, 1 + n % 100000, 100000000 + n, 1, 0, 1 from ${n}`);
  }
  await client.query(`select setval(pg_get_serial_sequence('events', 'seq'), ${PAST})`);
  await client.query(`update handlers set position = ${PAST}, done = ${PAST}`);
  // Otherwise the rounds would pay for what was written here.
  await client.query('vacuum analyze');
  await client.query('checkpoint');
  await client.end();
}

/** Milliseconds from the end of one of two instances until all tasks that it was running have begun at the other. */
async function handOver(url: string, how: 'kill' | 'stop'): Promise<number> {
  const options = { handlers: { 'holding.js': HOLDING }, env: { DATABASE_URL: url } };
  const [doomed, other] = [await startKit(options), await startKit(options)];
  for (let n = 0; n < WAITING; n++) await deliver(n % 2 ? doomed.url : other.url, { cursor: String(n), type: 'Thing' });
  await until('all to begin', () => doomed.lines().length + other.lines().length >= WAITING);
  const held = new Set(doomed.lines().map((line) => line.split(' ')[0]));
  // Signs of life are judged by one that has given its own for ten seconds.
  await sleep(12_000);
  const since = Date.now();
  const ended = how === 'kill' ? doomed.kill() : doomed.stop();
  const begun = (): number[] =>
    other.lines().flatMap((line) => {
      const [key, at] = line.split(' ');
      return held.has(key) ? Number(at) : [];
    });
  await until('its tasks to begin elsewhere', () => begun().length >= held.size);
  const took = Math.max(...begun()) - since;
  await ended;
  await Promise.all([other.stop(), how === 'kill' && doomed.stop()]);
  console.error(`${how}: ${held.size} tasks after ${took} ms`);
  return took;
}

async function restarted({ restart }: Server, url: string): Promise<{ longest: number; refused: number }> {
  const kit = await startBenched('second', '', 0, { DATABASE_URL: url });
  const seen = { longest: 0, refused: 0 };
  const sending: Promise<void>[] = [];
  const send = async (n: number): Promise<void> => {
    const since = performance.now();
    const status = await deliver(kit.url, { cursor: String(n), type: 'Thing' }).catch(() => 0);
    seen.longest = Math.max(seen.longest, performance.now() - since);
    if (status !== 204) seen.refused++;
  };
  let restarting: Promise<void> | undefined;
  for (let n = 1; n <= DELIVERIES.count; n++) {
    sending.push(send(n));
    if (n === DELIVERIES.restartAt) restarting = restart();
    await sleep(DELIVERIES.apartMs);
  }
  await Promise.all([restarting, ...sending]);
  await until('all to be handled', () => seenBy(kit)[0] >= DELIVERIES.count);
  await kit.stop();
  return seen;
}
