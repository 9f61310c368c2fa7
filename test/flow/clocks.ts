// A receiver whose wall clock is wrong. The clock is set while the receiver is up or between two starts, and the
// service's clock is right, ahead or behind. Replay over HTTP, reconciler, runner and pruner are real and share a
// store file. The wall clock and the monotonic clock are simulated.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setImmediate as turnOfTheLoop } from 'node:timers/promises';
import { pino } from 'pino';
import { createPruner } from '../../src/keep/prune.ts';
import { createReconciler, type Reconciler } from '../../src/reconcile/reconciler.ts';
import { startRunner, type Runner } from '../../src/run/runner.ts';
import { inWindow } from '../../src/receive/verify.ts';
import { createBudget } from '../../src/service/budget.ts';
import { createService } from '../../src/service/service.ts';
import { createRandom } from '../../src/tools/random.ts';
import { openSqlite } from '../../src/store/sqlite/open.ts';
import { verifyFrom } from '../../src/admin/range.ts';
import type { Store } from '../../src/store/store.ts';
import type { Cursor } from '../../src/wire/cursor.ts';
import { readDelivery } from '../../src/wire/event.ts';
import { API_KEY, startReplayServer, type ReplayServer } from '../reconcile/replay-server.ts';
import { handlerOf, until, noService } from '../run/fixture.ts';
import { confirmClock } from '../store-file.ts';

const SECOND = 1_000;
export const HOUR = 3_600 * SECOND;
const DAY = 24 * HOUR;
export const STEPS = [HOUR, -HOUR, DAY, -DAY, 60 * DAY, -60 * DAY];
/** Offsets of the service's clock, in milliseconds: none, within the signature window, and beyond it. */
export const SERVICES = [0, 240 * SECOND, -240 * SECOND, HOUR, -60 * DAY];

const START = Date.UTC(2026, 5, 1);
const TOLERANCE_SECONDS = 300;
const OVERLAP_MS = 60 * SECOND;
const INTERVAL_MS = 20 * SECOND;
const ORDERS = ['strict', 'window', 'arrival'] as const;
const SESSION = '5f0c3a52-6f1e-4c55-9a52-9d9f5b1f6d11';

export interface Cell {
  /** How far the wall clock is moved forward, milliseconds. */
  step: number;
  /** True: the clock is set while the processes run. False: between a stop and a start. */
  up: boolean;
  /** How far the service's clock is ahead of the true time, milliseconds. */
  service: number;
  /** False: there is no API key, so no replay. Then the service drops no delivery at random. */
  key: boolean;
  seed: number;
}

interface Happened {
  cursor: Cursor;
  /** Unix milliseconds by the service's clock. */
  at: number;
  /** The data names neither session nor time. */
  bare: boolean;
}

interface Handled {
  handler: string;
  cursor: string;
  late: boolean;
}

interface World {
  clock: { at: number; ahead: number; now(): number; monotonic(): number };
  /** Creates `events` events within `seconds` seconds. Most are delivered, some twice, some never. */
  live(events: number, seconds: number): Promise<void>;
  /** Sets the wall clock while the processes run, or between a stop and a start. */
  set(ahead: number, up: boolean): Promise<void>;
  restart(options?: { key?: boolean }): Promise<void>;
  prune(days: number): Promise<void>;
  verify(): Promise<void>;
  /** The service delivers every event again, including those whose deliveries it dropped. */
  repeat(): Promise<void>;
  settle(): Promise<void>;
  /** One sentence for each violation. */
  violations(): string[];
  close(): Promise<void>;
}

