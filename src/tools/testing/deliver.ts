// Runs a handler as in production, but in one process and on a clock that jumps: real ingest, turns and attempts.
import { AsyncLocalStorage } from 'node:async_hooks';
import Database from 'better-sqlite3';
import { existsSync, mkdtempDisposableSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pino } from 'pino';
import type { Handler, SqlRow } from '../../kit.ts';
import { openForPeople, type PeopleStore } from '../../operations/store/open.ts';
import type { TaskLine } from '../../operations/store/shapes.ts';
import { addGap, untoldGaps } from '../../reconcile/store.ts';
import { readTasks } from '../../operations/store/read.ts';
import { createEventCache } from '../../run/event.ts';
import { Planner } from '../../run/fan-out.ts';
import { checkHandler, type Loaded } from '../../run/load.ts';
import { Pool, type PoolOptions } from '../../run/pool.ts';
import { setUp } from '../../run/setup.ts';
import { createService } from '../../service/service.ts';
import { HIGHEST } from '../../store/lanes.ts';
import { openSqlite } from '../../store/sqlite/open.ts';
import { statementOf } from '../../store/sqlite/change.ts';
import type { Cursor } from '../../wire/cursor.ts';
import { readDelivery, readItem, type Reading } from '../../wire/event.ts';
import { createClock, signedRequest, type Fixture, type TestClock } from './fixture.ts';
import { recorder, type Call, type Recorder } from './recorder.ts';

export interface DeliverOptions {
  /** How many times each event is delivered. Default: 1. */
  times?: number;
  /** The order of the deliveries. Numbers are indexes of `events`. Default: `given`. `shuffled` is the same every time. */
  order?: 'given' | 'reversed' | 'shuffled' | number[];
  /** Milliseconds between two deliveries. Default: 0, so that all events arrive within the order window. */
  apartMs?: number;
  /** After this many runs of the handler the process dies, before the last outcome is stored. Then it starts again. */
  crashAfter?: number;
  /** Default: a recorder without answers, and a clock that starts when the newest event happened. */
  service?: Recorder;
  clock?: TestClock;
  /** The handler's name, which is normally its file's. Default: `handler`. */
  name?: string;
}

/** `error`: the error of the last failed attempt, or the reason why the task was skipped. */
export type TaskOutcome = Pick<TaskLine, 'key' | 'state' | 'attempts' | 'late' | 'error'>;

export interface Outcome {
  /** In the order in which their events arrived. */
  tasks: TaskOutcome[];
  calls: Call[];
  /** The rows of one `select` from the handler's own tables. */
  query: (sql: string) => Promise<SqlRow[]>;
  gaps: SqlRow[];
  log: Record<string, unknown>[];
}

interface Parts extends Required<Pick<DeliverOptions, 'clock' | 'service' | 'crashAfter'>> {
  store: ReturnType<typeof openSqlite>;
  handler: Loaded & { id: number };
  log: Outcome['log'];
}

const UNSYNCED = existsSync('/dev/shm') ? '/dev/shm' : tmpdir();
const ACCESS = { baseUrl: 'http://service.invalid/v1', apiKey: 'of the test', paid: true, callsPerMinute: 100 };

/** Delivers the events, and resolves when no task waits. Only `timeoutMs` takes real time. Throws if `setup` fails. */
export async function deliver<Type extends string>(
  definition: Handler<Type>,
  events: Fixture | Fixture[],
  { service = recorder(), apartMs = 0, crashAfter = Infinity, name = 'handler', ...options }: DeliverOptions = {},
): Promise<Outcome> {
  const deliveries = arranged([events].flat(), options);
  const { clock = createClock(Math.max(0, ...deliveries.map(({ createdAt }) => Date.parse(createdAt)))) } = options;
  const log: Outcome['log'] = [];
  const loaded = { ...checkHandler(definition, name, true), file: name };
  using folder = mkdtempDisposableSync(join(UNSYNCED, 'kit-deliver-'));
  const store = openSqlite(join(folder.path, 'events.db'), { clock });
  const fault = await setUp(loaded, store.work, new AsyncLocalStorage());
  if (fault !== null) throw new Error(fault);
  const handler = { ...loaded, id: (await store.work.register([{ ...loaded, fault }], 0)).get(loaded.name) ?? 0 };
  const { play, late } = createRun({ store, clock, service, handler, crashAfter, log });
  const people = openForPeople(store.db);
  for (const event of deliveries) {
    const [verdict] = await store.ingest.accept({ readings: await readingsOf(event, people, clock.at) });
    if (!['new', 'duplicate'].includes(verdict ?? 'new')) console.error('deliver:', verdict, 'event', event);
    const next = clock.at + apartMs;
    if (apartMs > 0) await play(next);
    clock.at = Math.max(clock.at, next);
  }
  // Strict tasks wait for replay. This says that replay has shown everything.
  await store.ingest.accept({ readings: [], proves: { from: null, to: HIGHEST } });
  await play();
  // Closes the gaps that a handler has filled.
  await untoldGaps(people, clock.at);
  const lines = await readTasks(people, { limit: 10_000 });
  const tasks = lines.toReversed().map(({ key, state, attempts: spent, crashes, late: aside, error, event }) => {
    const attempts = spent + Number(crashes > 0);
    return { key, state, attempts, late: aside || late.has(event), error };
  });
  for (const line of log) if (/ failed after ctx/.test(String(line['msg']))) console.error('deliver:', line);
  // `onTestFailed` throws outside of a test.
  const tell = (): void => console.error('deliver: the tasks of a handler on', definition.on, 'were', tasks);
  await import('vitest').then(({ onTestFailed }) => onTestFailed(tell)).catch(() => {});
  // A copy in memory. The two bytes tell SQLite that it has no WAL.
  const image = store.db.raw.serialize().fill(1, 18, 20);
  store.close();
  const query = async (sql: string): Promise<SqlRow[]> => statementOf({ raw: new Database(image) }, sql, []).rows;
  return { tasks, calls: service.calls, query, gaps: await query('select * from gaps'), log };
}

