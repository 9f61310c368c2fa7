// Plans are made while a store is small, and kept. A plan that reads whole tables would make each delivery slower.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test, vi } from 'vitest';
import type { Store } from '../../src/store/store.ts';
import { createDesk, event, range, T0 } from '../store-contract/harness.ts';
import { kind as postgres } from './kind.ts';
import { schemaOf } from './pool.ts';

const ROUNDS = 40;
const EACH = 50;

test('no statement that accepts, claims or settles reads a large table as a whole', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'kit-plans-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const path = join(folder, 'events.db');
  const store = postgres.open(path, { owner: true });
  const desk = await createDesk(store);
  const { exec, query } = postgres.queries(path);
  // The server would make new plans when it has looked at the tables.
  for (const table of ['events', 'tasks', 'lanes']) exec(`alter table ${table} set (autovacuum_enabled = off)`);
  for (let round = 0; round < ROUNDS; round++) {
    const cursors = range(round * EACH + 1, (round + 1) * EACH);
    const readings = cursors.map((cursor) => event(String(cursor), `lane-${cursor % 300}`));
    await store.ingest.accept({ readings, now: desk.now });
    await store.ingest.accept({ readings, now: desk.now });
    await desk.fanOut();
    await desk.workOff();
  }
  // A server process counts what it has read when it ends.
  store.close();
  const read = (table: string) =>
    query<{ rows: number; seen: number }>(
      `select n_tup_ins as rows, coalesce(seq_tup_read, 0) as seen from pg_stat_user_tables
       where schemaname = ? and relname = ?`,
      schemaOf(path),
      table,
    )[0];
  for (const table of ['events', 'tasks']) {
    await vi.waitFor(() => expect(read(table)?.rows).toBe(ROUNDS * EACH), { timeout: 20_000, interval: 100 });
    expect(read(table)?.seen, table).toBeLessThan(2 * ROUNDS * EACH);
  }
});

const BACKLOG = 30_000;
const LATER = T0 + 3_600_000;

test.each(['kept', 'new'])('with a backlog, %s plans find the few tasks that they look for', async (plans) => {
  const folder = mkdtempSync(join(tmpdir(), 'kit-plans-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const path = join(folder, 'events.db');
  const { exec, query } = postgres.queries(path);
  const figure = (sql: string): number => query<{ n: number }>(sql, schemaOf(path))[0]?.n ?? 0;
  const made = () =>
    figure(`select n_tup_ins as n from pg_stat_user_tables where schemaname = ? and relname = 'events'`);
  const read = () =>
    figure(
      `select cast(sum(idx_tup_read) as int) as n from pg_stat_user_indexes where schemaname = ? and relname = 'tasks'`,
    );
  // Tests use the same schemas one after another.
  const before = { made: made(), read: read() };
  const store = postgres.open(path, { owner: true });
  const handlers = await store.work.register(['laned', 'single', 'few']);
  const look = async (at: Store): Promise<void> => {
    const turn = { now: T0, boot: 1, settle: [], fanOut: null, room: 10, handlers: [...handlers.values()] };
    expect(await at.processes.isolatedDue(T0, [...handlers.keys()])).toBe(false);
    expect((await at.work.turn(turn)).claims).toEqual([]);
    await at.read.events({ limit: 50 }, T0);
  };
  // After the fifth time, the server keeps its plans.
  for (let n = 0; n < 6; n++) await look(store);

  const idOf = (name: string): number => handlers.get(name) ?? 0;
  exec('alter table tasks set (autovacuum_enabled = off)');
  exec(`insert into lanes (id, handler, name) select n, ${idOf('laned')}, 'lane ' || n from generate_series(1, 100) n`);
  exec(`insert into lane_progress (lane, used_at) select id, ${T0} from lanes`);
  exec(`insert into events (seq, cursor, id, type, session_id, created_at, received_at, origin, body)
    select n, n, 'e' || n, 'MessageReceived', '00000000-0000-4000-8000-000000000000', ${T0}, ${T0}, 'webhook', '' from generate_series(1, ${BACKLOG}) n`);
  for (const [name, lane] of Object.entries({ laned: '1 + seq % 100', single: 'null' }))
    exec(`insert into tasks (id, event, handler, lane, alone, cursor, state, strict, release_at, due_at, hold_until, attempts, started_at, changed_at)
      select seq * 4096 + ${idOf(name)}, seq, ${idOf(name)}, ${lane}, ${lane === 'null' ? 1 : 0}, cursor, 'ready', 0, ${T0}, ${LATER}, ${LATER}, 1, ${T0}, ${T0} from events`);
  exec(`update state set value = '${BACKLOG}' where name = 'fanned_out'; select setval('event_seq', ${BACKLOG})`);
  if (plans === 'new') exec('analyze events, tasks');
  const asked = plans === 'new' ? postgres.open(path, { owner: true }) : store;
  await look(asked);
  // A list of a handler's tasks looks through 10,000 tasks.
  if (plans === 'new') expect((await asked.read.tasks({ handler: 'few', limit: 50 }, T0)).tasks).toEqual([]);
  await asked.ingest.accept({ readings: [event(String(BACKLOG + 1), 'lane')], now: T0 });
  // A server process counts what it has read when it ends.
  for (const opened of [asked, store]) opened.close();
  await vi.waitFor(() => expect(made()).toBe(before.made + BACKLOG + 1), { timeout: 20_000, interval: 100 });
  expect(read()).toBeGreaterThan(before.read);
  expect(read() - before.read).toBeLessThan(BACKLOG / 10 + (plans === 'new' ? 4 * 10_000 : 0));
});
