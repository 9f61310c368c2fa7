// One server for all tests on PostgreSQL. `TEST_POSTGRES_URL` names another one.
import type { TestProject } from 'vitest/node';
import { describe } from '../../src/base/errors.ts';
import { startServer } from './server.ts';

declare module 'vitest' {
  interface ProvidedContext {
    /** Null: there is no server, and the tests are skipped. */
    postgres: string | null;
  }
}

export default async function setup({ provide }: TestProject): Promise<(() => Promise<void>) | void> {
  const given = process.env['TEST_POSTGRES_URL'];
  if (given !== undefined) return provide('postgres', given);
  try {
    const { url, stop } = await startServer();
    provide('postgres', url);
    return stop;
  } catch (error) {
    console.warn(`tests on PostgreSQL are skipped: ${describe(error).message}`);
    provide('postgres', null);
  }
}
