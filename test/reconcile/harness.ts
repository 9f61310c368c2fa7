// The reconciler on a real store file and a real HTTP server, with a clock that tests set. After every step the
// harness checks the promises that no lie of the service may break.
import { expect, onTestFinished } from 'vitest';
import { createBudget } from '../../src/service/budget.ts';
import { createReconciler, type Reconciler } from '../../src/reconcile/reconciler.ts';
import type { ReconcilerOptions } from '../../src/reconcile/pass.ts';
import { createService } from '../../src/service/service.ts';
import { readDelivery } from '../../src/wire/event.ts';
import { createClock, createStoreFile, createTestLog } from '../store-file.ts';
import type { StoreFile, TestClock, TestLog } from '../store-file.ts';
import {
  API_KEY,
  fields,
  item,
  startReplayServer,
  type Answer,
  type Item,
  type ReplayServer,
} from './replay-server.ts';

export * from '../store-file.ts';

export const INTERVAL_MS = 60_000;
export const OVERLAP_MS = 300_000;

export interface Rig extends StoreFile, TestLog {
  clock: TestClock;
  server: ReplayServer;
  /** How often `onEvents` was called. */
  woken: () => number;
  /** Makes one step and checks the promises. Resolves to the milliseconds until the next step. */
  step: () => Promise<number>;
  /** Makes steps until the state is no longer `running`. */
  settle: () => Promise<void>;
  /** Makes steps for this time on the test's clock, like the loop of `keep`. */
  pass: (ms: number) => Promise<void>;
  /** Delivers the event by webhook. */
  webhook: (cursor: number | string, options?: { type?: string; id?: string; data?: object }) => Promise<void>;
  /** Tells the reconciler that an event arrived above the watermark. */
  prove: () => void;
  /** Tells the harness that another origin has brought this cursor, so that the reconciler may ask for it. */
  saw: (cursor: string) => void;
  fresh: () => boolean;
  now: () => void;
  /** Does what `npx kit reconcile` does. */
  ask: () => Promise<void>;
  state: () => Promise<{ state: string; lastAt: string | null; reason: string | null }>;
  watermark: () => Promise<string | null>;
  /** Cursors of the stored events, ascending. */
  stored: () => string[];
  /** The after_cursor of each call so far. */
  asked: () => (string | undefined)[];
  /** Creates a new reconciler on the same store, as after a restart. */
  restart: (options?: RigOptions) => void;
  close: () => Promise<void>;
}

export interface RigOptions extends Partial<ReconcilerOptions> {
  callsPerMinute?: number;
}