function arranged(events: Fixture[], { times = 1, order = 'given' }: DeliverOptions): Fixture[] {
  const inOrder = Array.isArray(order) ? order.flatMap((position) => events[position] ?? []) : events;
  const all = inOrder.flatMap((event) => Array.from({ length: times }, () => event));
  if (order === 'reversed') return all.toReversed();
  if (order !== 'shuffled') return all;
  return [...all.filter((_, n) => n % 2 === 1), ...all.filter((_, n) => n % 2 === 0).toReversed()];
}

/** No delivery brings a gap, so it is added as reconciliation adds it. */
async function readingsOf(event: Fixture, db: PeopleStore, now: number): Promise<Reading[]> {
  const { type, cursor, data, origin } = event;
  if (origin === 'replay') return [readItem(origin, cursor as Cursor, JSON.stringify({ [type]: data }))];
  if (type !== 'kit.gap') return [readDelivery(signedRequest(event).body)];
  const { after, upTo, reason } = data as { after: Cursor; upTo: Cursor | null; reason: string };
  await addGap(db, now, after, upTo, reason);
  return untoldGaps(db, now);
}

function createRun(parts: Parts) {
  const { store, clock, handler } = parts;
  const firstDue = store.db.value<number | null>('select min(due_at) from lanes where due_at < 9e15');
  const late = new Set<number>();
  let process: Awaited<ReturnType<typeof begin>> | undefined;
  let [claim, suspects, wake] = [1, 0, () => {}];

  /** Takes a turn, and runs what it claims. False: nothing could begin. */
  async function turn(): Promise<boolean> {
    if (process?.life.isOver !== false) process = await begin(parts, () => wake());
    const { life, boot, pool, planner } = process;
    const isApart = suspects > 0;
    const look = await store.work.look(isApart ? [] : [handler.id]);
    const rooms = [{ handler: handler.id, order: handler.order, windowMs: 250, ...pool.room(handler.id) }];
    const given = { boot, look, ended: pool.takeEnded(), fanOut: planner.fanOut(look), rooms, claim };
    const { claims, more, ...result } = await store.work.turn({ ...given, suspects: isApart });
    ({ suspects } = result);
    claim += claims.length;
    for (const task of claims.flatMap(({ tasks }) => tasks)) if (task.late) late.add(task.event);
    pool.add(claims);
    while (!life.isOver && !pool.isIdle()) await new Promise<void>((resolve) => (wake = resolve));
    return life.isOver || claims.length > 0 || more || suspects > 0 !== isApart;
  }

  /** Takes turns until no task is due up to this time. The clock jumps from one due time to the next. */
  async function play(until = Infinity): Promise<void> {
    for (let jumps = 0; jumps < 5_000; jumps++) {
      while (await turn());
      const dueAt = firstDue.get() ?? Infinity;
      const next = dueAt > clock.at ? dueAt : clock.at + Math.ceil(process?.pool.untilRateMs() ?? 0);
      if (next > until || next === Infinity) return;
      clock.at = next;
    }
    throw new Error('deliver: a task still waits after 5,000 jumps of the clock: does each attempt put it off?');
  }
  return { play, late };
}

/** One life of `run`. After its death the handler's code goes on, but nothing answers it, and its writes are refused. */
async function begin(parts: Parts, wake: () => void) {
  const { store, clock, service, handler } = parts;
  const life = { isOver: false };
  const die = (): Promise<never> => {
    life.isOver = true;
    wake();
    return new Promise(() => {});
  };
  const handle: Loaded['handle'] = async (event, ctx) => {
    const [ran] = await Promise.allSettled([life.isOver ? die() : Promise.try(() => handler.handle(event, ctx))]);
    if (life.isOver || --parts.crashAfter === 0) await die();
    if (ran.status === 'rejected') throw ran.reason;
  };
  const fetch: Recorder['fetch'] = async (...call) => {
    const answer = life.isOver ? Response.error() : await service.fetch(...call);
    return life.isOver || answer.type === 'error' ? die() : answer;
  };
  const serviceFor = createService({ ...ACCESS, clock, fetch, pause: async (ms) => void (clock.at += ms) });
  const scopes: PoolOptions['scopes'] = new AsyncLocalStorage();
  const handlers = new Map([[handler.id, { ...handler, handle }]]);
  const common = { clock, scopes, cache: createEventCache(), handlers, places: 32, suspects: false, careful: false };
  const log = pino({ level: 'debug' }, { write: (line) => life.isOver || parts.log.push(JSON.parse(line)) });
  const { boot } = await store.work.begin('live', true);
  const pool = new Pool({ ...common, store: store.work, log, serviceFor, onFree: wake });
  return { life, boot, pool, planner: new Planner(common) };
}