async function openWorld({ service: serviceAhead, seed, key: hasKey }: Cell): Promise<World> {
  const folder = mkdtempSync(join(tmpdir(), 'kit-clocks-'));
  const path = join(folder, 'events.db');
  const clock = { at: START, ahead: 0, now: () => clock.at + clock.ahead, monotonic: () => clock.at };
  const serviceNow = (): number => clock.at + serviceAhead;
  const log = pino({ level: 'silent' });
  const random = createRandom(seed);
  const server: ReplayServer = await startReplayServer(serviceNow);
  const history: Happened[] = [];
  const handled: Handled[] = [];
  const working = new Map<string, string>();
  const overlaps: string[] = [];
  const failed = new Set<string>();
  let born = false;
  let boot = 0;
  let parts: { stores: Store[]; runner: Runner; reconciler: Reconciler | undefined } | undefined;
  let keyed = hasKey;
  let nextStepAt = 0;

  // Strict order needs replay, and replay needs an API key.
  const orders = ORDERS.filter((order) => hasKey || order !== 'strict');
  const handlers = orders.map((order) =>
    handlerOf({
      name: order,
      order,
      retry: { attempts: 20, firstMs: 5_000, maxMs: 20_000 },
      async handle(event, ctx) {
        const lane = `${order}/${JSON.stringify(event.data['from'] ?? event.key)}`;
        if (working.has(lane)) overlaps.push(`${event.key} beside ${working.get(lane)} in ${lane}`);
        working.set(lane, event.key);
        await turnOfTheLoop();
        working.delete(lane);
        // One event in eight fails once, so that its task waits for the next attempt.
        const name = `${order} ${event.key}`;
        if (BigInt(event.cursor ?? 0) % 8n === 0n && !failed.has(name)) {
          failed.add(name);
          throw new Error('the first time');
        }
        handled.push({ handler: order, cursor: event.cursor ?? event.key, late: ctx.late });
      },
    }),
  );

  async function start(): Promise<void> {
    const main = openSqlite(path, { owner: true });
    const stores = [main, openSqlite(path), openSqlite(path, { synchronous: 'NORMAL' })] as const;
    born = true;
    await main.processes.giveBack([], clock.now());
    const reconciler = keyed ? createKeyed(stores[1]) : undefined;
    nextStepAt = 0;
    const runner = await startRunner({
      store: stores[2].work,
      handlers,
      serviceFor: noService,
      clock,
      log,
      boot: ++boot,
      concurrency: 8,
      windowMs: 2 * SECOND,
      onUnproven: () => reconciler?.prove(),
    });
    parts = { stores: [...stores], runner, reconciler };
  }

  function createKeyed(store: Store): Reconciler {
    return createReconciler({
      store,
      service: createService({ baseUrl: server.url, apiKey: API_KEY, paid: false }),
      clock,
      log,
      budget: createBudget(60, clock),
      // If the clocks differ by more than the window, every delivery is refused, so only replay can bring the first
      // event.
      from: Math.abs(serviceAhead) > TOLERANCE_SECONDS * SECOND ? 'start' : 'first-webhook',
      types: ['*'],
      intervalMs: INTERVAL_MS,
      overlapMs: OVERLAP_MS,
      onEvents: () => parts?.runner.wake(),
    });
  }

  async function stop(): Promise<void> {
    await parts?.runner.drain(1_000);
    for (const store of parts?.stores ?? []) store.close();
    parts = undefined;
  }

  function present(): NonNullable<typeof parts> {
    if (!parts) throw new Error('it is not up');
    return parts;
  }

  function happen(): Happened {
    const event = { cursor: String(1_000 + history.length) as Cursor, at: serviceNow(), bare: random.next() < 0.3 };
    history.push(event);
    server.publish({ cursor: event.cursor, json_payload: JSON.stringify({ [typeOf(event)]: dataOf(event) }) });
    return event;
  }

  const typeOf = ({ bare }: Happened): string => (bare ? 'PresenceChanged' : 'ChatMoved');
  const dataOf = ({ at, bare, cursor }: Happened): object => ({
    n: cursor,
    ...(bare ? {} : { session_id: SESSION, timestamp_unix_ms: at, from: `c${Number(cursor) % 3}` }),
  });

  /** Delivers an event. Outside the signature window it is dropped, because `receive` would answer with 401. */
  async function deliver(event: Happened): Promise<void> {
    if (!inWindow(Math.floor(serviceNow() / 1_000), clock.now(), TOLERANCE_SECONDS)) return;
    const body = {
      id: `e${event.cursor}`,
      type: typeOf(event),
      created_at: new Date(event.at).toISOString(),
      cursor: event.cursor,
      session_id: SESSION,
      webhook_id: 'w',
      data: { [typeOf(event)]: dataOf(event) },
    };
    const reading = readDelivery(Buffer.from(JSON.stringify(body)));
    await present().stores[0]?.ingest.accept({ readings: [reading], now: clock.now() });
    present().runner.wake();
  }

  async function second(): Promise<void> {
    clock.at += SECOND;
    const { runner, reconciler, stores } = present();
    runner.wake();
    await stores[2]?.state.note({}, runner.state());
    await turnOfTheLoop();
    if (!reconciler) return;
    while (nextStepAt <= clock.at) nextStepAt = clock.at + Math.max(1, await reconciler.step());
  }

  async function rows(): Promise<Map<string, number>> {
    const { events } = await reader().read.events({ limit: 100_000 }, clock.now());
    const found = new Map<string, number>();
    for (const { cursor } of events) if (cursor !== null) found.set(cursor, (found.get(cursor) ?? 0) + 1);
    return found;
  }

  const reader = (): Store => present().stores[1] as Store;
  const doubled = new Set<string>();
  async function look(): Promise<void> {
    for (const [cursor, n] of await rows()) if (n > 1) doubled.add(cursor);
  }

  await start();
  await second();
  await deliver(happen());

  return {
    clock,
    async live(events, seconds) {
      for (let n = 1; n <= seconds; n++) {
        const due = Math.round((events * n) / seconds) - Math.round((events * (n - 1)) / seconds);
        const fresh = Array.from({ length: due }, happen);
        for (const event of fresh.toSorted(() => random.next() - 0.5)) {
          if (hasKey && random.next() < 0.2) continue;
          await deliver(event);
          if (random.next() < 0.2) await deliver(event);
        }
        await second();
      }
    },
    async set(ahead, up) {
      if (!up) await stop();
      clock.ahead = ahead;
      if (!up) await start();
    },
    async restart({ key = true } = {}) {
      keyed = key && hasKey;
      await stop();
      await start();
    },
    async prune(days) {
      await look();
      // As if the service confirmed even a wrong clock: what is pruned by it must still be known.
      await confirmClock(reader(), clock.now());
      const options = { store: reader(), clock, log: pino({ enabled: false }), retentionDays: days, payloadDays: days };
      const prune = createPruner(options);
      while ((await prune()) < 60 * SECOND);
    },
    async verify() {
      if (!keyed) return;
      const asked = clock.now();
      const from = history[0]?.cursor ?? ('0' as Cursor);
      await verifyFrom(reader(), from, asked);
      for (let seconds = 0; (await reader().state.get('verify'))?.state === 'running'; seconds++) {
        if (seconds > 600) throw new Error('verify does not end');
        await second();
      }
      await look();
    },
    async repeat() {
      for (const event of history) await deliver(event);
      await second();
      await look();
    },
    async settle() {
      for (let seconds = 0; seconds < 10 * 60; seconds++) await second();
      const open = async (): Promise<number> => {
        const { tasks, unassigned } = await reader().read.status(clock.now());
        return unassigned + tasks.held + tasks.ready + tasks.running;
      };
      await until(
        async () => {
          await second();
          return (await open()) === 0;
        },
        `all to be handled: ${JSON.stringify((await reader().read.status(clock.now())).tasks)}`,
      );
      await look();
    },
    violations() {
      const found = [...overlaps, ...[...doubled].map((cursor) => `${cursor} has two rows`)];
      for (const handler of orders) {
        const its = handled.filter((one) => one.handler === handler);
        const times = new Map<string, number>();
        for (const { cursor } of its) times.set(cursor, (times.get(cursor) ?? 0) + 1);
        for (const { cursor } of history) {
          const n = times.get(cursor) ?? 0;
          if (n !== 1) found.push(`${handler} handled ${cursor} ${n} times`);
        }
        found.push(...inversions(its, handler === 'strict'));
      }
      return found;
    },
    async close() {
      if (born) await stop();
      await server.close();
      rmSync(folder, { recursive: true, force: true });
    },
  };

  /** Reports each event that was handled after a higher cursor of its lane and was not marked late. */
  function inversions(its: Handled[], strict: boolean): string[] {
    const highest = new Map<string, bigint>();
    return its.flatMap(({ cursor, late, handler }) => {
      const event = history.find((one) => one.cursor === cursor);
      if (!event) return [`${handler} handled ${cursor}, which never happened`];
      // Events without a session share a lane only in strict order. In other orders their lane depends on how they
      // arrived.
      if (event.bare && !strict) return [];
      const lane = event.bare ? 'bare' : `c${Number(cursor) % 3}`;
      const before = highest.get(lane) ?? -1n;
      if (BigInt(cursor) > before) highest.set(lane, BigInt(cursor));
      return BigInt(cursor) < before && !late ? [`${handler}: ${cursor} behind ${before}, not late`] : [];
    });
  }
}

/** Runs one cell of the matrix and returns the violations. */
export async function liveThrough(cell: Cell): Promise<string[]> {
  const world = await openWorld(cell);
  try {
    await world.live(24, 12);
    await world.settle();
    // When the clock is set, some tasks are waiting for their window and others for their next attempt.
    await world.live(16, 2);
    await world.set(cell.step, cell.up);
    await world.live(24, 30);
    await world.prune(1);
    await world.repeat();
    await world.prune(30);
    await world.verify();
    await world.live(8, 10);
    await world.restart({ key: false });
    await world.live(8, 10);
    await world.prune(1);
    await world.restart();
    await world.live(8, 4);
    await world.set(0, cell.up);
    await world.repeat();
    await world.live(8, 10);
    await world.prune(30);
    await world.verify();
    await world.settle();
    await world.repeat();
    await world.settle();
    return world.violations();
  } finally {
    await world.close();
  }
}
