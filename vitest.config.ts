import { fileURLToPath } from 'node:url';
import { defineConfig } from 'vitest/config';

const at = (path: string): string => fileURLToPath(new URL(path, import.meta.url));
const alias = [
  { find: /^#kit$/, replacement: at('./src/kit.ts') },
  { find: /^#kit\/testing$/, replacement: at('./src/testing.ts') },
];
const common = { isolate: false, testTimeout: 20_000 };

const project = (name: string, include: string[], more: object = {}) => ({
  resolve: { alias },
  test: { ...common, name, include, ...more },
});

export default defineConfig({
  test: {
    maxWorkers: '100%',
    projects: [
      project('kit', ['{test,templates}/**/*.test.ts'], { exclude: ['test/{page,postgres}/**', '**/node_modules/**'] }),
      project('page', ['test/page/*.test.ts']),
      // The suite of the store once more, and what only PostgreSQL has.
      project('postgres', ['test/{store,postgres}/*.test.ts'], {
        env: { TEST_STORE: 'postgres' },
        globalSetup: at('./test/postgres/setup.ts'),
        setupFiles: at('./test/postgres/skip.ts'),
      }),
    ],
  },
});
