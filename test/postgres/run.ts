// `npm run test:postgres`: runs the tests that need a PostgreSQL server. Without TEST_POSTGRES_URL it installs one on first
// use, starts it for this run, and removes its data afterwards.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { EXIT } from '../../src/base/errors.ts';
import { installServer } from './install.ts';
import { startServer } from './server.ts';

const given = process.env['TEST_POSTGRES_URL'];
if (!given) await installServer('set TEST_POSTGRES_URL to a server of your own');
const server = given ? undefined : await startServer();
const tests = spawn(
  process.execPath,
  ['node_modules/vitest/vitest.mjs', 'run', '--project', 'postgres', ...process.argv.slice(2)],
  { stdio: 'inherit', env: { ...process.env, TEST_POSTGRES_URL: given ?? server?.url } },
);
// The terminal signals the tests as well. This process waits for their end, and then stops the server.
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => tests.kill(signal));
const [code] = (await once(tests, 'exit')) as [number | null];
await server?.stop();
process.exit(code ?? EXIT.failed);
