// Tests the environment as one checked object. Every fault is reported at once, with its variable and remedy, and never
// with a secret.
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { isAbsolute, join } from 'node:path';
import { parseEnv } from 'node:util';
import { describe, expect, onTestFinished, test } from 'vitest';
import { ConfigError, loadConfig, readEnv, type Config, type Env } from '../src/config.ts';

const SECRET = 'whsec_0123456789abcdef';
const TOKEN = '0123456789abcdef0123456789abcdef';

/** All variables with their defaults. */
const DEFAULTS = {
  WEBHOOK_SECRET: undefined,
  PORT: 3000,
  HOST: '0.0.0.0',
  WEBHOOK_PATH: '/webhooks',
  PUBLIC_URL: undefined,
  WEBHOOK_HEADER_PREFIX: 'X-Svc-',
  TIMESTAMP_TOLERANCE_SECONDS: 300,
  BODY_LIMIT_BYTES: 12_582_912,
  MAX_CONNECTIONS: undefined,
  DATABASE_URL: 'sqlite:data/events.db',
  MOVE_FROM: undefined,
  API_BASE_URL: undefined,
  API_KEY: undefined,
  REPLAY_FROM: 'first-webhook',
  EVENT_TYPES: ['*'],
  RECONCILE_INTERVAL_SECONDS: 60,
  RECONCILE_OVERLAP_SECONDS: 300,
  API_CALLS_PER_MINUTE: 120,
  RECONCILE_CALLS_PER_MINUTE: 20,
  STREAM: 'off',
  ORDER_WINDOW_MS: 250,
  HANDLERS_DIR: 'src/handlers',
  RUN_CONCURRENCY: 32,
  PAID_OPERATIONS: 'refuse',
  BACKUP_DIR: undefined,
  BACKUP_EVERY_HOURS: 24,
  BACKUP_KEEP: 7,
  RETENTION_DAYS: 30,
  PAYLOAD_RETENTION_DAYS: 30,
  OPS_PORT: 3001,
  OPS_HOST: '127.0.0.1',
  OPS_TOKEN: undefined,
  OPS_READ_TOKEN: undefined,
  OPS_ORIGIN: undefined,
  ALERT_URL: undefined,
  HEARTBEAT_URL: undefined,
  LOG_LEVEL: 'info',
  LOG_FORMAT: 'json',
};

/** For each variable a value that differs from its default. */
const OTHERS: Record<keyof typeof DEFAULTS, string> = {
  WEBHOOK_SECRET: SECRET,
  PORT: '4000',
  HOST: '::',
  WEBHOOK_PATH: '/in',
  PUBLIC_URL: 'https://hooks.example.com/in',
  WEBHOOK_HEADER_PREFIX: 'X-Other-',
  TIMESTAMP_TOLERANCE_SECONDS: '60',
  BODY_LIMIT_BYTES: '1048576',
  MAX_CONNECTIONS: '100',
  DATABASE_URL: 'postgres://kit@db.example.com/kit',
  MOVE_FROM: 'sqlite:/var/lib/kit/old.db',
  API_BASE_URL: 'https://api.example.com/v1',
  API_KEY: 'key_1',
  REPLAY_FROM: '42',
  EVENT_TYPES: 'MessageReceived, MessageSent',
  RECONCILE_INTERVAL_SECONDS: '5',
  RECONCILE_OVERLAP_SECONDS: '0',
  API_CALLS_PER_MINUTE: '90',
  RECONCILE_CALLS_PER_MINUTE: '60',
  STREAM: 'on',
  ORDER_WINDOW_MS: '0',
  HANDLERS_DIR: '/opt/handlers',
  RUN_CONCURRENCY: '1',
  PAID_OPERATIONS: 'allow',
  BACKUP_DIR: 'backups',
  BACKUP_EVERY_HOURS: '6',
  BACKUP_KEEP: '2',
  RETENTION_DAYS: '365',
  PAYLOAD_RETENTION_DAYS: '7',
  OPS_PORT: '4001',
  OPS_HOST: '0.0.0.0',
  OPS_TOKEN: TOKEN,
  OPS_READ_TOKEN: `${TOKEN}1`,
  OPS_ORIGIN: 'https://ops.example.com',
  ALERT_URL: 'https://chat.example.com/hook',
  HEARTBEAT_URL: 'https://beats.example.com/key',
  LOG_LEVEL: 'debug',
  LOG_FORMAT: 'pretty',
};

