// A real store file with a settable clock, and helpers that make events and tasks.
import type { Instance } from '../../src/store/processes.ts';
import type { Store } from '../../src/store/store.ts';
import type { NewTask } from '../../src/store/work.ts';
import { readDelivery } from '../../src/wire/event.ts';
import { createClock, createStoreFile, type StoreFile, type TestClock } from '../reconcile/harness.ts';
import { fields } from '../reconcile/replay-server.ts';

export interface Records extends StoreFile {
  clock: TestClock;
}

export function createRecords(): Records {
  return { ...createStoreFile(), clock: createClock() };
}

export interface Delivered {
  cursor?: string | null;
  id?: string;
  type?: string;
  session?: string;
  data?: object;
}

/** Receives these deliveries, each a second after the one before. */
export async function deliver({ store, clock }: Records, ...events: Delivered[]): Promise<void> {
  for (const { cursor = null, id = `e${cursor}`, type = 'MessageReceived', session = SESSION, data } of events) {
    clock.time += 1_000;
    const held = { [type]: data ?? fields(cursor ?? id, { session_id: session, timestamp_unix_ms: clock.time }) };
    const envelope = {
      id,
      type,
      created_at: new Date(clock.time).toISOString(),
      cursor,
      session_id: session,
      data: held,
    };
    await store.ingest.accept({ readings: [readDelivery(Buffer.from(JSON.stringify(envelope)))], now: clock.time });
  }
}

/** Three instances on one PostgreSQL store: one leads, one stands by, one is lost. */
export const INSTANCES: Instance[] = [
  { name: 'first:11', leads: true, processes: ['keep', 'receive', 'run'], lostAt: null },
  { name: 'second:22', leads: false, processes: ['keep', 'receive'], lostAt: null },
  { name: 'third:33', leads: false, processes: [], lostAt: '2026-01-02T03:04:05.678Z' },
].map((one, n) => ({
  instance: n + 1,
  version: '0.1.0',
  handlers: ['answer'],
  since: `2026-01-0${n + 1}T00:00:00.000Z`,
  ...one,
}));

/** A name is made of the name of the host. This one holds markup, and characters that control a terminal. */
export const HOSTILE = '<img src=x onerror="alert(1)">\u001b[2J\u202e\n&\':44';

export const SESSION = '5f0c3a52-6f1e-4c55-9a52-9d9f5b1f6d11';
export const OTHER_SESSION = '00000000-6f1e-4c55-9a52-9d9f5b1f6d11';

/** Makes a due task for each handler and each event without tasks. Returns the ids of the handlers. */
export async function fanOut(
  { store, clock }: Records,
  names: string[],
  more: Partial<NewTask> = {},
): Promise<number[]> {
  const ids = await store.work.register(names);
  const handlers = names.map((name) => ids.get(name) ?? 0);
  const { from, events } = await store.work.pending(1_000);
  const tasks = events.flatMap(({ seq, cursor }) =>
    handlers.map((handler) => ({ event: seq, handler, lane: null, cursor, releaseAt: clock.time, ...more })),
  );
  await turn(store, clock, { fanOut: { from, upTo: events.at(-1)?.seq ?? from, tasks } });
  return handlers;
}

/** Claims one task of the handler and ends it in this state. */
export async function end(
  { store, clock }: Records,
  handler: number,
  state: 'done' | 'dead' | 'skipped',
  error: string | null = null,
): Promise<number> {
  const { claims } = await turn(store, clock, { room: 1, handlers: [handler] });
  const [claimed] = claims;
  if (!claimed) throw new Error('no task is due');
  await turn(store, clock, { settle: [{ claim: claimed, state, error }] });
  return claimed.task;
}

/** Claims one task of the handler and leaves it running. */
export async function claim({ store, clock }: Records, handler: number): Promise<number | undefined> {
  const { claims } = await turn(store, clock, { room: 1, handlers: [handler] });
  return claims[0]?.task;
}

function turn(store: Store, clock: TestClock, more: Partial<Parameters<Store['work']['turn']>[0]>) {
  return store.work.turn({ now: clock.time, boot: 1, settle: [], fanOut: null, room: 0, handlers: [], ...more });
}
