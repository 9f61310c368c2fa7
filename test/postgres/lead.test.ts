// Who may lead, and what an instance that no longer leads can write: nothing that needs the lead.
import { randomUUID } from 'node:crypto';
import { Client } from 'pg';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { openPostgres } from '../../src/store/postgres/open.ts';
import type { Store } from '../../src/store/store.ts';
import type { Turn } from '../../src/store/work.ts';
import type { Cursor } from '../../src/wire/cursor.ts';
import { done, event, range, tasksOf } from '../store-contract/harness.ts';
import { urlOf } from './server.ts';

let url: string;
let schema: string;
let db: Client;
let stores: Store[];

beforeEach(async () => {
  url = urlOf(randomUUID());
  schema = new URL(url).searchParams.get('schema') ?? '';
  db = new Client({ connectionString: url.replace(/schema=\w+&/, '') });
  await db.connect();
  stores = [];
});

afterEach(async () => {
  vi.useRealTimers();
  for (const store of stores) store.close();
  await db.query(`drop schema if exists ${schema} cascade`);
  await db.end();
});

/** The store as the main process of an instance has it. */
function member(): Store {
  const store = openPostgres(url, { owner: true });
  stores.push(store);
  return store;
}

const NOW = 'cast(extract(epoch from clock_timestamp()) * 1000 as bigint)';

/** As if the instance had just been found without a sign of life, and the others had joined long before. */
async function freeze(instance: number): Promise<void> {
  await db.query('update instances set since = since - 60000');
  await db.query(`update instances set until_at = ${NOW} - 1 where instance = $1`, [instance]);
}

const boots = new Map<Store, Promise<number>>();

async function turnOf(store: Store, turn: Partial<Turn>) {
  const boot = await (boots.get(store) ?? boots.set(store, store.processes.nextBoot()).get(store));
  const handlers = [...(await store.work.idsOf(['first'])).values()];
  return store.work.turn({ now: store.now(), boot: boot ?? 0, settle: [], fanOut: null, room: 0, handlers, ...turn });
}

/** Events with these cursors become tasks of the handler `first`. */
async function fill(store: Store, cursors: number[]): Promise<void> {
  const handler = (await store.work.register(['first'])).get('first') ?? 0;
  await store.ingest.accept({ readings: cursors.map((n) => event(String(n))), now: store.now() });
  const { from, events } = await store.work.pending(1_000);
  await turnOf(store, { fanOut: { from, upTo: events.at(-1)?.seq ?? from, tasks: tasksOf(events, handler, 0) } });
}

test('one instance leads, until it resigns or gives no sign of life', async () => {
  const [one, two, three] = [member(), member(), member()];
  expect(await one.processes.lead(true)).toMatchObject({ leads: true, lost: [] });
  expect(await two.processes.lead(true)).toMatchObject({ leads: false });
  await one.processes.resign();
  expect(await two.processes.lead(false)).toMatchObject({ leads: false });
  const { leads, instance } = await two.processes.lead(true);
  expect(leads).toBe(true);
  expect(await three.processes.lead(true)).toMatchObject({ leads: false });
  await freeze(instance);
  const taken = await three.processes.lead(true);
  expect(taken).toMatchObject({ leads: true, lost: [expect.any(String)] });
  const shown = async () =>
    (await three.processes.instances()).map((row) => ({ leads: row.leads, lost: row.lostAt !== null }));
  const [stands, leader, lost] = [
    { leads: false, lost: false },
    { leads: true, lost: false },
    { leads: false, lost: true },
  ];
  expect(await shown()).toEqual([stands, leader, lost]);
  expect(await two.processes.lead(true)).toMatchObject({ leads: false });
  expect(await shown()).toEqual([stands, leader, stands]);
});

