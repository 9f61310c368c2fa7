// Runs the checks of `doctor` in order and collects their findings. A check gets only the variables that it needs. It
// is skipped if a check that it depends on has a fault.
import type { Clock } from '../../base/clock.ts';
import { ConfigError, loadConfig, type Config, type Env } from '../../config.ts';
import { EXIT, loggable } from '../../base/errors.ts';
import { StoreError } from '../../store/store.ts';

export interface Finding {
  state: 'ok' | 'warning' | 'fault' | 'skipped';
  /** Never holds a secret, a key, or the credentials or query of an address. */
  detail: string;
  remedy: string | null;
  /** The exit code that this finding asks for. */
  exit: number;
}

export interface Context {
  env: Env;
  clock: Clock;
  /** The address of `--url`, which replaces PUBLIC_URL. */
  url: string | undefined;
  config: Config;
}

export interface Check {
  name: string;
  /** Variables that the check reads. A fault in one of them skips this check. */
  needs?: (keyof Config)[];
  /** Names of checks. A fault in one of them skips this check. */
  after?: string[];
  run: Run;
  /** Runs instead of `run` if `after` would skip the check. */
  groundless?: Run;
}

type Run = (context: Context) => Finding | Finding[] | Promise<Finding | Finding[]>;

export const ok = (detail: string): Finding => ({ state: 'ok', detail, remedy: null, exit: EXIT.done });
export const skipped = (because: string): Finding => ({ ...ok(`because ${because}`), state: 'skipped' });
export const warning = (detail: string, remedy: string): Finding => ({ ...ok(detail), state: 'warning', remedy });
export const fault = (detail: string, remedy: string, exit: number = EXIT.failed): Finding => {
  return { state: 'fault', detail, remedy, exit };
};
export const misconfigured = (detail: string, remedy: string): Finding => fault(detail, remedy, EXIT.configuration);
export const unreachable = (detail: string, remedy: string): Finding => fault(detail, remedy, EXIT.unreachable);

/** Runs the checks in order, and yields each finding when it is found. */
export async function* examine(checks: Check[], context: Omit<Context, 'config'>) {
  const faulty = new Set<string>();
  for (const check of checks) {
    const ground = check.after?.find((name) => faulty.has(name));
    const run = ground === undefined ? check.run : check.groundless;
    const found = run ? await attempt({ ...check, run }, context) : [skipped(`${ground} has a fault, or was skipped`)];
    // A skipped check also skips those that depend on it.
    if (ground !== undefined) faulty.add(check.name);
    for (const finding of found) {
      if (finding.state === 'fault') faulty.add(check.name);
      yield { check: check.name, ...finding };
    }
  }
}

async function attempt({ needs = [], run }: Check, context: Omit<Context, 'config'>): Promise<Finding[]> {
  try {
    return [await run({ ...context, config: loadConfig(context.env, { only: needs }) })].flat();
  } catch (error) {
    if (error instanceof ConfigError) return [skipped(`the configuration has faults in ${namesIn(error)}`)];
    if (error instanceof StoreError) {
      // A locked or failing store may recover. Any other store error needs a change of the configuration.
      const passing = error.code === 'busy' || error.code === 'unwritable';
      return [(passing ? unreachable : misconfigured)(error.message, 'fix that, then run doctor again')];
    }
    const { error: name, at } = loggable(error);
    return [fault(`the check itself failed: ${name} (${at})`, 'fix or report it: doctor should not fail')];
  }
}

function namesIn({ faults }: ConfigError): string {
  return [...new Set(faults.map((one) => one.split(' ', 1)[0]))].join(', ');
}

/** The code of the most important finding: configuration, then unreachable, then the rest. */
export function exitOf(findings: Finding[]): number {
  const exits = findings.map(({ exit }) => exit);
  return [EXIT.configuration, EXIT.unreachable, EXIT.failed].find((exit) => exits.includes(exit)) ?? EXIT.done;
}

/** The address without its credentials and query. */
export function shown(url: string): string {
  const { protocol, host, pathname } = new URL(url);
  return `${protocol}//${host}${pathname}`;
}
