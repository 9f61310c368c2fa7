// Starts on an SQLite store that is to be moved into PostgreSQL. Which of the two is the store is written in PostgreSQL.
import { existsSync } from 'node:fs';
import type { Client } from 'pg';
import { iso } from '../../../base/clock.ts';
import { retryWhileBusy } from '../../retry-while-busy.ts';
import { START_MS, type Moved, type Site, type Taken } from '../../site.ts';
import { StoreError, type Store } from '../../store.ts';
import type { Address } from '../connection.ts';
import { move } from './move.ts';
import type { Target } from './tables.ts';
import { createSwitch } from './switch.ts';

/** Minimum interval between two notes of the progress, milliseconds. */
const NOTE_MS = 1_000;

export interface MoveFrom {
  path: string;
  site: Site;
}

/** `store`: the store in PostgreSQL. `from`: the file, if MOVE_FROM names one. */
export async function takeFor(
  store: Store,
  address: Address,
  from: MoveFrom | undefined,
  options: Parameters<Site['take']>[0],
): Promise<Taken> {
  const own: Taken = { store, logLost: false, release: () => store.close() };
  const [movedAt, moving] = await Promise.all([store.state.get('moved_at'), store.state.get('moving')]);
  if (movedAt !== null || !from) {
    if (movedAt !== null || moving === null) return own;
    throw new StoreError(
      'missing',
      `a move into ${address.name} has not ended: set MOVE_FROM again to start it anew, or set DATABASE_URL to the file`,
    );
  }
  if (!existsSync(from.path))
    throw new StoreError('missing', `there is no file ${from.path} to move: see MOVE_FROM, or take it out`);
  const events = await store.keep.newestEvent();
  if (moving === null && events > 0)
    throw new StoreError(
      'owned',
      `${address.name} holds events of its own: take MOVE_FROM out, or name an empty schema with ?schema=… in DATABASE_URL`,
    );
  const file = await from.site.take({ ...options, moving: true });
  const both = createSwitch(file.store);
  return {
    store: both.store,
    logLost: file.logLost,
    release() {
      file.release();
      store.close();
    },
    async move(onProgress): Promise<Moved> {
      // Handlers are not at work, so every claim is of a process that is gone.
      await retryWhileBusy(() => file.store.processes.giveBack([], file.store.now()), START_MS);
      const client = await connect(address);
      let notedAt = -Infinity;
      try {
        return await move({
          path: from.path,
          target: targetOf(client, address.schema),
          async hold(work) {
            await both.hold(async () => {
              await work();
              // A crash before the second note leaves the file as the store, and one after it, PostgreSQL.
              await file.store.state.note({}, { moved_to: JSON.stringify(address.name) });
              await retryWhileBusy(() => store.state.note({}, { moved_at: store.now(), moving: null }));
              both.to(store);
            });
          },
          onProgress(progress) {
            if (performance.now() - notedAt < NOTE_MS) return;
            notedAt = performance.now();
            const since = iso(store.now());
            void store.state.note({}, { moving: JSON.stringify({ ...progress, since }) }).catch(() => {});
            onProgress(progress);
          },
          begin: () => store.state.note({}, { moving: JSON.stringify({ rows: 0, of: 0, since: iso(store.now()) }) }),
        });
      } finally {
        await client.end();
      }
    },
  };
}

/** Every value is text, so that it can be compared with what the file holds. */
async function connect({ url }: Address): Promise<Client> {
  const { default: pg } = await import('pg');
  const client = new pg.Client({
    connectionString: url,
    application_name: 'webhook-receiver-kit move',
    types: { getTypeParser: () => (value: string) => value },
  });
  client.on('error', () => {});
  await client.connect();
  return client;
}

function targetOf(client: Client, schema: string): Target {
  return { schema, query: (text, values) => client.query({ text, values: values ?? [], rowMode: 'array' }) };
}
