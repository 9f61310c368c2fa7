// The store of tests that call `deliver`: in memory, or on a PostgreSQL server. There each call makes a schema, and all
// of them are dropped after the run.
import { dropSchemas, inSchema } from '../src/store/postgres/own-schema.ts';

const PREFIX = `kit_test_${process.pid}`;

/** For a project of vitest. `server`: undefined, or another kind of store: in memory. */
export function storeOf(server = '') {
  if (!/^postgres(ql)?:/.test(server)) return {};
  return { env: { KIT_TEST_STORE: inSchema(server, PREFIX) }, globalSetup: 'test/handler-store.ts' };
}

export default function makeSchemas({ config }: { config: { env: Record<string, unknown> } }): () => Promise<void> {
  return () => dropSchemas(String(config.env['KIT_TEST_STORE']), (name) => name.startsWith(`${PREFIX}_`));
}
