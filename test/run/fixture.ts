// Shared by the tests of `run`: a real store, a clock that tests set, events as the service sends them, and handlers
// with defaults. Each store is in a folder of its own.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pino } from 'pino';
import { onTestFinished } from 'vitest';
import type { Logger } from '../../src/base/log.ts';
import type { ServiceFor } from '../../src/run/runner-options.ts';
import type { Loaded } from '../../src/run/load-handlers.ts';
import { DEFAULT_RETRY } from '../../src/base/retry-policy.ts';
import type { Store } from '../../src/store/store.ts';
import type { Claim, StoredEvent } from '../../src/store/work.ts';
import type { Cursor } from '../../src/wire/cursor.ts';
import { readDelivery, type Reading } from '../../src/wire/event.ts';
import { storeKind } from '../stores.ts';

export const T0 = Date.UTC(2026, 0, 1);

/** A clock that stands still until it is set. `stepped`: the wall clock minus the monotonic clock, milliseconds. */
export interface SetClock {
  at: number;
  stepped: number;
  now(): number;
  monotonic(): number;
}

export function createClock(at = T0): SetClock {
  const clock = { at, stepped: 0, now: () => clock.at + clock.stepped, monotonic: () => clock.at };
  return clock;
}

/** A folder that is removed when the test has ended. */
export function createFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'kit-run-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

export function createStore(path = join(createFolder(), 'events.db')): Store {
  const store = storeKind.open(path, { owner: true });
  onTestFinished(() => store.close());
  return store;
}

export interface Sent {
  id?: string;
  type?: string;
  cursor?: number | string | null;
  session?: string | null;
  createdAt?: number;
  data?: Record<string, unknown>;
}

/** The event of a delivery, parsed from the bytes that the service would send. */
export function delivery({
  cursor = 1,
  id = `id-${cursor}`,
  type = 'Thing',
  session = 'a',
  createdAt = T0,
  data = {},
}: Sent = {}): Reading {
  const envelope = {
    id,
    type,
    created_at: new Date(createdAt).toISOString(),
    cursor: cursor === null ? null : String(cursor),
    session_id: session,
    webhook_id: 'wh_1',
    data: type === 'webhook.ping' ? data : { [type]: data },
  };
  return readDelivery(Buffer.from(JSON.stringify(envelope)));
}

export function handlerOf(fields: Partial<Loaded> = {}): Loaded {
  return {
    name: 'one',
    on: '*',
    lane: 'conversation',
    order: 'window',
    retry: DEFAULT_RETRY,
    laneHoldMs: 120_000,
    timeoutMs: 30_000,
    maxAgeMs: null,
    onStale: 'run',
    history: false,
    rate: null,
    setup: undefined,
    file: null,
    handle: () => {},
    ...fields,
  };
}

export function storedEvent(fields: Partial<StoredEvent> = {}): StoredEvent {
  return {
    seq: 1,
    key: 'c:1',
    id: 'id-1',
    cursor: '1' as Cursor,
    type: 'Thing',
    sessionId: 'a',
    createdAt: T0,
    receivedAt: T0,
    origin: 'webhook',
    live: 0,
    text: JSON.stringify({ type: 'Thing', data: { Thing: {} } }),
    ...fields,
  };
}

/** Accepts one event, creates its only task and claims the task. */
export async function claimOf(store: Store, reading: Reading = delivery(), now = T0): Promise<Claim> {
  await store.ingest.accept({ readings: [reading], now });
  const handler = (await store.work.register(['one'])).get('one') ?? 0;
  const { from, events } = await store.work.pending(1);
  const [event] = events;
  if (!event) throw new Error('there is no event to make a task of');
  const tasks = [{ event: event.seq, handler, lane: event.sessionId, cursor: event.cursor, releaseAt: now }];
  const turn = { now, boot: 1, settle: [], fanOut: { from, upTo: event.seq, tasks }, room: 2, handlers: [handler] };
  const [claim] = (await store.work.turn(turn)).claims;
  if (!claim) throw new Error('the task was not claimed');
  return claim;
}

/** A log that keeps its lines for the test. */
export function createLines(): { log: Logger; lines: Record<string, unknown>[] } {
  const lines: Record<string, unknown>[] = [];
  const log = pino(
    { level: 'debug' },
    { write: (line: string) => void lines.push(JSON.parse(line) as Record<string, unknown>) },
  );
  return { log, lines };
}

/** Waits for a condition, at most 5 s. */
export async function until(condition: () => boolean | Promise<boolean>, what = 'the condition'): Promise<void> {
  for (const end = Date.now() + 5_000; !(await condition());) {
    if (Date.now() > end) throw new Error(`waited in vain for ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 2));
  }
}

/** For handlers that do not call the service. */
export const noService = (() => undefined) as unknown as ServiceFor;
