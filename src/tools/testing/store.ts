// The store of one call of `deliver`: in memory. If KIT_TEST_STORE names a PostgreSQL server, it is a real store in a new
// schema there, so that the handler's SQL runs on the database that it was written for. vitest.config.ts sets the
// variable, and test/handler-store.ts drops the schemas.
import { randomUUID } from 'node:crypto';
import { inSchema } from '../own-schema.ts';
import { open } from '../../store/open.ts';
import type { ProcessStore } from '../../store/processes.ts';
import type { ReadStore, ShownTask, TaskFilter } from '../../store/read.ts';
import type { SqlRow } from '../../store/work.ts';
import type { Store } from '../../store/store.ts';
import { openMemory } from './memory/store.ts';

/** The methods that `deliver` needs. */
export interface TestStore extends Pick<Store, 'ingest' | 'work' | 'close'> {
  state: Pick<Store['state'], 'note'>;
  processes: Pick<ProcessStore, 'nextBoot' | 'giveBack' | 'isolatedDue'>;
  read: Pick<ReadStore, 'counters' | 'gaps'> & {
    tasks(
      filter: Pick<TaskFilter, 'state' | 'before' | 'limit'>,
      now: number,
    ): Promise<{ tasks: Pick<ShownTask, 'id' | 'key' | 'state' | 'attempts' | 'late' | 'error' | 'dueAt'>[] }>;
  };
}

export interface OpenedStore {
  store: TestStore;
  /** Also works after `store.close()`. */
  query: (sql: string) => Promise<SqlRow[]>;
}

export function openTestStore(): OpenedStore {
  const server = process.env['KIT_TEST_STORE'];
  if (server) return openOn(server);
  const store = openMemory();
  // The memory is freed with the last reference to it.
  return { store: { ...store, close: () => {} }, query: (sql) => store.work.read(sql, []) };
}

/** `server`: the schema in its address is the beginning of the new one's name. */
function openOn(server: string): OpenedStore {
  const prefix = new URL(server).searchParams.get('schema') ?? 'kit_test';
  const url = inSchema(server, `${prefix}_${randomUUID().replaceAll('-', '').slice(0, 20)}`);
  return {
    store: open(url, { owner: true }),
    async query(sql) {
      // Test files make many stores, and a server has few connections.
      const again = open(url);
      try {
        return await again.work.read(sql, []);
      } finally {
        again.close();
      }
    },
  };
}