const SECRETS = ['WEBHOOK_SECRET', 'API_KEY', 'OPS_TOKEN', 'OPS_READ_TOKEN', 'ALERT_URL', 'HEARTBEAT_URL'] as const;

/** MOVE_FROM needs a PostgreSQL store, and BACKUP_DIR an SQLite store. */
const { BACKUP_DIR, ...WITH_SERVER } = OTHERS;
const WITH_FILE: Env = { ...OTHERS, MOVE_FROM: undefined, DATABASE_URL: 'sqlite:/var/lib/kit/events.db' };

function load(env: Env = {}): Config {
  return loadConfig({ WEBHOOK_SECRET: SECRET, ...env });
}

function faultsOf(env: Env): string[] {
  try {
    loadConfig(env);
  } catch (error) {
    if (error instanceof ConfigError) return error.faults;
    throw error;
  }
  return [];
}

function namesOf(faults: string[]): string[] {
  return faults.map((fault) => fault.replace(/ .*/s, '')).toSorted();
}

function folderWith(files: Record<string, string>): string {
  const folder = mkdtempSync(join(tmpdir(), 'kit-config-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  for (const [name, text] of Object.entries(files)) writeFileSync(join(folder, name), text);
  return folder;
}

test('E5: BODY_LIMIT_BYTES cannot allow a body that no row or string can hold', () => {
  expect(faultsOf({ WEBHOOK_SECRET: SECRET, BODY_LIMIT_BYTES: String(2 ** 28) })).toEqual([]);
  for (const most of [2 ** 28 + 1, 2 ** 29, 10 ** 9])
    expect(namesOf(faultsOf({ WEBHOOK_SECRET: SECRET, BODY_LIMIT_BYTES: String(most) }))).toEqual(['BODY_LIMIT_BYTES']);
});

describe('a variable', () => {
  test('has its default if it is not set', () => {
    const { WEBHOOK_SECRET: _, ...expected } = DEFAULTS;
    const config = load() as Record<string, unknown>;
    for (const [name, value] of Object.entries(expected)) expect([name, config[name]]).toEqual([name, value]);
  });

  test('can be set to another value', () => {
    const config = { ...load(WITH_SERVER), BACKUP_DIR: load(WITH_FILE).BACKUP_DIR } as Record<string, unknown>;
    for (const [name, value] of Object.entries(DEFAULTS)) {
      expect(Object.hasOwn(config, name), name).toBe(true);
      expect(config[name], name).not.toEqual(value);
    }
  });

  test('is listed in .env.example with its default, and no other is listed', () => {
    const text = readFileSync(new URL('../.env.example', import.meta.url), 'utf8');
    const listed = parseEnv(text.replaceAll(/^# ?(?=[A-Z_]+=)/gm, ''));
    expect(Object.keys(listed).toSorted()).toEqual(Object.keys(DEFAULTS).toSorted());
    const config = load() as Record<string, unknown>;
    const given = load(Object.fromEntries(Object.entries(listed).filter(([, value]) => value !== ''))) as Record<
      string,
      unknown
    >;
    for (const name of Object.keys(DEFAULTS)) expect([name, given[name]]).toEqual([name, config[name]]);
    for (const name of SECRETS) expect(text).toContain(`${name}_FILE`);
  });

  test('that is a list or a path is parsed', () => {
    const file = { WEBHOOK_SECRET: `${SECRET}, ${SECRET}2` };
    const config = load({ ...WITH_FILE, ...file });
    expect(load(WITH_SERVER)).toMatchObject({ storePath: null, storeUrl: OTHERS.DATABASE_URL });
    expect(config.WEBHOOK_SECRET).toEqual([SECRET, `${SECRET}2`]);
    expect(config.EVENT_TYPES).toEqual(['MessageReceived', 'MessageSent']);
    expect(isAbsolute(config.BACKUP_DIR ?? '')).toBe(true);
    expect([config.storePath, config.handlersDir]).toEqual(['/var/lib/kit/events.db', '/opt/handlers']);
    expect(isAbsolute(load().storePath ?? '') && isAbsolute(load().handlersDir)).toBe(true);
  });
});

describe('faults', () => {
  test.each([
    ['postgres://kit:se#cret@db/kit', 'write @ # / ? % in the password as'],
    ['postgres://kit:se/cret@db/kit', 'write @ # / ? % in the password as'],
    ['postgres://kit:secret@db:99999/kit', 'is no address of a server'],
    ['postgres://kit:secret@db/kit?shcema=a', 'has parameters that mean nothing here: shcema'],
    ['postgres://kit:secret@db/kit?schema=Kit', 'must name a schema of lower-case letters'],
  ])('of the address of a server never show its password: %s', (address, remedy) => {
    const said = faultsOf({ DATABASE_URL: address }).join();
    expect(said).toContain(`DATABASE_URL ${remedy.startsWith('write') ? 'is no address of a server: ' : ''}${remedy}`);
    expect(said).not.toMatch(/se.?cret@/);
  });

  test('are reported all at once, each with its variable and remedy', () => {
    const faults = faultsOf({
      PORT: 'x',
      WEBHOOK_PATH: 'hooks',
      DATABASE_URL: 'mysql://x',
      REPLAY_FROM: 'yesterday',
      PAID_OPERATIONS: 'maybe',
      RETENTION_DAYS: 'for ever',
      OPS_TOKEN: 'short',
      LOG_LEVEL: 'loud',
    });
    const names = [
      'WEBHOOK_SECRET',
      'PORT',
      'WEBHOOK_PATH',
      'DATABASE_URL',
      'REPLAY_FROM',
      'PAID_OPERATIONS',
      'RETENTION_DAYS',
      'OPS_TOKEN',
      'LOG_LEVEL',
    ];
    expect(namesOf(faults)).toEqual(names.toSorted());
    for (const fault of faults) expect(fault).toMatch(/^[A-Z_]+ (must|is required)/);
  });

  test('of one variable do not hide faults in the combination of two', () => {
    const faults = faultsOf({ API_KEY: 'key', OPS_HOST: '0.0.0.0', LOG_LEVEL: 'loud' });
    const names = ['WEBHOOK_SECRET', 'LOG_LEVEL', 'API_BASE_URL', 'OPS_TOKEN'];
    expect(namesOf(faults)).toEqual(names.toSorted());
  });

  test('form one message without a stack', () => {
    const error = new ConfigError(['PORT must be a number', 'HOST is odd']);
    expect(error.message).toBe('configuration: 2 faults\n  PORT must be a number\n  HOST is odd');
  });

  test.each<[string, Env]>([
    ['PORT', { PORT: '-1' }],
    ['PORT', { PORT: '65536' }],
    ['PORT', { PORT: '3000.5' }],
    ['WEBHOOK_PATH', { WEBHOOK_PATH: '/a b' }],
    ['WEBHOOK_PATH', { WEBHOOK_PATH: '/:id' }],
    ['WEBHOOK_PATH', { WEBHOOK_PATH: '/livez' }],
    ['WEBHOOK_PATH', { WEBHOOK_PATH: '/readyz' }],
    ['PUBLIC_URL', { PUBLIC_URL: 'ftp://example.com' }],
    ['PUBLIC_URL', { PUBLIC_URL: 'hooks.example.com' }],
    ['WEBHOOK_HEADER_PREFIX', { WEBHOOK_HEADER_PREFIX: 'X-Svc' }],
    ['TIMESTAMP_TOLERANCE_SECONDS', { TIMESTAMP_TOLERANCE_SECONDS: '0' }],
    ['TIMESTAMP_TOLERANCE_SECONDS', { TIMESTAMP_TOLERANCE_SECONDS: 'NaN' }],
    ['DATABASE_URL', { DATABASE_URL: 'sqlite:' }],
    ['API_KEY', { API_BASE_URL: 'https://api.example.com/v1' }],
    ['API_BASE_URL', { API_KEY: 'key_1' }],
    ['API_KEY', { API_BASE_URL: 'https://api.example.com/v1', API_KEY: 'two words' }],
    ['REPLAY_FROM', { REPLAY_FROM: '9223372036854775808' }],
    ['REPLAY_FROM', { REPLAY_FROM: '-1' }],
    ['RECONCILE_CALLS_PER_MINUTE', { RECONCILE_CALLS_PER_MINUTE: '120' }],
    ['API_CALLS_PER_MINUTE', { API_CALLS_PER_MINUTE: '121' }],
    ['RUN_CONCURRENCY', { RUN_CONCURRENCY: '0' }],
    ['RETENTION_DAYS', { RETENTION_DAYS: '36501' }],
    ['RETENTION_DAYS', { RETENTION_DAYS: '1.5', PAYLOAD_RETENTION_DAYS: '1' }],
    ['PAYLOAD_RETENTION_DAYS', { PAYLOAD_RETENTION_DAYS: '0' }],
    ['PAYLOAD_RETENTION_DAYS', { RETENTION_DAYS: '7', PAYLOAD_RETENTION_DAYS: '8' }],
    ['OPS_PORT', { PORT: '4000', OPS_PORT: '4000' }],
    ['OPS_TOKEN', { OPS_HOST: '0.0.0.0' }],
    ['OPS_READ_TOKEN', { OPS_TOKEN: TOKEN, OPS_READ_TOKEN: TOKEN }],
    ['OPS_TOKEN', { OPS_HOST: '0.0.0.0', OPS_READ_TOKEN: TOKEN }],
    ['LOG_FORMAT', { LOG_FORMAT: 'xml' }],
  ])('%s is refused in %o', (name, env) => {
    const faults = faultsOf({ WEBHOOK_SECRET: SECRET, ...env });
    expect(faults).toHaveLength(1);
    expect(faults[0]?.startsWith(`${name} `)).toBe(true);
  });

  test.each(['10', '20'])('E24: include a share of reconciliation that is not below the whole of %s', (all) => {
    const faults = faultsOf({ WEBHOOK_SECRET: SECRET, API_CALLS_PER_MINUTE: all });
    const words = `RECONCILE_CALLS_PER_MINUTE must be below API_CALLS_PER_MINUTE (${all}): handlers have the rest`;
    expect(faults).toEqual([words]);
    expect(faultsOf({ WEBHOOK_SECRET: SECRET, API_CALLS_PER_MINUTE: all, RECONCILE_CALLS_PER_MINUTE: '9' })).toEqual(
      [],
    );
  });

  test.each(['https://api.example.com/v1', 'https://api.example.com/v1/', 'http://127.0.0.1:8080/api/v1'])(
    'E27: do not include the base URL %s',
    (API_BASE_URL) => {
      expect(load({ API_BASE_URL, API_KEY: 'key' }).API_BASE_URL).toBe(API_BASE_URL);
    },
  );

  test.each([
    'https://api.example.com',
    'https://api.example.com/',
    'https://api.example.com/v2',
    'https://api.example.com/apiv1',
    'https://api.example.com/v1/events',
    'https://api.example.com/v1?x=1',
    'https://api.example.com/v1#x',
    'https://user:hidden@api.example.com/v1',
    'https:///v1',
    'https://v1',
    'https://api.example.com:99999/v1',
    'ftp://api.example.com/v1',
    'api.example.com/v1',
  ])('E27: include the base URL %s, with what to set', (API_BASE_URL) => {
    const faults = faultsOf({ WEBHOOK_SECRET: SECRET, API_BASE_URL, API_KEY: 'key' });
    expect(faults).toEqual(["API_BASE_URL must be an http(s) address, the service's, ending in /v1"]);
  });

  test.each(['https://user:hidden@example.com/x', 'https:user@example.com', String.raw`https:\\:hidden@example.com`])(
    'include the address %s for alarms and heartbeats, because a request to it would be refused',
    (address) => {
      const urls = { ALERT_URL: address, HEARTBEAT_URL: address };
      expect(() => new Request(address)).toThrow('credentials');
      expect(faultsOf({ WEBHOOK_SECRET: SECRET, ...urls })).toEqual([
        'ALERT_URL must be an http(s) address, that takes a JSON POST, without user:password@',
        'HEARTBEAT_URL must be an http(s) address, that takes a GET, without user:password@',
      ]);
    },
  );

  test('an @ after the host is no fault of an address', () => {
    const urls = { ALERT_URL: 'https://example.com/@team?to=a@b#@', HEARTBEAT_URL: 'http://[::1]:8080?@' };
    expect(faultsOf({ WEBHOOK_SECRET: SECRET, ...urls })).toEqual([]);
  });

  test('include a retention of less than a day, because the service retries for 7 h 42 min', () => {
    const faults = faultsOf({ WEBHOOK_SECRET: SECRET, RETENTION_DAYS: '0', PAYLOAD_RETENTION_DAYS: '0' });
    expect(namesOf(faults)).toEqual(['PAYLOAD_RETENTION_DAYS', 'RETENTION_DAYS']);
  });

  test.each(['127.0.0.1', '::1', 'localhost'])('do not include a missing token for the ops port on %s', (OPS_HOST) => {
    expect(load({ OPS_HOST }).OPS_HOST).toBe(OPS_HOST);
  });

  test('of other variables do not matter to a command that needs only the store', () => {
    expect(loadConfig({ DATABASE_URL: 'sqlite:/x/y.db', PORT: 'x' }, { only: ['DATABASE_URL'] }).storePath).toBe(
      '/x/y.db',
    );
    expect(() => loadConfig({ DATABASE_URL: 'x' }, { only: ['DATABASE_URL'] })).toThrow(ConfigError);
  });

  test('of other variables do not matter to a command that needs the secret', () => {
    const config = loadConfig({ WEBHOOK_SECRET: SECRET, PORT: 'x' }, { only: ['WEBHOOK_SECRET'] });
    expect(config.WEBHOOK_SECRET).toEqual([SECRET]);
  });

  test('in the combination of two variables do not matter to a command that does not need both', () => {
    expect(loadConfig({ OPS_HOST: '0.0.0.0' }, { only: ['OPS_HOST', 'OPS_PORT'] }).OPS_HOST).toBe('0.0.0.0');
  });
});

describe('secrets', () => {
  test.each<[string, string, string[] | 'refused']>([
    ['as the service showed it', SECRET, [SECRET]],
    ['with a trailing newline', `${SECRET}\n`, [SECRET]],
    ['with Windows line ends and blanks', ` ${SECRET} \r\n`, [SECRET]],
    ['two, during a rotation', `${SECRET},${SECRET}2`, [SECRET, `${SECRET}2`]],
    ['two, with blanks', `${SECRET} , ${SECRET}2\n`, [SECRET, `${SECRET}2`]],
    ['empty', '', 'refused'],
    ['blank', '  \n', 'refused'],
    ['of one character, because the contract names no length (E27)', 'whsec_x', ['whsec_x']],
    ['without its prefix', '0123456789abcdef0123456789abcdef', 'refused'],
    ['with its prefix in upper case', 'WHSEC_0123456789abcdef', 'refused'],
    ['nothing but its prefix', 'whsec_', 'refused'],
    ['two, one of them empty', `${SECRET},`, 'refused'],
    ['two, one of them nothing but its prefix', `${SECRET},whsec_`, 'refused'],
    ['with a blank within', 'whsec_0123456789 abcdef', 'refused'],
    ['in quotes', `"${SECRET}"`, 'refused'],
    ['with characters that are not ASCII', 'whsec_0123456789abcdéf', 'refused'],
  ])('I79: WEBHOOK_SECRET %s', (_, text, expected) => {
    if (expected === 'refused')
      expect(faultsOf({ WEBHOOK_SECRET: text })).toEqual([expect.stringMatching(/^WEBHOOK_SECRET .*whsec_/)]);
    else expect(loadConfig({ WEBHOOK_SECRET: text }).WEBHOOK_SECRET).toEqual(expected);
  });

  test.each(['API_KEY', 'OPS_TOKEN', 'OPS_READ_TOKEN'] as const)(
    'I79: a trailing newline in %s is trimmed, or refused',
    (name) => {
      const env = {
        WEBHOOK_SECRET: SECRET,
        ...(name === 'API_KEY' ? { API_BASE_URL: 'https://api.example.com/v1' } : {}),
        [name]: `${TOKEN}\n`,
      };
      if (faultsOf(env).length === 0) expect(loadConfig(env)[name]).toBe(TOKEN);
    },
  );

  test.each(SECRETS)('%s may be in a file', (name) => {
    const path = join(folderWith({ secret: `${OTHERS[name]}\n` }), 'secret');
    const { [name]: _, ...rest } = WITH_SERVER;
    const config = loadConfig({ ...rest, [`${name}_FILE`]: path });
    expect(String(config[name])).toBe(OTHERS[name]);
  });

  test('are read from their files each time, so that a rotation needs no restart', () => {
    const path = join(folderWith({ secret: SECRET }), 'secret');
    expect(loadConfig({ WEBHOOK_SECRET_FILE: path }).WEBHOOK_SECRET).toEqual([SECRET]);
    writeFileSync(path, `${SECRET}2,${SECRET}`);
    expect(loadConfig({ WEBHOOK_SECRET_FILE: path }).WEBHOOK_SECRET).toEqual([`${SECRET}2`, SECRET]);
  });

  test('with a file that cannot be read are faults that do not show the path, which may be the secret itself', () => {
    expect(faultsOf({ WEBHOOK_SECRET: SECRET, OPS_TOKEN_FILE: '/nowhere/token' })).toEqual([
      'OPS_TOKEN_FILE cannot be read: it must be the path of a file that holds OPS_TOKEN',
    ]);
    expect(faultsOf({ WEBHOOK_SECRET_FILE: '/nowhere/secret' })[0]).toBe(
      'WEBHOOK_SECRET_FILE cannot be read: it must be the path of a file that holds WEBHOOK_SECRET',
    );
  });

  test('are refused if their file is empty', () => {
    const path = join(folderWith({ secret: '\n' }), 'secret');
    expect(faultsOf({ WEBHOOK_SECRET_FILE: path })).toEqual([expect.stringMatching(/^WEBHOOK_SECRET /)]);
  });

  test('that are set directly and in a file are a fault, because it is unclear which is meant', () => {
    const path = join(folderWith({ secret: SECRET }), 'secret');
    expect(faultsOf({ WEBHOOK_SECRET: SECRET, WEBHOOK_SECRET_FILE: path })).toEqual([
      expect.stringContaining('set twice'),
    ]);
  });

  test('are not shown by any fault', () => {
    const faults = faultsOf({
      WEBHOOK_SECRET: 'hush-secret',
      API_KEY: 'hush key',
      OPS_TOKEN: 'hush',
      OPS_READ_TOKEN: 'hush',
      ALERT_URL: 'hush',
      HEARTBEAT_URL: 'hush',
    });
    expect(faults.length).toBeGreaterThan(4);
    expect(faults.join('\n')).not.toContain('hush');
  });
});

test('BACKUP_DIR is refused with a PostgreSQL store, and the fault names its own tools', () => {
  const env = { WEBHOOK_SECRET: SECRET, BACKUP_DIR, DATABASE_URL: OTHERS.DATABASE_URL };
  expect(faultsOf(env)).toEqual([expect.stringMatching(/^BACKUP_DIR .*pg_dump/)]);
});

describe('.env', () => {
  test('does not replace a variable that is set', () => {
    const folder = folderWith({ '.env': 'PORT=4000\nHOST="::"\n# PORT=5000\n' });
    expect(readEnv({ PORT: '6000' }, folder)).toEqual({ PORT: '6000', HOST: '::' });
  });

  test('may be missing', () => {
    expect(readEnv({ PORT: '6000' }, folderWith({}))).toEqual({ PORT: '6000' });
  });

  test('sets a variable that is empty in the environment, and its own empty variables count as unset', () => {
    const folder = folderWith({ '.env': 'PORT=4000\nOPS_TOKEN=\nAPI_KEY=  \n' });
    expect(readEnv({ HOST: '', PORT: '' }, folder)).toEqual({ PORT: '4000' });
  });
});
