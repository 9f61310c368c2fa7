// The environment as one checked object. Every fault is reported at once, with its variable and remedy. Nothing is
// guessed.
import { existsSync, readFileSync, realpathSync } from 'node:fs';
import { isAbsolute, resolve } from 'node:path';
import { parseEnv } from 'node:util';
import { z } from 'zod';
import { faultOfServer } from './base/server-address.ts';
import { describe } from './base/errors.ts';
import { KEPT_FROM_RUN, maskFromNowOn, readSecretFiles, SECRETS } from './base/secrets.ts';
import { parseCursor } from './wire/cursor.ts';
import { DEFAULT_PREFIX } from './wire/headers.ts';

export type Env = Record<string, string | undefined>;

/** Holds every fault. The message is written for people. */
export class ConfigError extends Error {
  readonly faults: string[];
  constructor(faults: string[]) {
    super(`configuration: ${faults.length === 1 ? 'one fault' : `${faults.length} faults`}\n  ${faults.join('\n  ')}`);
    this.name = 'ConfigError';
    this.faults = faults;
  }
}

const LOOPBACK = new Set(['127.0.0.1', '::1', 'localhost']);

const number = (least: number, most: number) =>
  z
    .string()
    .transform(Number)
    .refine((n) => Number.isInteger(n) && n >= least && n <= most, `must be a whole number from ${least} to ${most}`);

const whole = (least: number, most: number, otherwise: number) => number(least, most).default(otherwise);

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

