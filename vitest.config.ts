import { fileURLToPath } from 'node:url';
import { defineConfig } from 'vitest/config';

const at = (path: string): string => fileURLToPath(new URL(path, import.meta.url));

export default defineConfig({
  resolve: {
    alias: [
      { find: /^#kit$/, replacement: at('./src/kit.ts') },
      { find: /^#kit\/testing$/, replacement: at('./src/testing.ts') },
    ],
  },
  test: { include: ['{test,templates}/**/*.test.ts'], isolate: false, maxWorkers: '100%', testTimeout: 20_000 },
});
