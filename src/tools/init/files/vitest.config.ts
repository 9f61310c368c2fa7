// `unit`: the receiver as a whole, and the templates; `handlers`: your own tests.
import { fileURLToPath } from 'node:url';
import { defineConfig } from 'vitest/config';

const at = (path: string): string => fileURLToPath(new URL(path, import.meta.url));
/** As in package.json, for a HANDLERS_DIR outside of this repository too. */
export const resolve = {
  alias: [
    { find: /^#kit$/, replacement: at('./src/kit.ts') },
    { find: /^#kit\/testing$/, replacement: at('./src/testing.ts') },
  ],
};

const OWN = 'test/handlers/**/*.test.ts';
const testTimeout = 20_000;

/** Calls of `deliver` on a PostgreSQL server, each in a schema of its own. Otherwise they run in memory. */
function storeOf(server = ''): { env?: Record<string, string>; globalSetup?: string } {
  if (!/^postgres(ql)?:/.test(server)) return {};
  const url = new URL(server);
  url.searchParams.set('schema', `kit_test_${process.pid}`);
  return { env: { KIT_TEST_STORE: url.href }, globalSetup: 'test/handler-store.ts' };
}

export default defineConfig({
  test: {
    projects: [
      { resolve, test: { name: 'unit', include: ['{test,templates}/**/*.test.ts'], exclude: [OWN], testTimeout } },
      // On the database of your handlers, if the environment has its DATABASE_URL.
      { resolve, test: { name: 'handlers', include: [OWN], ...storeOf(process.env['DATABASE_URL']), testTimeout } },
    ],
  },
});
