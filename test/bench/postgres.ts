// The part `postgres`: the kit on PostgreSQL beside the kit on SQLite, and beside a server that inserts one row each.
// The database server runs on the same machine, and syncs every commit.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { Client } from 'pg';
import { openPostgres } from '../../src/store/postgres/open.ts';
import { inSchema } from '../../src/tools/own-schema.ts';
import { installServer } from '../postgres/install.ts';
import { createProxy } from '../postgres/proxy.ts';
import { startServer, type Server as Database } from '../postgres/server.ts';
import type { Accepting } from './accepting.ts';
import { drive, type Wanted } from './drive.ts';
import { median, round2, type Part, type PartOptions, type Row } from './parts.ts';
import { cpuMsOf, startKit, startRival, type Server } from './servers.ts';

/** Milliseconds between a receiver and the server, there and back. */
const FAR_MS = 4;
const FAR_COUNT = 40_000;
const IN_FLIGHT = 64;
const PAST = 3_000_000;
const DURABLE = ['fsync=on', 'full_page_writes=on', 'max_wal_size=4GB', 'shared_buffers=1GB'];

interface Measured {
  rate: number;
  cpuUs?: number;
  serverUs?: number;
  bytes?: number;
  commits?: number;
}

interface Case {
  name: string;
  measure: () => Promise<Measured>;
  /** The case that this one is compared with. */
  beside?: string;
}

/** Measures every case in each round. `÷` is the median of the rounds' quotients. */
export async function postgres({ folder, rounds, events, progress }: PartOptions): Promise<Part> {
  await installServer('leave this part out');
  const database = await startServer(DURABLE);
  const client = new Client({ connectionString: database.url });
  await client.connect();
  let places = 0;

  async function measured(start: () => Promise<Server>, wanted: Wanted): Promise<Measured> {
    const server = await start();
    const before = await usedBy(database, client);
    const { warm = 4_000 } = wanted;
    const { rate, cpuUs } = await drive(server, { ...wanted, warm });
    const after = await usedBy(database, client);
    await server.stop();
    const each = (of: keyof typeof after): number => (after[of] - before[of]) / (wanted.count + warm);
    return { rate, cpuUs, serverUs: each('cpuUs'), bytes: each('bytes'), commits: each('commits') };
  }

  const kit = (schema: string, wanted: Partial<Wanted> = {}, server = database.url) => {
    const url = inSchema(server, schema);
    const start = () => startKit({ folder: join(folder, `pg-${places++}`), env: { DATABASE_URL: url } });
    return measured(start, { count: events, ...wanted });
  };
  /** Measures through a network. */
  const away = async (ms: number, measure: (url: string) => Promise<Measured>): Promise<Measured> => {
    const proxy = await createProxy(database.url);
    proxy.delay(ms / 2);
    return measure(proxy.url).finally(() => proxy.close());
  };
  /** Handlers that insert a row with `ctx.complete`. */
  const completing = (server: string, count: number): Promise<Measured> => {
    const url = inSchema(server, `kit_${places}`);
    const start = () =>
      startKit({ folder: join(folder, `pg-${places++}`), env: { DATABASE_URL: url }, completes: true });
    return measured(start, { count, warm: 500 });
  };
  const inserting = async (server: string): Promise<Measured> => {
    await client.query('drop table if exists events');
    return measured(() => startRival('inserts', server), { count: Math.round(events / 5) });
  };
  const big = inSchema(database.url, 'kit_past');
  let bigFirst = PAST;
  const cases: Case[] = [
    {
      name: 'the kit on SQLite',
      async measure() {
        const server = await startKit({ folder: join(folder, `sqlite-${places++}`) });
        const { rate, cpuUs } = await drive(server, { count: events });
        await server.stop();
        return { rate, cpuUs };
      },
    },
    { name: 'the kit on PostgreSQL', measure: () => kit(`kit_${places}`), beside: 'the kit on SQLite' },
    {
      name: 'node:http, one synced INSERT each',
      measure: () => inserting(database.url),
      beside: 'the kit on PostgreSQL',
    },
    {
      name: 'PostgreSQL, 16 lanes',
      measure: () => kit(`kit_${places}`, { lanes: 16 }),
      beside: 'the kit on PostgreSQL',
    },
    {
      name: 'PostgreSQL, 3 million stored events',
      measure: () => kit('kit_past', { first: (bigFirst += events + 4_000) }),
      beside: 'the kit on PostgreSQL',
    },
    {
      name: 'PostgreSQL, ctx.complete with an INSERT',
      measure: () => completing(database.url, Math.round(events / 20)),
      beside: 'the kit on PostgreSQL',
    },
    { name: 'PostgreSQL, ctx.complete, 2 ms away', measure: () => away(2, (url) => completing(url, 1_000)) },
    {
      name: `the kit on PostgreSQL, ${FAR_MS} ms away`,
      measure: () => away(FAR_MS, (url) => kit(`kit_${places}`, {}, url)),
    },
    {
      name: `node:http, one synced INSERT each, ${FAR_MS} ms away`,
      measure: () => away(FAR_MS, inserting),
      beside: `the kit on PostgreSQL, ${FAR_MS} ms away`,
    },
    { name: `accepting, ${FAR_MS} ms away, one receiver`, measure: () => far(database.url, 1, `kit_${places++}`) },
    {
      name: `accepting, ${FAR_MS} ms away, two receivers`,
      measure: () => far(database.url, 2, `kit_${places++}`),
      beside: `accepting, ${FAR_MS} ms away, one receiver`,
    },
  ];

  try {
    await fill(big, client, progress);
    const seen = new Map(cases.map(({ name }) => [name, [] as Measured[]]));
    for (let round = 1; round <= rounds; round++)
      for (const { name, measure } of cases) {
        const one = await measure();
        seen.get(name)?.push(one);
        progress(`round ${round}: ${name}: ${Math.round(one.rate)}/s`);
        await client.query('checkpoint');
      }
    const rows = cases.map(({ name, beside }): Row => {
      const all = seen.get(name) ?? [];
      const others = seen.get(beside ?? name) ?? [];
      const of = (field: keyof Measured, round: (value: number) => number): number | null =>
        all[0]?.[field] === undefined ? null : round(median(all.map((one) => one[field] ?? NaN)));
      return {
        measured: name,
        'a second': of('rate', Math.round),
        '÷': beside ? round2(median(all.map(({ rate }, n) => rate / (others[n]?.rate ?? NaN)))) : null,
        beside: beside ?? '',
        'CPU µs each': of('cpuUs', Math.round),
        'server CPU µs each': of('serverUs', Math.round),
        'log bytes each': of('bytes', Math.round),
        'commits each': of('commits', round2),
      };
    });
    const note = `Medians of ${rounds} rounds of ${events} events, 64 connections, PostgreSQL on the same machine; away: through a proxy. One INSERT each: with a pool of 10. Accepting: the store alone, ${IN_FLIGHT} deliveries in flight for each receiver.`;
    return { title: 'PostgreSQL', note, rows };
  } finally {
    await client.end();
    await database.stop();
  }
}

