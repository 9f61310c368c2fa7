// The parts of the kit that interleavings.ts tests, on a store in memory and without processes. The parts are called
// one after another, because the store's write lock also lets only one real process write at a time.
import Database from 'better-sqlite3';
import type { Loaded } from '../../../src/run/load-handlers.ts';
import type { IngestStore } from '../../../src/store/ingest.ts';
import type { ProcessStore } from '../../../src/store/processes.ts';
import { createIngest } from '../../../src/store/sql/ingest/events.ts';
import { createSession } from '../../../src/store/sql/session.ts';
import { createProcessStore } from '../../../src/store/sql/work/processes.ts';
import { createWorkStore } from '../../../src/store/sql/work/tasks.ts';
import { connect, migrate } from '../../../src/store/sqlite/connection.ts';
import { createDatabase } from '../../../src/store/sqlite/database.ts';
import { createIds } from '../../../src/store/sqlite/ingest/ids.ts';
import { createEventTable } from '../../../src/store/sqlite/ingest/table.ts';
import { createSession as createOwnSession } from '../../../src/store/sqlite/session.ts';
import type { WorkStore } from '../../../src/store/work.ts';
import type { Cursor } from '../../../src/wire/cursor.ts';
import { readDelivery, readItem, type Reading } from '../../../src/wire/event.ts';
import { handlerOf } from '../../run/fixture.ts';
import type { Queries } from '../../stores.ts';
import type { Arrival } from './model.ts';

export const T0 = Date.UTC(2026, 0, 1);
const ORDERS = ['arrival', 'window', 'strict'] as const;
const HANDLERS: Loaded[] = ORDERS.map((order) => handlerOf({ name: order, order, lane: 'session' }));

export interface Sent extends Arrival {
  origin: 'webhook' | 'replay' | 'stream';
  session: string;
}

/** An empty store, migrated once. Each case opens a copy. */
const empty = (() => {
  const db = connect(':memory:', { create: true });
  migrate(db, ':memory:');
  // The store counts as created at time 0, because an event that is older than the store would be history.
  db.exec("update state set value = 0 where name = 'born'");
  return db.serialize();
})();

export interface Process {
  store: WorkStore;
  boot: number;
  handlers: Map<number, Loaded>;
  ids: number[];
}

export interface Kit extends Pick<Queries, 'query' | 'close'> {
  owner: Pick<ProcessStore, 'giveBack'>;
  events: Pick<IngestStore, 'accept'>;
  /** A new `run`, which has nothing in memory. */
  start: () => Promise<Process>;
}

export type OpenKit = () => Kit;

/** On SQLite, in memory. */
export function openKit(): Kit {
  const db = new Database(empty);
  const session = createSession(createDatabase(db, ':memory:'));
  const ids = createIds(createOwnSession(db, ':memory:'));
  const events = createIngest(session, { events: createEventTable(db, ids, session.count) });
  const owner = createProcessStore(session);

  return {
    owner,
    events,
    start: async () => processOf(createWorkStore(session), await owner.nextBoot()),
    query: <Row>(sql: string, ...values: unknown[]) => db.prepare(sql).all(...values) as Row[],
    close: () => void db.close(),
  };
}

export async function processOf(store: WorkStore, boot: number): Promise<Process> {
  const numbers = await store.register([...ORDERS]);
  const handlers = new Map(HANDLERS.map((handler) => [numbers.get(handler.name) ?? 0, handler]));
  return { store, boot, handlers, ids: [...handlers.keys()] };
}

export function readingOf({ origin, id, cursor, data, session }: Sent): Reading {
  const held = { Thing: { session_id: session, timestamp_unix_ms: T0, text: data } };
  if (origin !== 'webhook') return readItem(origin, cursor as Cursor, JSON.stringify(held));
  return readDelivery(Buffer.from(JSON.stringify({ id, type: 'Thing', cursor, session_id: session, data: held })));
}
