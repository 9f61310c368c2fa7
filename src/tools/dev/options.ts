// The arguments of `npm run dev`, and the few variables that it takes from .env.
import { readdirSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { EXIT } from '../../base/errors.ts';
import { ConfigError, loadConfig, readEnv, VARIABLES, type Config } from '../../config.ts';

export const SECRET = 'whsec_of_npm_run_dev_and_nothing_else';
const INSPECT_PORT = '9229';
const USAGE = `usage: npm run dev -- [--live] [--traffic] [--chaos] [--store <file>] [--no-open] [--inspect[=port]]
  --live      real events of your account (API_BASE_URL and API_KEY); otherwise the account is simulated
  --traffic   one event a second; --chaos: late, doubled, lost and shuffled ones. The page switches both
  --store     where the events are kept; default: data/dev.db, with --live data/dev-live.db
  --no-open   opens no browser
  --inspect   breakpoints in handlers: attach to 127.0.0.1:${INSPECT_PORT}`;

export interface DevOptions {
  inspect: string | undefined;
  live: boolean;
  traffic: boolean;
  chaos: boolean;
  opens: boolean;
  store: string;
}

export function readArgs(): DevOptions {
  const args = process.argv.slice(2).map((arg) => (arg === '--inspect' ? `--inspect=${INSPECT_PORT}` : arg));
  try {
    const flag = { type: 'boolean', default: false } as const;
    const text = { type: 'string' } as const;
    const options = { live: flag, traffic: flag, chaos: flag, 'no-open': flag, store: text, inspect: text };
    const { inspect, store, 'no-open': closed, ...values } = parseArgs({ args, options }).values;
    if (inspect === undefined || /^[1-9]\d{0,4}$/.test(inspect)) {
      const file = store ?? (values.live ? 'data/dev-live.db' : 'data/dev.db');
      return { ...values, inspect, store: file, opens: !closed };
    }
  } catch {
    // Falls through to the refusal below.
  }
  return refuse(USAGE, EXIT.usage);
}

export function readConfig(live: boolean): Config {
  try {
    const found = loadConfig(readEnv(), {
      only: live ? ['HANDLERS_DIR', 'API_BASE_URL', 'API_KEY'] : ['HANDLERS_DIR'],
    });
    readdirSync(found.handlersDir);
    if (live && !found.API_KEY)
      throw new ConfigError(['API_BASE_URL and API_KEY are required with --live: set them in .env']);
    return found;
  } catch (error) {
    const remedy = 'HANDLERS_DIR cannot be read: create the folder, or name another';
    return refuse(error instanceof ConfigError ? error.message : remedy, EXIT.configuration);
  }
}

/**
 * The environment of the kit. Handlers keep their own variables, as `npm start` would read them. The kit's variables
 * are replaced, so that the real store stays untouched.
 */
export function kitEnv(config: Config, more: Record<string, string>): Record<string, string | undefined> {
  const handlersOwn = Object.entries(readEnv()).filter(([name]) => !VARIABLES.includes(name));
  return {
    ...Object.fromEntries(handlersOwn),
    WEBHOOK_SECRET: SECRET,
    HANDLERS_DIR: config.handlersDir,
    LOG_LEVEL: 'debug',
    PAID_OPERATIONS: 'refuse',
    ...more,
  };
}

function refuse(message: string, code: number): never {
  process.stderr.write(`${message}\n`);
  process.exit(code);
}
