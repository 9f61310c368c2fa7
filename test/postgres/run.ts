// `npm run test:postgres`: runs the tests that need a PostgreSQL server. Without TEST_POSTGRES_URL it installs one on first
// use, starts it for this run, and removes its data afterwards.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { statSync } from 'node:fs';
import { join } from 'node:path';
import { EXIT } from '../../src/base/errors.ts';
import { startServer } from './server.ts';

/** A package of its own, so that `npm ci` of the kit does not install the server. */
const SERVER = join(import.meta.dirname, 'server');

const given = process.env['TEST_POSTGRES_URL'];
const server = given ? undefined : await startOwn();
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

async function startOwn() {
  if (timeOf('node_modules/.package-lock.json') < timeOf('package-lock.json')) {
    console.log('installing a PostgreSQL server into test/postgres/server, about 60 MB, once');
    const [failed] = await once(spawn('npm', ['ci'], { cwd: SERVER, stdio: 'inherit' }), 'exit');
    if (failed !== 0) {
      console.error(
        'npm ci failed in test/postgres/server: see above, or set TEST_POSTGRES_URL to a server of your own',
      );
      process.exit(EXIT.failed);
    }
  }
  return startServer();
}

/** 0: there is no such file. */
function timeOf(file: string): number {
  return statSync(join(SERVER, file), { throwIfNoEntry: false })?.mtimeMs ?? 0;
}