/** What the server has used up so far. Statistics of commits are a second late. */
async function usedBy(database: Database, client: Client): Promise<{ cpuUs: number; bytes: number; commits: number }> {
  await sleep(1_500);
  const { rows } = await client.query<{ bytes: string; commits: string }>(
    `select pg_current_wal_lsn() - '0/0' as bytes, (select sum(xact_commit) from pg_stat_database) as commits`,
  );
  const { bytes = 0, commits = 0 } = rows[0] ?? {};
  return { cpuUs: cpuMsOf(database.pid()) * 1_000, bytes: Number(bytes), commits: Number(commits) };
}

/** Receivers far from the server, each in a process of its own. The rate is that of all together. */
async function far(server: string, receivers: number, schema: string): Promise<Measured> {
  openPostgres(inSchema(server, schema), { owner: true }).close();
  const proxy = await createProxy(server);
  proxy.delay(FAR_MS / 2);
  const url = inSchema(proxy.url, schema);
  const all = Array.from({ length: receivers }, (_, n) => {
    const given: Accepting = { url, count: FAR_COUNT, inFlight: IN_FLIGHT, first: n * 10 * FAR_COUNT };
    return spawn(process.execPath, ['test/bench/accepting.ts', JSON.stringify(given)], {
      stdio: ['pipe', 'pipe', 'inherit'],
    });
  });
  const lines = all.map((one) => createInterface({ input: one.stdout })[Symbol.asyncIterator]());
  for (const line of lines) await line.next();
  const began = performance.now();
  for (const one of all) one.stdin.write('go\n');
  await Promise.all(all.map((one) => once(one, 'exit')));
  const seconds = (performance.now() - began) / 1000;
  if (all.some(({ exitCode }) => exitCode !== 0)) throw new Error('a receiver failed');
  proxy.close();
  return { rate: (receivers * FAR_COUNT) / seconds };
}

/** Fills a store with past events, all handled, in ten steps. */
async function fill(url: string, client: Client, progress: (line: string) => void): Promise<void> {
  const store = openPostgres(url, { owner: true });
  await store.work.register(['noting']);
  store.close();
  const tenth = PAST / 10;
  const body = Buffer.from(JSON.stringify({ data: { MessageReceived: { body: 'x'.repeat(300) } } }));
  await client.query('set search_path = kit_past');
  await client.query(`insert into lanes (id, handler, name) values (1000000, 1, 'past')`);
  for (let from = 1; from <= PAST; from += tenth) {
    const values = [from, from + tenth - 1, Date.now() - 3_600_000];
    await client.query(
      `insert into events (seq, cursor, id, type, session_id, created_at, received_at, origin, body)
       select n, n, gen_random_uuid()::text, 'MessageReceived', '00000000-0000-4000-8000-000000000000', $3::bigint, $3::bigint, 'webhook', $4
       from generate_series($1::bigint, $2::bigint) n`,
      [...values, body],
    );
    await client.query(
      `insert into tasks (id, event, handler, lane, alone, cursor, state, strict, release_at, due_at, attempts, started_at, changed_at)
       select n * 4096 + 1, n, 1, 1000000, 0, n, 'done', 0, $3::bigint, $3::bigint, 1, $3::bigint, $3::bigint
       from generate_series($1::bigint, $2::bigint) n`,
      values,
    );
    progress(`  ${(from + tenth - 1) / 1e6} of ${PAST / 1e6} million events written`);
  }
  await client.query(`insert into counters values ('events', ${PAST}), ('tasks.done', ${PAST})
    on conflict (name) do update set value = counters.value + excluded.value`);
  await client.query(`update state set value = '${PAST}' where name = 'fanned_out'`);
  await client.query(`select setval('event_seq', ${PAST})`);
  await client.query('vacuum analyze');
  await client.query('reset search_path');
}
