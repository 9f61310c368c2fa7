// Checks of this machine, before anything runs: the runtime, the configuration, the shape of the secrets.
import { readFileSync } from 'node:fs';
import { orUndefined } from '../../base/errors.ts';
import { filesForAll } from '../../base/secrets.ts';
import { ConfigError, loadConfig, type Env } from '../../config.ts';
import { misconfigured, ok, warning, type Check } from './check.ts';

/** Every command refuses an older Node at its start, so this check compares no versions. */
export const runtime: Check = {
  name: 'runtime',
  run() {
    const runs = `Node ${process.versions.node} on ${process.platform}`;
    return process.platform === 'linux'
      ? ok(runs)
      : warning(
          runs,
          'Run it on Linux in production: elsewhere the kit cannot find processes that an earlier start left running',
        );
  },
};

export const configuration: Check = {
  name: 'configuration',
  run({ env }) {
    try {
      loadConfig(env);
      const open = filesForAll(env).map((file) =>
        warning(`every user of this machine can read ${file}, which may hold secrets`, `chmod o-r ${file}`),
      );
      return [ok('complete'), ...open];
    } catch (error) {
      if (!(error instanceof ConfigError)) throw error;
      return error.faults.map((one) => misconfigured(one, 'set it so in .env or the environment: see .env.example'));
    }
  },
};

/** The contract names no length of a secret (2.16), so a shorter one is accepted. */
const USUAL = 16;
const PLACEHOLDER = /your|change|example|placeholder|replace|secret_here|x{6}|\.\.\.|[<>]/i;

/** Reads the raw text, because the configuration trims secrets and does not name their faults. */
export const secrets: Check = {
  name: 'secrets',
  run({ env }) {
    const text = textOf(env);
    if (text === undefined) return misconfigured('WEBHOOK_SECRET is not set', 'copy it from the service into .env');
    const all = text.split(',');
    const faults = all.flatMap((raw, n) => {
      const words = faultsOf(raw).join(', ');
      return words ? [`secret ${n + 1} of ${all.length} ${words}`] : [];
    });
    if (new Set(all.map((raw) => raw.trim())).size < all.length) faults.push('the same secret is set twice');
    const remedy = 'copy the whsec_… from the service again, bare; if it is lost, rotate it there';
    if (faults.length > 0) return faults.map((one) => misconfigured(`WEBHOOK_SECRET: ${one}`, remedy));
    const short = all.filter((raw) => behindPrefix(raw).length < USUAL).length;
    if (short === 0) return ok(`${all.length} of the right shape`);
    return warning(
      `WEBHOOK_SECRET: ${short} of ${all.length} with fewer than ${USUAL} characters behind whsec_: cut off, or easy to guess`,
      remedy,
    );
  },
};

function textOf(env: Env): string | undefined {
  const path = env['WEBHOOK_SECRET_FILE'];
  // The newline at the end of a file is not part of the secret.
  return env['WEBHOOK_SECRET'] ?? orUndefined(() => readFileSync(path ?? '', 'utf8').replace(/\r?\n$/, ''));
}

const behindPrefix = (raw: string): string => raw.replaceAll(/[\s"'`]/g, '').replace(/^whsec_/, '');

function faultsOf(raw: string): string[] {
  const behind = behindPrefix(raw);
  const judged: [boolean, string][] = [
    [/\s/.test(raw), 'holds whitespace'],
    [/["'`]/.test(raw), 'holds quotes'],
    [!/^["'`\s]*whsec_/.test(raw), 'does not begin with whsec_'],
    [behind === '', 'has nothing behind its prefix'],
    [PLACEHOLDER.test(behind) || (behind.length >= USUAL && new Set(behind).size < 5), 'is a placeholder'],
  ];
  return judged.flatMap(([holds, words]) => (holds ? [words] : []));
}
