// A reload reads the configuration and the handlers again while deliveries are accepted. If the configuration or a
// handler has a fault, its old version stays in force.
import type { Logger } from '../base/log.ts';
import { ConfigError, loadConfig, readEnv, type Config, type Env } from '../config.ts';
import type { Children } from '../processes/children.ts';
import type { Reloaded } from '../store/processes.ts';

/** The main process reads these variables once, so a change needs a restart. A reload applies changes of the others. */
const FIXED = [
  'PORT',
  'HOST',
  'WEBHOOK_PATH',
  'WEBHOOK_HEADER_PREFIX',
  'TIMESTAMP_TOLERANCE_SECONDS',
  'BODY_LIMIT_BYTES',
  'MAX_CONNECTIONS',
  'DATABASE_URL',
  'MOVE_FROM',
  'LOG_LEVEL',
  'LOG_FORMAT',
];

type Outcome = Omit<Reloaded, 'asked'>;

interface ReloadOptions {
  /** The environment when the kit started. */
  first: Env;
  children: Pick<Children, 'handlers' | 'warnings' | 'reload' | 'restartKeep'>;
  log: Logger;
  /** Puts the new configuration in force. */
  use: (config: Config, env: Env) => void;
  /** Reports the outcome to the command that asked for the reload. */
  tell: (outcome: Outcome) => Promise<void>;
}

export function createReload({ first, children, log, use, tell }: ReloadOptions): () => Promise<void> {
  return async () => {
    const began = performance.now();
    const outcome = (more: Pick<Outcome, 'faults' | 'old' | 'restart'>): Outcome => ({
      handlers: children.handlers(),
      warnings: children.warnings(),
      ms: Math.round(performance.now() - began),
      ...more,
    });
    const read = readConfig();
    if (read instanceof ConfigError) {
      const { faults } = read;
      log.error({ faults }, 'SIGHUP: the configuration has faults; the old one stays in force');
      return tell(outcome({ faults, old: 'configuration stays in force', restart: [] }));
    }
    const { env, config } = read;
    use(config, env);
    const restart = FIXED.filter((name) => env[name] !== first[name]);
    if (restart.length > 0)
      log.warn({ names: restart }, 'SIGHUP: these variables have changed and need a restart of the kit');
    const faults = await children.reload();
    const done = outcome({ faults, old: faults.length > 0 ? 'handlers go on' : null, restart });
    if (faults.length > 0)
      log.error({ faults }, 'SIGHUP: secrets reloaded, but handlers have faults; the old handlers keep running');
    else
      log.info(
        { secrets: config.WEBHOOK_SECRET.length, handlers: done.handlers, ms: done.ms },
        'SIGHUP: secrets and handlers reloaded; run has restarted, keep is restarting',
      );
    await tell(done);
    await children.restartKeep();
  };
}

function readConfig(): { env: Env; config: Config } | ConfigError {
  try {
    const env = readEnv();
    return { env, config: loadConfig(env) };
  } catch (error) {
    if (error instanceof ConfigError) return error;
    throw error;
  }
}

/** Never runs `work` twice at the same time. Calls during a run cause one more run after it. */
export function serially(work: () => Promise<void>): () => Promise<void> {
  let busy = false;
  let again = false;
  return async () => {
    again = true;
    if (busy) return;
    busy = true;
    while (again) {
      again = false;
      await work();
    }
    busy = false;
  };
}