test('an instance that was lost and comes back is shown once, and goes on with the records of those that ended', async () => {
  const [one, two] = [member(), member()];
  const { instance } = await one.processes.lead(true);
  await one.processes.nextBoot();
  await one.processes.beat({ role: 'run', pid: 1, started: '1', boot: 1 }, one.now());
  const refusals = JSON.stringify({ window: [{ at: '2026-01-01T00:00:00.000Z', headers: 5 }] });
  await one.ingest.accept({ readings: [], now: one.now(), state: { failure_run: 2, refusals } });
  await freeze(instance);
  await two.processes.lead(true);
  expect((await one.processes.lead(true)).instance).toBeGreaterThan(instance);
  const shown = await one.processes.instances();
  expect(shown.map(({ leads, lostAt }) => ({ leads, lostAt }))).toEqual([
    { leads: true, lostAt: null },
    { leads: false, lostAt: null },
  ]);
  await one.state.books();
  const rows = async (sql: string): Promise<unknown[]> => (await db.query(sql)).rows as unknown[];
  expect(await rows('select 1 from boots union all select 1 from processes')).toEqual([]);
  expect(
    await rows(`select split_part(name, '@', 2)::int > ${instance} as new from state where name like '%@%'`),
  ).toEqual(Array(4).fill({ new: true }));
  expect((await one.state.get('refusals'))['window']).toHaveLength(1);
});

test('of instances that see the lead vacant at the same moment, one gets it', async () => {
  const all = range(1, 5).map(member);
  for (const store of all) await store.processes.lead(false);
  const standings = await Promise.all(all.map((store) => store.processes.lead(true)));
  expect(standings.filter(({ leads }) => leads)).toHaveLength(1);
});

describe('an instance that has lost the lead', () => {
  let old: Store;
  let next: Store;
  beforeEach(async () => {
    [old, next] = [member(), member()];
    const { instance } = await old.processes.lead(true);
    await next.processes.lead(true);
    await fill(old, [1, 2, 3]);
    await freeze(instance);
  });

  test('claims nothing, makes no tasks, reads no history and prunes nothing; it still accepts deliveries', async () => {
    expect((await next.processes.lead(true)).leads).toBe(true);
    const refused = { code: 'standby' };
    await expect(turnOf(old, { room: 10 })).rejects.toMatchObject(refused);
    const { from, events } = await old.work.pending(10);
    await expect(turnOf(old, { fanOut: { from, upTo: from, tasks: tasksOf(events, 1, 0) } })).rejects.toMatchObject(
      refused,
    );
    await expect(old.work.claimIsolated(old.now(), 1, [1])).rejects.toMatchObject(refused);
    const page = { readings: [], now: old.now(), watermark: '9' as Cursor };
    await expect(old.ingest.accept(page)).rejects.toMatchObject(refused);
    const step = { now: old.now(), before: old.now(), settled: 0, after: null, limit: 10 };
    await expect(old.keep.prune(step)).rejects.toMatchObject(refused);
    await expect(old.keep.sweep(0)).rejects.toMatchObject(refused);
    expect(await old.ingest.accept({ readings: [event('4')], now: old.now() })).toEqual([{ verdict: 'new' }]);
    expect((await next.read.status(next.now())).watermark).toBeNull();
  });

  test('cannot end what was given back; what the new leader runs ends once', async () => {
    await freeze(0);
    await db.query('update instances set until_at = 9e15');
    const { claims } = await turnOf(old, { room: 1 });
    await db.query('update instances set until_at = 0 where instance in (select instance from lead)');
    expect((await next.processes.lead(true)).leads).toBe(true);
    expect(await next.processes.giveBack([], next.now(), undefined, true)).toHaveLength(1);
    expect((await turnOf(old, { settle: claims.map(done) })).fenced).toBe(1);
    expect(await old.work.complete(claims[0] as never, old.now(), () => {})).toBe(false);
    const again = await turnOf(next, { room: 1 });
    expect(again.claims.map(({ event: { cursor } }) => cursor)).toEqual(['1']);
    expect((await turnOf(next, { settle: again.claims.map(done) })).fenced).toBe(0);
    expect(await next.read.counters()).toMatchObject({ 'tasks.done': 1, 'tasks.ready': 2, 'tasks.running': 0 });
  });
});

