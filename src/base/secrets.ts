// The variables that hold secrets: which process gets them, and how they are masked in texts that may quote them.
import { readFileSync } from 'node:fs';

type Env = Record<string, string | undefined>;

/** Variables that may also come from a file: `<NAME>_FILE` is its path. SIGHUP reads the files again. */
export const SECRETS = ['WEBHOOK_SECRET', 'API_KEY', 'OPS_TOKEN', 'OPS_READ_TOKEN', 'ALERT_URL'] as const;
/** Handlers have no use for these secrets, so `run` does not get them. */
const KEPT_FROM_RUN = ['WEBHOOK_SECRET', 'OPS_TOKEN', 'OPS_READ_TOKEN', 'ALERT_URL'];
/** Characters. Shorter secrets are not masked: they could be part of any word. */
const SHORTEST = 8;

/** Fills in each secret, from its variable or from the file that `<NAME>_FILE` names. */
export function readSecretFiles(env: Env): { values: Env; faults: string[] } {
  const values = { ...env };
  const faults: string[] = [];
  for (const name of SECRETS) {
    const path = env[`${name}_FILE`];
    if (!path) continue;
    if (env[name]) faults.push(`${name} and ${name}_FILE are both set: keep one of them`);
    try {
      values[name] = readFileSync(path, 'utf8').trim();
    } catch {
      // The value is not shown, because it may be the secret itself, set under the wrong name.
      faults.push(`${name}_FILE cannot be read: it must be the path of a file that holds ${name}`);
      values[name] = undefined;
    }
  }
  return { values, faults };
}

/** The environment of `run`. Variables that the kit does not know stay, because handlers may use them. */
export function envOfRun(env: Env): Env {
  const kept = KEPT_FROM_RUN.flatMap((name) => [name, `${name}_FILE`]);
  return Object.fromEntries(Object.entries(env).filter(([name]) => !kept.includes(name)));
}

/** Known secrets, the longest first. Global, because texts from outside reach the log and the store in many ways. */
let known: string[] = [];

/** Masks the secrets of this environment until the process ends, even if a reload replaces them. */
export function maskFromNowOn(values: Env): void {
  const secrets = SECRETS.flatMap((name) => values[name]?.split(/[\s,]+/) ?? []);
  secrets.push(URL.parse(values['DATABASE_URL'] ?? '')?.password ?? '');
  const texts = secrets.filter((secret) => secret.length >= SHORTEST);
  // In a log line, which is JSON, some characters of a secret are escaped.
  const all = new Set([...known, ...texts, ...texts.map((secret) => JSON.stringify(secret).slice(1, -1))]);
  known = [...all].toSorted((a, b) => b.length - a.length);
}

export function masked(text: string): string {
  let shown = text;
  for (const secret of known) shown = shown.replaceAll(secret, '***');
  return shown;
}
