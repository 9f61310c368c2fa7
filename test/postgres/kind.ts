// Stores on the tests' PostgreSQL server, one schema for each path.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { openPostgres } from '../../src/store/postgres/open.ts';
import { translate } from '../../src/store/postgres/translate.ts';
import type { Kind } from '../stores.ts';
import { query } from './blocking.ts';
import { schemaOf } from './pool.ts';
import { addressIn } from './server.ts';

export const kind: Kind = {
  name: 'postgres',
  open(path, options) {
    if (path !== ':memory:') return openPostgres(addressIn(schemaOf(path)), options);
    const own = join(mkdtempSync(join(tmpdir(), 'kit-memory-')), 'events.db');
    const store = kind.open(own, options);
    const close = (): void => {
      store.close();
      rmSync(dirname(own), { recursive: true });
    };
    return { ...store, close };
  },
  queries(path) {
    const schema = schemaOf(path);
    return {
      query: <Row>(sql: string, ...values: unknown[]) => query(schema, translate(sql, schema).text, values) as Row[],
      exec: (sql) => void query(schema, sql),
      refuse(table, when) {
        query(
          schema,
          `create function refuse() returns trigger language plpgsql as $$ begin raise 'test'; end $$;
           create trigger refuse before insert on ${table} for each row when (${when}) execute function refuse()`,
        );
        return () => void query(schema, 'drop function refuse cascade');
      },
      close() {},
    };
  },
};
