// Shared by the tests of `run`: a real store with one claimed task, a clock that tests set, and handlers with defaults.
import { AsyncLocalStorage } from 'node:async_hooks';
import { join } from 'node:path';
import { pino } from 'pino';
import { onTestFinished } from 'vitest';
import { startAttempt, type Attempt, type AttemptOptions } from '../../src/run/attempt.ts';
import { readEvent } from '../../src/run/event.ts';
import { checkHandler, type Loaded } from '../../src/run/load.ts';
import { openSqlite } from '../../src/store/sqlite/open.ts';
import type { Store } from '../../src/store/store.ts';
import type { Claim, Claimed, Outcome, StoredEvent } from '../../src/store/work.ts';
import type { Cursor } from '../../src/wire/cursor.ts';
import { readDelivery } from '../../src/wire/event.ts';
import { createFolder } from '../store/fixture.ts';

export const T0 = Date.UTC(2026, 0, 1);
export const CURSOR = '1' as Cursor;
export const SESSION = '6f1c2f8e-8f4e-4c3a-9a51-3d2f0a6b7c11';
export const FILE = '/handlers/one.ts';
export const clock = { now: () => T0, monotonic: () => 0 };

export function createStore(): Store {
  const store = openSqlite(join(createFolder(), 'events.db'), { clock });
  onTestFinished(() => store.close());
  return store;
}

/** Fields of another kind than a handler's are refused, as in a file. */
export const handlerOf = (fields: Partial<Loaded> = {}): Loaded => ({
  ...checkHandler({ on: '*', handle() {} }, 'one', true),
  file: FILE,
  ...fields,
});

export const stored = (fields: Partial<StoredEvent> = {}, data: object = {}): StoredEvent => ({
  seq: 1,
  cursor: CURSOR,
  id: 'id-1',
  type: 'Thing',
  session: 'a',
  createdAt: T0,
  receivedAt: T0,
  origin: 'webhook',
  body: JSON.stringify({ data: { [fields.type ?? 'Thing']: data } }),
  ...fields,
});

/** A MessageReceived. */
export const message = (data: object = {}): StoredEvent =>
  stored({ type: 'MessageReceived' }, { session_id: SESSION, from: 'x', message_id: 'm', ...data });

export const taskOf = (fields: Partial<Claimed> = {}): Claimed => ({
  event: 1,
  attempts: 0,
  crashes: 0,
  failedAt: null,
  late: false,
  notes: {},
  ...fields,
});

/** Stores one event, makes its only task, and claims it. */
export async function claimIn({ ingest, work }: Store): Promise<Claim> {
  const body = { id: 'id-1', type: 'Thing', cursor: '1', created_at: null, data: { Thing: { session_id: 'a' } } };
  await ingest.accept({ readings: [readDelivery(Buffer.from(JSON.stringify(body)))] });
  const handler = (await work.register([{ name: 'one', file: FILE, fault: null }], 0)).get('one') ?? 0;
  const { boot } = await work.begin('live', false);
  const tasks = [{ handler, event: 1, cursor: CURSOR, receivedAt: T0, lane: 'a' }];
  const fanOut = [{ handler, from: 0, upTo: 1, tasks }];
  const rooms = [{ handler, order: 'arrival', windowMs: 0, chain: 1, tasks: 1 } as const];
  const look = await work.look([handler]);
  const { claims } = await work.turn({ boot, look, ended: [], fanOut, rooms, claim: 1, suspects: false });
  if (!claims[0]) throw new Error('nothing was claimed');
  return claims[0];
}

export interface Lines {
  log: AttemptOptions['log'];
  lines: Record<string, unknown>[];
}

export function createLines(): Lines {
  const lines: Record<string, unknown>[] = [];
  const write = (line: string): void => void lines.push(JSON.parse(line) as Record<string, unknown>);
  return { log: pino({ level: 'debug' }, { write }), lines };
}

/** Without a store, unless it is given. */
export function start(handler: Partial<Loaded>, options: Partial<AttemptOptions> = {}): Attempt {
  const gone = (): Promise<never> => Promise.reject(new Error('no store in this test'));
  return startAttempt({
    store: { note: gone, complete: gone, read: gone },
    clock,
    log: createLines().log,
    serviceFor: () => {
      throw new Error('no service in this test');
    },
    claim: { handler: 1, lane: 1, boot: 1, claim: 1, tasks: [] },
    task: taskOf(),
    event: readEvent(stored()),
    scopes: new AsyncLocalStorage(),
    ...options,
    handler: handlerOf(handler),
  });
}

export const run = (handle: Loaded['handle'], options?: Partial<AttemptOptions>): Promise<Outcome | null> =>
  start({ handle }, options).done;
