// The place of a PostgreSQL store: a schema on a server.
import { createHash } from 'node:crypto';
import { retryWhileBusy } from '../retry-while-busy.ts';
import { START_MS, type Site } from '../site.ts';
import { addressOf } from './connection.ts';
import { remedyOf } from './fault.ts';
import { openPostgres } from './open.ts';

export function siteOf(url: string): Site {
  const { name, schema } = addressOf(url);
  return {
    name,
    fingerprint: createHash('sha256').update(`${name} ${schema}`).digest('hex').slice(0, 16),
    async take(options) {
      const store = openPostgres(url, { ...options, owner: true });
      try {
        await retryWhileBusy(() => store.processes.settle(), START_MS);
      } catch (error) {
        store.close();
        throw error;
      }
      return { store, logLost: false, release: () => store.close() };
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
