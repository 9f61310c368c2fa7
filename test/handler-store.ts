// Drops the schemas that calls of `deliver` made on a PostgreSQL server, after the run.
import { dropSchemas } from '../src/tools/own-schema.ts';

export default function makeSchemas({ config }: { config: { env: { KIT_TEST_STORE?: string } } }): () => Promise<void> {
  const { KIT_TEST_STORE: server } = config.env;
  if (!server) throw new Error('KIT_TEST_STORE is not set, see vitest.config.ts');
  const prefix = `${new URL(server).searchParams.get('schema')}_`;
  return () => dropSchemas(server, (name) => name.startsWith(prefix));
}
