// The place of a PostgreSQL store: a schema on a server.
import { createHash } from 'node:crypto';
import { retryWhileBusy } from '../retry-while-busy.ts';
import { START_MS, type Site } from '../site.ts';
import { addressOf } from './connection.ts';
import { remedyOf } from './fault.ts';
import { takeFor, type MoveFrom } from './move/start.ts';
import { openPostgres } from './open.ts';

/** `from`: the file that is to be moved into the store. */
export function siteOf(url: string, from?: MoveFrom): Site {
  const address = addressOf(url);
  const { name, schema } = address;
  return {
    name,
    fingerprint: createHash('sha256').update(`${name} ${schema}`).digest('hex').slice(0, 16),
    async take(options) {
      const store = openPostgres(url, { ...options, owner: true });
      try {
        await retryWhileBusy(() => store.processes.settle(), START_MS);
        return await takeFor(store, address, from, options);
      } catch (error) {
        store.close();
        throw error;
      }
    },
    async disk(store) {
      const [row] = await store.work.read(
        `select cast(coalesce(sum(pg_total_relation_size(c.oid)), 0) as bigint) as bytes
         from pg_class c join pg_namespace n on n.oid = c.relnamespace where n.nspname = ? and c.relkind = 'r'`,
        [schema],
      );
      return { storeBytes: Number(row?.['bytes'] ?? 0), logBytes: 0, freeBytes: Infinity };
    },
    freeBytes: () => Infinity,
    writer: () => undefined,
    remedyOf,
  };
}
