// Two projects: `unit` is quick and needs nothing; `system` starts real processes, kills them, and takes its time.
import './src/base/node/checked.js';
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

export default defineConfig({
  test: {
    // Every core: most tests wait for disks and sockets.
    maxWorkers: '100%',
    projects: [
      {
        resolve,
        test: {
          name: 'unit',
          include: ['test/**/*.test.ts', 'templates/**/*.test.ts'],
          exclude: ['test/system/**', 'test/flow/**'],
          testTimeout: 20_000,
        },
      },
      {
        test: {
          name: 'system',
          include: ['test/system/**/*.test.ts', 'test/flow/**/*.test.ts'],
          testTimeout: 180_000,
          hookTimeout: 60_000,
          fileParallelism: false,
        },
      },
    ],
  },
});
