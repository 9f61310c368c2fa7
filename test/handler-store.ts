// The store of tests that call `deliver`: in memory, or on a PostgreSQL server. There each call makes a schema, and all
// of them are dropped after the run.
import { dropSchemas, inSchema } from '../src/tools/own-schema.ts';

const PREFIX = `kit_test_${process.pid}`;

/** Variables for the tests. `server`: undefined, or another kind of store: in memory. */
export function storeOf(server = ''): Record<string, string> {
  return /^postgres(ql)?:/.test(server) ? { KIT_TEST_STORE: inSchema(server, PREFIX) } : {};
}

export default function makeSchemas({ config }: { config: { env: { KIT_TEST_STORE?: string } } }): () => Promise<void> {
  const { KIT_TEST_STORE: server } = config.env;
  return async () => {
    if (server) await dropSchemas(server, (name) => name.startsWith(`${PREFIX}_`));
  };
}