test('a leader that resigned may end what it has begun, and the new leader sees that the lane is free', async () => {
  const [old, next] = [member(), member()];
  await old.processes.lead(true);
  await next.processes.lead(true);
  await fill(old, [1, 2]);
  const { claims } = await turnOf(old, { room: 1 });
  await old.processes.resign();
  expect((await next.processes.lead(true)).leads).toBe(true);
  expect(await next.processes.giveBack([], next.now(), undefined, true)).toEqual([]);
  expect((await turnOf(next, { room: 10 })).claims).toEqual([]);
  expect((await turnOf(old, { settle: claims.map(done) })).fenced).toBe(0);
  expect((await turnOf(next, { room: 10 })).claims.map(({ event: { cursor } }) => cursor)).toEqual(['2']);
});

test('whoever takes the lead waits for the transactions in which the leader before it claims tasks', async () => {
  const [old, next] = [member(), member()];
  const { instance } = await old.processes.lead(true);
  await next.processes.lead(true);
  await fill(old, [1, 2]);
  // The transaction waits for this lock when it has begun to claim.
  const other = new Client({ connectionString: url.replace(/schema=\w+&/, '') });
  await other.connect();
  await other.query('begin');
  await other.query('lock table claims in access exclusive mode');
  const claiming = turnOf(old, { room: 10 });
  await vi.waitUntil(async () => (await waiting()) === 1);
  await freeze(instance);
  let taken = false;
  const taking = next.processes.lead(true).then(({ leads }) => (taken = leads));
  await vi.waitUntil(async () => (await waiting()) === 2);
  expect(taken).toBe(false);
  await other.query('commit');
  expect((await claiming).claims).toHaveLength(1);
  await taking;
  expect(taken).toBe(true);
  expect(await next.processes.giveBack([], next.now(), undefined, true)).toHaveLength(1);
  await other.end();
});

test('what an instance claims while another one looks for tasks of dead processes is not taken from it', async () => {
  const [old, next] = [member(), member()];
  await old.processes.lead(true);
  await next.processes.lead(true);
  await fill(old, [1]);
  const other = new Client({ connectionString: url.replace(/schema=\w+&/, '') });
  await other.connect();
  await other.query('begin');
  await other.query(`select 1 from locks where name = 'work' for key share`);
  const giving = old.processes.giveBack([], old.now(), undefined, true);
  await vi.waitUntil(async () => (await waiting()) === 1);
  await old.processes.resign();
  expect((await next.processes.lead(true)).leads).toBe(true);
  expect((await turnOf(next, { room: 1 })).claims).toHaveLength(1);
  await other.query('commit');
  expect(await giving).toEqual([]);
  await other.end();
});

describe('a leader without a handler that another instance has', () => {
  const both = ['first', 'second'];
  let old: Store;
  let next: Store;
  let instance: number;
  beforeEach(async () => {
    [old, next] = [member(), member()];
    ({ instance } = await old.processes.lead(true, both));
    await old.work.register(both);
  });

  /** The next leader registers its one handler, and makes the tasks of an event. */
  async function leadWithout(store: Store, cursor: number): Promise<void> {
    expect((await store.processes.lead(true, ['first'])).leads).toBe(true);
    await fill(store, [cursor]);
  }

  /** Whether the other handler gets the events of the time without it. */
  async function catchesUp(): Promise<boolean> {
    const last = member();
    await next.processes.resign();
    expect((await last.processes.lead(true, both)).leads).toBe(true);
    const id = (await last.work.register(both)).get('second') ?? 0;
    return (await last.work.behind()).has(id);
  }

  test.each(['stands by', 'was lost', 'left', 'left while the other was lost', 'was the only one'])(
    'keeps its place if that instance %s',
    async (end) => {
      const { instance: other } =
        end === 'was the only one' ? { instance: 0 } : await next.processes.lead(true, ['first']);
      if (end === 'stands by') await old.processes.resign();
      if (end === 'was lost') await freeze(instance);
      if (end === 'left while the other was lost') await freeze(other);
      if (end !== 'stands by' && end !== 'was lost') await old.processes.leave();
      await leadWithout(next, 1);
      // The leader says so from time to time.
      await next.work.register(['first']);
      expect(await next.read.status(next.now())).toMatchObject({ waiting: [{ handler: 'second' }] });
      expect(await catchesUp()).toBe(true);
    },
  );

  test('an instance that comes back without it, and under the same name, changes nothing', async () => {
    await next.processes.lead(true, ['first']);
    await old.processes.leave();
    await leadWithout(next, 1);
    await member().processes.lead(true, ['first']);
    await next.work.register(['first']);
    expect(await catchesUp()).toBe(true);
  });

  test('gives up its place when no instance has had it for an hour', async () => {
    await next.processes.lead(true, ['first']);
    await old.processes.resign();
    await leadWithout(next, 1);
    await db.query('update handlers set seen_at = seen_at - 3600001');
    await old.processes.lead(false, both);
    await next.work.register(['first']);
    expect((await next.read.status(next.now())).waiting).toHaveLength(1);
    await db.query('update handlers set seen_at = seen_at - 3600001');
    await next.work.register(['first']);
    expect((await next.read.status(next.now())).waiting).toEqual([]);
    expect(await catchesUp()).toBe(false);
  });
});

