// The arguments of `npm run dev`, and the variables that it takes from .env.
import { resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { describe, EXIT } from '../../base/errors.ts';
import { readSecretFiles } from '../../base/secrets.ts';
import { readEnv, schema, type Env } from '../../config.ts';

const USAGE = `npm run dev -- [--live] [--traffic] [--chaos] [--store <file>] [--no-open] [--inspect[=port]]
  --live     real events of your account, with API_BASE_URL and API_KEY of .env; default: a simulated service
  --traffic  sends an event each second
  --chaos    three of ten events of the traffic are lost, doubled, shuffled or late. The page can also switch both
  --store    the store's file; default: data/dev.db, or data/dev-live.db with --live
  --no-open  leaves the browser closed
  --inspect  for breakpoints in handlers: attach a debugger to this port; default: 9229. Attempts then have no timeout`;

export function readOptions() {
  const args = process.argv.slice(2).map((arg) => (arg === '--inspect' ? '--inspect=9229' : arg));
  const [flag, text] = [{ type: 'boolean', default: false } as const, { type: 'string' } as const];
  try {
    const options = { live: flag, traffic: flag, chaos: flag, 'no-open': flag, store: text, inspect: text };
    const { store = '', ...values } = parseArgs({ args, options }).values;
    if (values.live && (values.traffic || values.chaos)) throw new Error('--live has no simulated traffic');
    return { ...values, store: resolve(store || (values.live ? 'data/dev-live.db' : 'data/dev.db')) };
  } catch (error) {
    return refuse(error);
  }
}

export function refuse(error: unknown): never {
  process.stderr.write(`${describe(error).message}\n${USAGE}\n`);
  return process.exit(EXIT.usage);
}

/** HANDLERS_DIR and the handlers' own variables; with `live` also the API's. All others belong to the real kit. */
export function envOf(live: boolean): Env & { HANDLERS_DIR: string } {
  const { HANDLERS_DIR = 'src/handlers', API_BASE_URL, API_KEY, ...values } = readSecretFiles(readEnv()).values;
  const others = Object.entries(values).filter(([name]) => !Object.hasOwn(schema.shape, name.replace(/_FILE$/, '')));
  const real = { API_BASE_URL, API_KEY, STREAM: 'on', API_CALLS_PER_MINUTE: '24' };
  const simulated = { PAID_OPERATIONS: 'allow', RECONCILE_INTERVAL_SECONDS: '10' };
  return { ...Object.fromEntries(others), ...(live ? real : simulated), HANDLERS_DIR: resolve(HANDLERS_DIR) };
}
