// The environment as one checked object. All faults are reported together, each with its variable and remedy. No value
// with a fault is replaced by a default.
import { existsSync, readFileSync, realpathSync } from 'node:fs';
import { resolve } from 'node:path';
import { parseEnv } from 'node:util';
import { z } from 'zod';
import { describe, orUndefined } from './base/errors.ts';
import { envOfRun, maskFromNowOn, readSecretFiles } from './base/secrets.ts';
import { parseCursor } from './wire/cursor.ts';
import { DEFAULT_PREFIX } from './wire/headers.ts';

export type Env = Record<string, string | undefined>;

/** Holds all faults. The message is written for people. */
export class ConfigError extends Error {
  readonly faults: string[];
  constructor(faults: string[]) {
    super(`configuration: ${faults.length === 1 ? 'one fault' : `${faults.length} faults`}\n  ${faults.join('\n  ')}`);
    this.name = 'ConfigError';
    this.faults = faults;
  }
}

const whole = (least: number, most: number, otherwise: number) =>
  z
    .string()
    .transform(Number)
    .refine((n) => Number.isInteger(n) && n >= least && n <= most, `must be a whole number from ${least} to ${most}`)
    .default(otherwise);

const url = (remedy: string, shape = /^https?:[/\\]*(?![/\\]|[^/\\?#]*@)/i) =>
  z.string().refine((text) => shape.test(text) && URL.canParse(text), `must be an http(s) address, ${remedy}`);

const choice = <const Names extends [string, ...string[]]>(names: Names, otherwise: Names[number]) =>
  z.enum(names, `must be one of ${names.join(', ')}`).default(otherwise);

const token = z.string().trim().min(16, 'must have 16 characters or more: try openssl rand -hex 32');

const secretList = z
  .string('is required: the whsec_… that the service showed when the webhook was registered')
  .transform((text) => text.split(',').map((secret) => secret.trim()))
  .refine(
    (secrets) => secrets.every((secret) => /^whsec_[\x21-\x7e]+$/.test(secret)),
    'must be one or more whsec_…, comma-separated',
  );

export const schema = z.object({
  WEBHOOK_SECRET: secretList,
  PORT: whole(0, 65_535, 3000),
  HOST: z.string().default('0.0.0.0'),
  WEBHOOK_PATH: z
    .string()
    .regex(/^\/[\w\-./~]*$/, 'must begin with / and hold letters, digits and -._~/ only')
    .refine((path) => path !== '/livez' && path !== '/readyz', 'is taken by a probe: choose another')
    .default('/webhooks'),
  PUBLIC_URL: url('like https://hooks.example.com/webhooks', /^https?:/i).optional(),
  WEBHOOK_HEADER_PREFIX: z
    .string()
    .regex(/^[A-Za-z0-9-]+-$/, `must hold letters, digits and - only, and end with -, like ${DEFAULT_PREFIX}`)
    .default(DEFAULT_PREFIX),
  TIMESTAMP_TOLERANCE_SECONDS: whole(1, 86_400, 300),
  // The maximum is below the limits of SQLite (10^9 bytes in a row) and of strings (2^29 characters).
  BODY_LIMIT_BYTES: whole(1_024, 2 ** 28, 12_582_912),
  DATABASE_URL: z
    .string()
    .regex(/^(sqlite:.|postgres(ql)?:\/\/.)/, 'must be sqlite:<path of the file> or postgres://…?schema=<name>')
    .refine((text) => text.startsWith('sqlite:') || URL.canParse(text), 'is no address: in a password, write # as %23')
    .default('sqlite:data/events.db'),
  API_BASE_URL: url('that of the service, ending in /v1', /^https?:\/\/[^?#@]*[^/?#@]\/v1\/?$/).optional(),
  API_KEY: z
    .string()
    .regex(/^[\x21-\x7e]+$/, 'must be visible ASCII characters without spaces')
    .optional(),
  REPLAY_FROM: z
    .string()
    .refine((text) => text === 'start' || parseCursor(text) !== undefined, 'must be start, or a cursor (digits)')
    .optional(),
  RECONCILE_INTERVAL_SECONDS: whole(1, 86_400, 60),
  RECONCILE_OVERLAP_SECONDS: whole(0, 86_400, 300),
  API_CALLS_PER_MINUTE: whole(2, 120, 120),
  STREAM: choice(['off', 'on'], 'off'),
  ORDER_WINDOW_MS: whole(0, 3_600_000, 250),
  HANDLERS_DIR: z.string().default('src/handlers'),
  RUN_CONCURRENCY: whole(1, 1_024, 32),
  PAID_OPERATIONS: choice(['refuse', 'allow'], 'refuse'),
  BACKUP_DIR: z.string().optional(),
  RETENTION_DAYS: whole(1, 36_500, 30),
  OPS_PORT: whole(0, 65_535, 3001),
  OPS_HOST: z.string().default('127.0.0.1'),
  OPS_TOKEN: token.optional(),
  OPS_READ_TOKEN: token.optional(),
  ALERT_URL: url('one that takes a JSON POST, without user:password@').optional(),
  LOG_LEVEL: choice(['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'], 'info'),
});

export type Config = z.infer<typeof schema> & {
  /** The absolute path of the store's file. Null: the store is on PostgreSQL. */
  storePath: string | null;
  handlersDir: string;
};

/** Faults of two variables that do not fit together. */
function faultsBetween(env: Env): string[] {
  const faults: string[] = [];
  const together = 'together they fetch what webhooks missed';
  if (env['API_KEY'] && !env['API_BASE_URL']) faults.push(`API_BASE_URL is required with API_KEY: ${together}`);
  if (env['API_BASE_URL'] && !env['API_KEY']) faults.push(`API_KEY is required with API_BASE_URL: ${together}`);
  if (env['STREAM'] === 'on' && !env['API_KEY']) faults.push('API_KEY and API_BASE_URL are required with STREAM=on');
  const opsHost = env['OPS_HOST'] ?? '127.0.0.1';
  if (!['127.0.0.1', '::1', 'localhost'].includes(opsHost) && !env['OPS_TOKEN'])
    faults.push(`OPS_TOKEN is required with OPS_HOST=${opsHost}: only 127.0.0.1, ::1 and localhost work without it`);
  if (env['OPS_TOKEN'] && env['OPS_TOKEN'].trim() === env['OPS_READ_TOKEN']?.trim())
    faults.push('OPS_READ_TOKEN must differ from OPS_TOKEN: otherwise readers could change everything');
  return faults;
}

/**
 * The environment, completed from `.env`. A variable that is set wins over the file. An empty variable counts as unset.
 */
export function readEnv(): Env {
  return { ...filled(readFile(resolve('.env'))), ...filled(process.env) };
}

function readFile(path: string): Env {
  try {
    return existsSync(path) ? parseEnv(readFileSync(path, 'utf8')) : {};
  } catch (error) {
    throw new ConfigError([`${path} cannot be read (${describe(error).message}): see its owner and its mode`]);
  }
}

function filled(env: Env): Env {
  return Object.fromEntries(Object.entries(env).filter(([, value]) => value !== undefined && value.trim() !== ''));
}

/** Throws ConfigError with all faults. */
export function loadConfig(env: Env): Config {
  const { values, faults } = readSecretFiles(env);
  maskFromNowOn(values);
  const parsed = schema.safeParse(values);
  for (const issue of parsed.error?.issues ?? []) faults.push(`${issue.path.join('.')} ${issue.message}`);
  faults.push(...faultsBetween(values));
  if (!parsed.data || faults.length > 0) throw new ConfigError(faults);
  const [, file] = parsed.data.DATABASE_URL.split(/^sqlite:/);
  const path = file === undefined ? null : resolve(file);
  return {
    ...parsed.data,
    // DATABASE_URL may name a link, but SQLite's other files are beside the real file.
    storePath: path && (orUndefined(() => realpathSync(path)) ?? path),
    handlersDir: resolve(parsed.data.HANDLERS_DIR),
  };
}

/** The configuration of `run` and of most commands, without the secrets that they have no use for. */
export const loadConfigOfRun = (env: Env): Config =>
  loadConfig({ ...envOfRun(env), WEBHOOK_SECRET: 'whsec_unknown', OPS_HOST: undefined });