describe('an instance that is lost', () => {
  const lostNow = async (store: Store) =>
    (await store.processes.instances()).filter(({ lostAt }) => lostAt !== null).map(({ instance }) => instance);

  test('is shown until another one has joined in its place, whichever comes first', async () => {
    const [one, two] = [member(), member()];
    await one.processes.lead(true);
    const { instance: second } = await two.processes.lead(true);
    await freeze(second);
    await one.processes.lead(true);
    expect(await lostNow(one)).toEqual([second]);
    await member().processes.lead(true);
    expect(await lostNow(one)).toEqual([]);
    // The next one joins before the loss is noticed, and stands in the place of one alone.
    const [third, fourth] = [member(), member()];
    const lost = [(await third.processes.lead(true)).instance, (await fourth.processes.lead(true)).instance];
    await db.query('update instances set since = since - 60000');
    await member().processes.lead(true);
    await db.query(`update instances set until_at = ${NOW} - 1 where instance = any($1)`, [lost]);
    await one.processes.lead(true);
    expect(await lostNow(one)).toHaveLength(1);
  });

  test('and comes back goes on with the records that it left', async () => {
    const [one, two] = [member(), member()];
    const { instance } = await one.processes.lead(true);
    await one.ingest.accept({ readings: [], now: one.now(), state: { signers: '[7]' } });
    await two.processes.lead(true);
    await freeze(instance);
    await two.processes.lead(true);
    const back = (await one.processes.lead(true)).instance;
    const { rows } = await db.query(`select name from state where name like 'signers@%'`);
    expect(rows).toEqual([{ name: `signers@${back}` }]);
  });
});

/** The number of transactions that wait for a lock. */
async function waiting(): Promise<number> {
  const { rows } = await db.query('select distinct pid from pg_locks where not granted');
  return rows.length;
}

/** How many sessions wait for a lock of `db`, directly or behind each other. Other files use this server too. */
async function waitingForUs(): Promise<number> {
  const { rows } = await db.query(`with recursive behind (pid) as (
    select pid from pg_stat_activity where pg_backend_pid() = any (pg_blocking_pids(pid))
    union
    select a.pid from pg_stat_activity a join behind b on b.pid = any (pg_blocking_pids(a.pid))) select pid from behind`);
  return rows.length;
}