const schema = z.object({
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
    .regex(/^[A-Za-z0-9-]+-$/, `must be the beginning of the header names, like ${DEFAULT_PREFIX}`)
    .default(DEFAULT_PREFIX),
  TIMESTAMP_TOLERANCE_SECONDS: whole(1, 86_400, 300),
  // The maximum is below the limits of SQLite (10^9 bytes in a row) and of strings (2^29 characters).
  BODY_LIMIT_BYTES: whole(1_024, 2 ** 28, 12_582_912),
  MAX_CONNECTIONS: number(16, 1_000_000).optional(),
  DATABASE_URL: z
    .string()
    .regex(
      /^(sqlite:.|postgres(ql)?:\/\/.)/,
      'must be sqlite:<path of the file>, like sqlite:data/events.db, or postgres://<user>@<host>/<database>',
    )
    .refine((text) => faultOfServer(text) === undefined, { error: ({ input }) => faultOfServer(String(input)) ?? '' })
    .default('sqlite:data/events.db'),
  MOVE_FROM: z
    .string()
    .regex(/^sqlite:./, 'must be sqlite:<path of the file that is moved>')
    .optional(),
  API_BASE_URL: url("the service's, ending in /v1", /^https?:\/\/[^?#@]*[^/?#@]\/v1\/?$/).optional(),
  API_KEY: z
    .string()
    .regex(/^[\x21-\x7e]+$/, 'must be one word')
    .optional(),
  REPLAY_FROM: z
    .string()
    .refine(
      (text) => text === 'first-webhook' || text === 'start' || parseCursor(text) !== undefined,
      'must be first-webhook, start, or a cursor (digits)',
    )
    .default('first-webhook'),
  EVENT_TYPES: z
    .string()
    .default('*')
    .transform((text) => text.split(',').map((type) => type.trim())),
  RECONCILE_INTERVAL_SECONDS: whole(1, 86_400, 60),
  RECONCILE_OVERLAP_SECONDS: whole(0, 86_400, 300),
  API_CALLS_PER_MINUTE: whole(2, 120, 120),
  RECONCILE_CALLS_PER_MINUTE: whole(1, 119, 20),
  STREAM: choice(['off', 'on'], 'off'),
  ORDER_WINDOW_MS: whole(0, 3_600_000, 250),
  HANDLERS_DIR: z.string().default('src/handlers'),
  RUN_CONCURRENCY: whole(1, 1_024, 32),
  PAID_OPERATIONS: choice(['refuse', 'allow'], 'refuse'),
  BACKUP_DIR: z.string().transform(pathOf).optional(),
  BACKUP_EVERY_HOURS: whole(1, 8_760, 24),
  BACKUP_KEEP: whole(1, 1_000, 7),
  RETENTION_DAYS: whole(1, 36_500, 30),
  PAYLOAD_RETENTION_DAYS: whole(1, 36_500, 30),
  OPS_PORT: whole(0, 65_535, 3001),
  OPS_HOST: z.string().default('127.0.0.1'),
  OPS_TOKEN: token.optional(),
  OPS_READ_TOKEN: token.optional(),
  OPS_ORIGIN: url("the page's address behind its proxy").optional(),
  ALERT_URL: url('that takes a JSON POST, without user:password@').optional(),
  HEARTBEAT_URL: url('that takes a GET, without user:password@').optional(),
  LOG_LEVEL: choice(['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'], 'info'),
  LOG_FORMAT: choice(['json', 'pretty'], process.stdout.isTTY ? 'pretty' : 'json'),
});

export function loadConfigOfRun(env: Env): Config {
  const only = Object.keys(schema.shape).filter((name) => !KEPT_FROM_RUN.includes(name)) as (keyof Config)[];
  return loadConfig(env, { only });
}

/** The kit's own variables. Others in the environment belong to handlers. */
export const VARIABLES = [...Object.keys(schema.shape), ...SECRETS.map((name) => `${name}_FILE`)];

/** Faults in the combination of two variables. They are reported even if other variables have faults of their own. */
function faultsBetween(env: Env): string[] {
  const faults: string[] = [];
  const together = 'together they fetch what webhooks missed';
  if (env['API_KEY'] && !env['API_BASE_URL']) faults.push(`API_BASE_URL is required with API_KEY: ${together}`);
  if (env['API_BASE_URL'] && !env['API_KEY']) faults.push(`API_KEY is required with API_BASE_URL: ${together}`);
  if (env['STREAM'] === 'on' && !env['API_KEY']) faults.push('API_KEY and API_BASE_URL are required with STREAM=on');
  const calls = Number(env['API_CALLS_PER_MINUTE']);
  if (Number(env['RECONCILE_CALLS_PER_MINUTE'] ?? 20) >= calls)
    faults.push(`RECONCILE_CALLS_PER_MINUTE must be below API_CALLS_PER_MINUTE (${calls}): handlers have the rest`);
  if (env['BACKUP_DIR'] && /^postgres/.test(env['DATABASE_URL'] ?? ''))
    faults.push('BACKUP_DIR is for an SQLite store: back up PostgreSQL by pg_dump, or the snapshots of its provider');
  if (env['MOVE_FROM'] && !/^postgres/.test(env['DATABASE_URL'] ?? ''))
    faults.push('DATABASE_URL must name the PostgreSQL store into which MOVE_FROM is moved');
  const opsHost = env['OPS_HOST'] ?? '127.0.0.1';
  if (!LOOPBACK.has(opsHost) && !env['OPS_TOKEN']) {
    faults.push(`OPS_TOKEN is required with OPS_HOST=${opsHost}: only a loopback address works without it`);
  }
  if (env['OPS_TOKEN'] && env['OPS_TOKEN'].trim() === env['OPS_READ_TOKEN']?.trim()) {
    faults.push('OPS_READ_TOKEN must differ from OPS_TOKEN: otherwise readers could change everything');
  }
  const rows = Number(env['RETENTION_DAYS'] ?? 30);
  if (Number(env['PAYLOAD_RETENTION_DAYS'] ?? 0) > rows) {
    faults.push(
      `PAYLOAD_RETENTION_DAYS must not be above RETENTION_DAYS (${rows}): bodies are removed with their rows`,
    );
  }
  const port = env['PORT'] ?? '3000';
  if (port !== '0' && port === (env['OPS_PORT'] ?? '3001')) faults.push('OPS_PORT must differ from PORT');
  return faults;
}

export type Config = z.infer<typeof schema> & {
  /** The absolute path that DATABASE_URL names. Null: the store is no file. */
  storePath: string | null;
  /** The address of the store. That of a file has its absolute path. */
  storeUrl: string;
  handlersDir: string;
};

/**
 * The environment, completed from `.env`. A variable that is set wins over the file, and an empty one counts as unset.
 */
export function readEnv(env: Env = process.env, folder = process.cwd()): Env {
  const path = resolve(folder, '.env');
  return { ...filled(readFile(path)), ...filled(env) };
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

/**
 * Throws ConfigError with every fault. With `only`, faults of other variables are ignored: the command line needs the
 * store, but not the secret.
 */
export function loadConfig(env: Env, { only }: { only?: (keyof Config)[] } = {}): Config {
  const { values, faults } = readSecretFiles(env);
  maskFromNowOn(values);
  const parsed = schema.safeParse(values);
  if (!parsed.success) {
    for (const issue of parsed.error.issues) faults.push(`${issue.path.join('.')} ${issue.message}`);
  }
  faults.push(...faultsBetween(values));
  const own = only ? faults.filter((fault) => only.some((name) => fault.startsWith(`${name} `))) : faults;
  if (own.length > 0) throw new ConfigError(own);
  // If ignored faults remain, only the variables in `only` are read, and the others get their defaults.
  const config =
    parsed.data ??
    schema.parse({
      WEBHOOK_SECRET: 'whsec_0000000000000000',
      ...Object.fromEntries((only ?? []).map((name) => [name, values[name]])),
    });
  const file = /^sqlite:(.*)$/s.exec(config.DATABASE_URL)?.[1];
  const storePath = file === undefined ? null : realOf(pathOf(file));
  return {
    ...config,
    // A RETENTION_DAYS below the default of PAYLOAD_RETENTION_DAYS limits both, so bodies go with their rows.
    PAYLOAD_RETENTION_DAYS: Math.min(config.PAYLOAD_RETENTION_DAYS, config.RETENTION_DAYS),
    storePath,
    MOVE_FROM: config.MOVE_FROM && `sqlite:${realOf(pathOf(config.MOVE_FROM.slice('sqlite:'.length)))}`,
    storeUrl: storePath === null ? config.DATABASE_URL : `sqlite:${storePath}`,
    handlersDir: pathOf(config.HANDLERS_DIR),
  };
}

/** Resolves a symbolic link to the store, because SQLite's other files are beside the real file. */
function realOf(path: string): string {
  try {
    return realpathSync(path);
  } catch {
    // The file does not exist or cannot be reached. Opening the store reports that.
    return path;
  }
}

function pathOf(text: string): string {
  const path = text.startsWith('//') ? text.slice(2) : text;
  return isAbsolute(path) ? path : resolve(path);
}
