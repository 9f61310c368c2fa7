import base from '/work/main/vitest.config.ts';
import { resolve } from '/work/main/vitest.config.ts';
import { defineConfig } from 'vitest/config';
export default defineConfig({ root: '/work/main', test: { projects: [{ resolve, test: { name: 'postgres', include: ['test/postgres/**/*.test.ts'], testTimeout: 20000, hookTimeout: 20000, fileParallelism: false } }] } });