export async function createRig(given: RigOptions = {}): Promise<Rig> {
  const clock = createClock();
  const file = createStoreFile();
  const { store, query } = file;
  const testLog = createTestLog();
  const server = await startReplayServer(() => clock.time);
  const seen = new Set<string>();
  let wakes = 0;
  let reconciler: Reconciler;
  let types: string[];

  function restart({ callsPerMinute = 120, ...options }: RigOptions = {}): void {
    const all = {
      store,
      service: createService({ baseUrl: server.url, apiKey: API_KEY, paid: false }),
      clock,
      log: testLog.log,
      budget: createBudget(callsPerMinute, clock),
      from: 'first-webhook',
      types: ['*'],
      intervalMs: INTERVAL_MS,
      overlapMs: OVERLAP_MS,
      onEvents: () => void wakes++,
      ...options,
    };
    if (/^\d+$/.test(all.from)) seen.add(all.from);
    types = all.types;
    reconciler = createReconciler(all);
  }
  restart(given);

  /** The promises that no lie of the service may break. */
  async function assertPromises(calls: number): Promise<void> {
    const fresh = server.requests.slice(calls);
    expect(fresh.length, 'calls in one step').toBeLessThanOrEqual(1);
    if (fresh.length === 0) return;
    const unseen = fresh.flatMap(({ after }) => (after === undefined || seen.has(after) ? [] : [after]));
    expect(unseen, 'each after_cursor was seen before').toEqual([]);
    for (const cursor of [...server.shown.keys(), ...server.named]) seen.add(cursor);
    const watermark = await store.state.get('watermark');
    if (watermark === null) return;
    const kept = new Set(
      query<{ cursor: string }>(`
        select cast(cursor as text) as cursor from events where cursor is not null
        union select cast(cursor as text) from quarantine where cursor is not null`).map((row) => row.cursor),
    );
    const { floor } = await store.read.status(clock.time);
    const passed = [...server.shown.values()].filter(
      (shown) => BigInt(shown.cursor) <= BigInt(watermark) && BigInt(shown.cursor) > BigInt(floor ?? -1),
    );
    const lost = passed.filter((shown) => !kept.has(shown.cursor) && isWanted(shown)).map(({ cursor }) => cursor);
    expect(lost, `everything up to the watermark ${watermark} is stored`).toEqual([]);
    expect(
      [...seen, ...kept].some((cursor) => BigInt(cursor) >= BigInt(watermark)),
      'watermark was seen',
    ).toBe(true);
  }

  /** True if EVENT_TYPES includes the item. Tests that set EVENT_TYPES show only readable items. */
  function isWanted({ json_payload }: Item): boolean {
    if (types.includes('*')) return true;
    const [type] = Object.keys(JSON.parse(json_payload) as object);
    return types.includes(type ?? '');
  }

  const rig: Rig = {
    ...file,
    ...testLog,
    clock,
    server,
    restart,
    woken: () => wakes,
    async step() {
      const calls = server.requests.length;
      const delay = await reconciler.step();
      await assertPromises(calls);
      expect(delay).toBeGreaterThanOrEqual(0);
      return delay;
    },
    async settle() {
      for (let steps = 0; steps < 200; steps++) {
        const delay = await rig.step();
        if ((await rig.state()).state !== 'running') return;
        clock.time += Math.ceil(delay);
      }
      throw new Error('it never comes to rest');
    },
    async pass(ms) {
      const end = clock.time + ms;
      for (let steps = 0; clock.time < end; steps++) {
        if (steps > ms / 100 + 200) throw new Error('it spins');
        clock.time += Math.min(Math.ceil(await rig.step()), end - clock.time);
      }
    },
    async webhook(cursor, { type = 'MessageReceived', id = `e${cursor}`, data = fields(cursor) } = {}) {
      const created_at = '2026-01-01T12:00:00.000Z';
      const session_id = '5f0c3a52-6f1e-4c55-9a52-9d9f5b1f6d11';
      const body = {
        id,
        type,
        created_at,
        cursor: String(cursor),
        session_id,
        webhook_id: 'w',
        data: { [type]: data },
      };
      const reading = readDelivery(Buffer.from(JSON.stringify(body)));
      await store.ingest.accept({ readings: [reading], now: clock.now() });
      seen.add(String(cursor));
    },
    prove: () => reconciler.prove(),
    saw: (cursor) => void seen.add(cursor),
    now: () => reconciler.now(),
    fresh: () => reconciler.fresh(),
    ask: () => store.state.note({}, { reconcile_asked: clock.now() }),
    async state() {
      const { state, lastAt, reason } = (await store.read.status(clock.now())).reconcile;
      return { state, lastAt, reason };
    },
    watermark: () => store.state.get('watermark'),
    stored: () =>
      query<{ cursor: string }>(
        'select cast(cursor as text) as cursor from events where cursor is not null order by events.cursor',
      ).map((row) => row.cursor),
    asked: () => server.requests.map(({ after }) => after),
    async close() {
      await server.close();
      file.remove();
    },
  };
  return rig;
}

/** A rig that is closed when the test has ended. */
export async function openRig(options?: RigOptions): Promise<Rig> {
  const rig = await createRig(options);
  onTestFinished(rig.close);
  return rig;
}

/** The service and the kit know events 1 to 5. The watermark is 5. */
export async function caughtUp(options?: RigOptions): Promise<Rig> {
  const rig = await openRig(options);
  rig.server.publish(...upTo(5));
  await rig.webhook(1);
  await rig.settle();
  expect(await rig.watermark()).toBe('5');
  return rig;
}

/** Two overlap periods after `caughtUp`, so that overlap passes have nothing to read. */
export async function quiet(options?: RigOptions): Promise<Rig> {
  const ready = await caughtUp(options);
  ready.clock.time += 2 * OVERLAP_MS;
  await ready.settle();
  ready.clock.time += INTERVAL_MS;
  return ready;
}

export const upTo = (last: number, first = 1): Item[] =>
  Array.from({ length: last - first + 1 }, (_, i) => item(first + i));

export const itemsOf = ({ body }: Answer): Item[] => (body as { events: Item[] }).events;
