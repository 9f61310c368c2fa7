// What a check is, what it finds, and how a list of them is gone through: each with the configuration that it needs, and
// none whose ground has given way already.
import type { Clock } from '../../base/clock.ts';
import { ConfigError, loadConfig, type Config, type Env } from '../../config.ts';
import { EXIT, loggable } from '../../base/errors.ts';
import { StoreError } from '../../store/store.ts';

export interface Finding {
  state: 'ok' | 'warning' | 'fault' | 'skipped';
  /** Never a secret, a key, or an address with its credentials or query. */
  detail: string;
  remedy: string | null;
  /** The exit code that a fault asks for. */
  exit: number;
}

export interface Context {
  env: Env;
  clock: Clock;
  /** Takes the place of PUBLIC_URL, for rehearsal. */
  url: string | undefined;
  config: Config;
}

export interface Check {
  name: string;
  /** A fault in one of these skips it. */
  needs?: (keyof Config)[];
  /** A fault in one of these checks skips it. */
  after?: string[];
  run: Run;
  /** Runs where `after` would skip the check: for what does not need that ground. */
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

/** In their order, as they are found. */
export async function* examine(checks: Check[], context: Omit<Context, 'config'>) {
  const faulty = new Set<string>();
  for (const check of checks) {
    const ground = check.after?.find((name) => faulty.has(name));
    const run = ground === undefined ? check.run : check.groundless;
    const found = run ? await attempt({ ...check, run }, context) : [skipped(`${ground} has a fault, or was skipped`)];
    // What stands on a check that was left out is left out, too.
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
      // What is locked or failing may come back; the rest is another file than it should be.
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

/** What the faults ask for: the configuration first, then what cannot be reached, then the rest. */
export function exitOf(findings: Finding[]): number {
  const exits = findings.map(({ exit }) => exit);
  return [EXIT.configuration, EXIT.unreachable, EXIT.failed].find((exit) => exits.includes(exit)) ?? EXIT.done;
}

/** An address as it may be shown: without credentials and query. */
export function shown(url: string): string {
  const { protocol, host, pathname } = new URL(url);
  return `${protocol}//${host}${pathname}`;
}