test.each([-3_600_000, 3_600_000])(
  'the clock of an instance, %i ms off, changes neither the lead nor the times of events',
  async (ms) => {
    const [one, two] = [member(), member()];
    await one.processes.lead(true);
    vi.useFakeTimers({ toFake: ['Date'], now: Date.now() + ms });
    expect((await two.processes.lead(true)).leads).toBe(false);
    expect((await one.processes.lead(true)).leads).toBe(true);
    expect(Math.abs(one.now() - two.now())).toBeLessThan(1_000);
    await one.processes.resign();
    expect((await two.processes.lead(true)).leads).toBe(true);
    await two.processes.lead(true);
    vi.useRealTimers();
    expect(Math.abs(one.now() - Date.now())).toBeLessThan(60_000);
    // Its sign of life counts for others as theirs do.
    expect((await one.processes.lead(true)).leads).toBe(false);
    const { rows } = await db.query('select until_at from instances');
    for (const { until_at: until } of rows as { until_at: string }[])
      expect(Math.abs(Number(until) - one.now())).toBeLessThan(10_000);
  },
);

test('of two instances that accept, the one that numbers its event first also commits first', async () => {
  const [one, two, reader] = [member(), member(), member()];
  await reader.processes.lead(true);
  await reader.work.register(['first']);
  // The first event has its number, and its transaction is held open.
  await db.query(`create function held() returns trigger language plpgsql as
    $$ begin perform pg_advisory_xact_lock(7); return new; end $$`);
  await db.query(
    'create trigger held before insert on events for each row when (new.cursor = 1) execute function held()',
  );
  await db.query('select pg_advisory_lock(7)');
  const accept = (store: Store, cursor: string) => store.ingest.accept({ readings: [event(cursor)], now: store.now() });
  const read = async (): Promise<(string | null)[]> => {
    const { from, events } = await reader.work.pending(10);
    await turnOf(reader, { fanOut: { from, upTo: events.at(-1)?.seq ?? from, tasks: [] } });
    return events.map(({ cursor }) => cursor);
  };
  const first = accept(one, '1');
  await vi.waitUntil(async () => (await waitingForUs()) > 0);
  let committed = false;
  const second = accept(two, '2').then(() => (committed = true));
  await vi.waitUntil(async () => committed || (await waitingForUs()) > 1);
  const seen = await read();
  await db.query('select pg_advisory_unlock(7)');
  await Promise.all([first, second]);
  expect([...seen, ...(await read())]).toEqual(['1', '2']);
});

test('events are numbered in the order of their commits: whoever reads on from a number misses none', async () => {
  const receivers = range(1, 4).map(member);
  const reader = member();
  await reader.processes.lead(true);
  await reader.work.register(['first']);
  const seen: number[] = [];
  let stopped = false;
  const reading = (async () => {
    for (;;) {
      const last = stopped;
      const { from, events } = await reader.work.pending(100);
      const upTo = events.at(-1)?.seq ?? from;
      for (const { cursor } of events) seen.push(Number(cursor));
      if (events.length > 0) await turnOf(reader, { fanOut: { from, upTo, tasks: [] } });
      else if (last) return;
    }
  })();
  await Promise.all(
    receivers.map(async (store, n) => {
      for (let batch = 0; batch < 40; batch++) {
        const cursors = range(1, 1 + ((batch * 7) % 40)).map((i) => 1_000_000 * (n + 1) + batch * 100 + i);
        await store.ingest.accept({ readings: cursors.map((cursor) => event(String(cursor))), now: store.now() });
      }
    }),
  );
  stopped = true;
  await reading;
  expect(seen.length).toBe((await reader.read.counters())['accepted']);
  expect(new Set(seen).size).toBe(seen.length);
});

test('deliveries of the same event to all instances at once are one row', async () => {
  const receivers = range(1, 4).map(member);
  await receivers[0]?.processes.lead(true);
  const rounds = range(1, 20);
  for (const round of rounds) {
    const readings = range(1, 20).map((n) => event(String(round * 100 + n)));
    const all = await Promise.all(receivers.map((store) => store.ingest.accept({ readings, now: store.now() })));
    const fresh = all.flat().filter(({ verdict }) => verdict === 'new');
    expect(fresh).toHaveLength(readings.length);
  }
  const counters = await receivers[0]?.read.counters();
  expect(counters).toMatchObject({ events: 400, accepted: 400, duplicates: 1_200 });
});
