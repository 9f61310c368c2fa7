import { fileURLToPath } from 'node:url';
import { defineConfig } from 'vitest/config';

const at = (path: string): string => fileURLToPath(new URL(path, import.meta.url));

export default defineConfig({
  resolve: {
    alias: [{ find: /^#kit$/, replacement: at('./src/kit.ts') }],
  },
  test: { include: ['test/**/*.test.ts'], maxWorkers: '100%', testTimeout: 20_000 },
});
