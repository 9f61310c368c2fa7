// Plants one fault at a time, and expects `doctor` to find it and to name the remedy. Faults that need a running
// receiver or a `run` process are in doctor.system.test.ts.
import { copyFileSync, mkdirSync, rmSync, utimesSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { beforeEach, describe, expect, test } from 'vitest';
import { createBackupFolder } from '../../src/backups/folder.ts';
import { address } from '../../src/cli/doctor/address.ts';
import { alarms } from '../../src/cli/doctor/alerting.ts';
import { backups } from '../../src/cli/doctor/backups.ts';
import { kindOf } from '../../src/base/ip-address.ts';
import { clocks, key, replay } from '../../src/cli/doctor/service.ts';
import { configuration, secrets } from '../../src/cli/doctor/setup.ts';
import { file, folder } from '../../src/cli/doctor/store.ts';
import { receiver } from '../../src/cli/doctor/trip.ts';
import { systemClock as clock } from '../../src/base/clock.ts';
import { startOf } from '../../src/base/process-start.ts';
import { fingerprintOf } from '../../src/store/sqlite/lock.ts';
import { openSqlite } from '../../src/store/sqlite/open.ts';
import { createFolder } from '../run/fixture.ts';
import { SECRET } from '../system/kit.ts';
import { closed, see, serve } from './harness.ts';

let at: string;
beforeEach(() => {
  at = createFolder();
});

describe('checks of this machine', () => {
  test('every fault of the configuration is reported with its variable', async () => {
    const { text, exit } = await see([configuration], { PORT: 'x', OPS_TOKEN: 'short', API_KEY: 'k' });
    for (const name of ['PORT', 'OPS_TOKEN', 'API_BASE_URL']) expect(text).toContain(`fault configuration: ${name} `);
    expect(text).toContain('set it so in .env');
    expect(exit).toBe(78);
  });

  test.each([
    ['quotes', `"${SECRET}"`, 'holds quotes'],
    ['whitespace', `${SECRET},${SECRET}2 `, 'secret 2 of 2 holds whitespace'],
    ['no prefix', 'of_the_system_tests_123', 'does not begin with whsec_'],
    ['nothing but its prefix', 'whsec_', 'has nothing behind its prefix'],
    ['a placeholder', 'whsec_your_secret_comes_here', 'is a placeholder'],
    ['one secret twice', `${SECRET},${SECRET}`, 'twice'],
  ])('a fault of WEBHOOK_SECRET is reported without showing a secret: %s', async (_, WEBHOOK_SECRET, words) => {
    const { text, exit } = await see([secrets], { WEBHOOK_SECRET });
    expect(text).toContain(words);
    expect(text).toContain('copy the whsec_… from the service again');
    expect(exit).toBe(78);
  });

  test('E27: a short secret is accepted, with a warning', async () => {
    const env = { WEBHOOK_SECRET: `${SECRET},whsec_abc1` };
    const { text, exit } = await see([configuration, secrets], env);
    expect(text).toContain('ok configuration: complete');
    expect(text).toContain('warning secrets: WEBHOOK_SECRET: 1 of 2 with fewer than 16 characters behind whsec_');
    expect(text).toContain('copy the whsec_… from the service again');
    expect(exit).toBe(0);
  });

  test('a secret in a file is checked as the file holds it', async () => {
    writeFileSync(join(at, 'secret'), ` ${SECRET}\n`);
    const env = { WEBHOOK_SECRET: undefined, WEBHOOK_SECRET_FILE: join(at, 'secret') };
    expect((await see([secrets], env)).text).toContain('holds whitespace');
    writeFileSync(join(at, 'secret'), `${SECRET}\n`);
    expect((await see([secrets], env)).exit).toBe(0);
  });

  test('a fault in a variable skips only the checks that need the variable', async () => {
    const { text } = await see([folder, clocks], { DATABASE_URL: 'x' });
    expect(text).toContain('skipped store folder: because the configuration has faults in DATABASE_URL');
    expect(text).toContain('skipped clock: because API_BASE_URL is not set');
  });

  test.each<[string, () => void, string, number]>([
    ['a folder that is missing', () => {}, 'start the receiver once, or fix DATABASE_URL', 78],
    ['a store that is missing', () => mkdirSync(join(at, 'data')), 'start the receiver once with npm start', 69],
    ['a file of others', () => plant('create table theirs (x)'), 'is not a store of this kit', 78],
    ['a store of a newer kit', () => plant('pragma user_version = 99', true), 'update this clone', 78],
  ])('%s', async (_, prepare, words, code) => {
    prepare();
    const { text, exit } = await see([folder, file], { DATABASE_URL: `sqlite:${at}/data/events.db` });
    expect(text).toContain(words);
    expect(exit).toBe(code);
  });

  function plant(sql: string, ours = false): void {
    mkdirSync(join(at, 'data'));
    const path = join(at, 'data', 'events.db');
    if (ours) openSqlite(path, { owner: true }).close();
    new Database(path).exec(sql).close();
  }
});

describe('the service', () => {
  const error = (code: string, reason: string): string => JSON.stringify({ error: { code, reason, message: 'não' } });
  const page = JSON.stringify({ events: [], next_cursor: '', has_more: false });

  test.each<[string, number, string, string, number]>([
    ['an expired key', 401, error('UNAUTHENTICATED', 'API_AUTH_REQUIRED'), 'copy API_KEY whole', 78],
    ['a forbidden address', 403, error('FORBIDDEN', 'API_KEY_IP_FORBIDDEN'), `to the key's allowed IPs`, 78],
    ['a wrong path', 404, error('NOT_FOUND', 'RPC_METHOD_NOT_FOUND'), 'it ends in /v1', 78],
    ['a web page', 200, '<html>', 'no JSON', 78],
    ['an outage', 503, error('UNAVAILABLE', 'X'), 'try again later', 69],
    ['a key without events:read', 200, '{"key":{"scopes":["messages:send"]}}', 'the scope events:read', 78],
  ])('%s is recognised by its answer', async (_, status, body, words, code) => {
    const url = await serve((_request, response) => response.writeHead(status).end(body));
    const { text, exit } = await see([key, replay], { API_BASE_URL: `${url}/v1`, API_KEY: 'svc_test_key' });
    expect(text).toContain(words);
    expect(text).toContain('skipped replay: because api key has a fault');
    expect(exit).toBe(code);
  });

  test('a connection that is refused and a name that does not resolve are told apart', async () => {
    const API_KEY = 'svc_test_key';
    const refused = await see([key], { API_BASE_URL: `${await closed()}/v1`, API_KEY });
    expect(refused).toMatchObject({
      exit: 69,
      text: expect.stringContaining('(ECONNREFUSED) → fix its host and port'),
    });
    const unknown = await see([key], { API_BASE_URL: 'http://nothing.invalid/v1', API_KEY });
    expect(unknown).toMatchObject({ exit: 69, text: expect.stringContaining('does not resolve') });
  });

  test('a key that may not replay is reported, even if its identity names events:read', async () => {
    const url = await serve(({ url: path }, response) =>
      path?.endsWith('ReplayEvents')
        ? response.writeHead(403).end(error('FORBIDDEN', 'X'))
        : response.end('{"permissions":"events:read groups:read"}'),
    );
    const { text, exit } = await see([key, replay], { API_BASE_URL: `${url}/v1`, API_KEY: 'svc_test_key' });
    expect(text).toContain('ok api key: accepted, with events:read, groups:read');
    expect(text).toContain('fault replay: ReplayEvents is forbidden (X) → give the key the scope events:read');
    expect(exit).toBe(78);
  });

  test('a good key reads one event', async () => {
    const url = await serve(({ url: path }, response) => response.end(path?.endsWith('ReplayEvents') ? page : '{}'));
    const { text, exit } = await see([key, replay], { API_BASE_URL: `${url}/v1`, API_KEY: 'svc_test_key' });
    expect(text).toContain('ok replay: the key reads events');
    expect(exit).toBe(0);
  });

  test.each([
    [0, 'ok clock'],
    [60, 'warning clock: this machine is 60 s behind the service → set the clock by NTP'],
    [-400, 'fault clock: this machine is 400 s ahead of the service → set the clock by NTP'],
  ])('a clock that differs by %d s', async (seconds, words) => {
    // A Date header has whole seconds, so the measured difference can be wrong by a second.
    const date = (): string => new Date(Math.floor(clock.now() / 1000) * 1000 + seconds * 1000).toUTCString();
    const url = await serve((_request, response) => response.setHeader('Date', date()).end());
    const { text } = await see([clocks], { API_BASE_URL: `${url}/v1`, API_KEY: 'svc_test_key' });
    expect(text.replace(/\b(59|61) s/, '60 s').replace(/\b(399|401) s/, '400 s')).toContain(words);
  });
});

describe('the public address', () => {
  test.each([
    ['http://1.1.1.1/webhooks', 'is not https → put TLS in front'],
    ['https://1.1.1.1:3000/webhooks', 'the service delivers to 443 and 8443 only'],
    ['https://u:hidden@1.1.1.1/webhooks', 'the service refuses them: take them out'],
    ['https://1.1.1.1/hooks', 'not WEBHOOK_PATH /webhooks → make the two equal'],
    ['https://nothing.invalid/webhooks', 'which does not resolve → fix the name'],
    ['https://169.254.169.254/webhooks', 'the service delivers to public addresses only'],
    ['https://[::ffff:10.0.0.1]/webhooks', 'the service delivers to public addresses only'],
  ])('%s is refused', async (PUBLIC_URL, words) => {
    const { text, exit } = await see([address], { PUBLIC_URL });
    expect(text).toContain(words);
    expect(text).not.toContain('hidden');
    expect(exit).toBe(78);
  });

  test('an address that the service accepts', async () => {
    expect((await see([address], { PUBLIC_URL: 'https://1.1.1.1:8443/webhooks' })).exit).toBe(0);
  });

  test.each(['127.0.0.1', '10.1.2.3', '172.31.0.1', '192.168.1.1', '100.64.0.1', '169.254.169.254', '::1', 'fd00::1'])(
    '%s is not public',
    (ip) => {
      expect(kindOf(ip)).toBeDefined();
    },
  );
  test.each(['8.8.8.8', '172.32.0.1', '100.128.0.1', '2606:4700::1111'])('%s is public', (ip) => {
    expect(kindOf(ip)).toBeUndefined();
  });
});

test('the alarms in the memory of the receiver are shown, even if the store has a fault', async () => {
  const path = join(at, 'events.db');
  const detail = 'nothing can be written to the store';
  const alarm = { name: 'store_unwritable', since: '2026-01-01T00:00:00.000Z', detail };
  const url = await serve((_, res) => {
    res.writeHead(503, { 'content-type': 'application/json' });
    res.end(JSON.stringify({ words: 'the store cannot be written', store: fingerprintOf(path), alarms: [alarm] }));
  });
  const env = { DATABASE_URL: `sqlite:${path}`, PORT: new URL(url).port };
  const shown = `warning alarms: store_unwritable: ${detail} → see src/ops/runbook.md`;
  const broken = (await see([folder, file, alarms], env)).text;
  expect(broken).toContain('fault store file: there is no store');
  expect(broken).toContain(shown);
  expect(broken).toContain('skipped alarms: because the store has a fault: the ops page (OPS_PORT) shows the others');
  openSqlite(path, { owner: true }).close();
  expect((await see([folder, file, alarms], env)).text).toContain(shown);
  rmSync(path);
  const without = (await see([folder, file, receiver], { ...env, WEBHOOK_SECRET: SECRET })).text;
  expect(without).toContain('skipped receiver: because the store has a fault; it says: the store cannot be written');
  const alone = (await see([folder, file, alarms], { ...env, PORT: new URL(await closed()).port })).text;
  expect(alone).toMatch(/skipped alarms: because the store has a fault, and nothing listens on port \d+/);
});

// Linux alone shows which files a process has open.
test.skipIf(process.platform !== 'linux')(
  'a store file other than the one that the receiver has open is reported',
  async () => {
    const path = join(at, 'events.db');
    const store = openSqlite(path, { owner: true });
    await store.processes.beat(
      { role: 'receive', pid: process.pid, started: startOf(process.pid), boot: 0 },
      clock.now(),
    );
    store.close();
    copyFileSync(path, join(at, 'copy.db'));
    const { text } = await see([folder, file], { DATABASE_URL: `sqlite:${at}/copy.db` });
    expect(text).toContain('has another file open → start the kit again');
  },
);

test('the newest backup, a missing folder, a failed attempt, and a folder on the disk of the store are reported', async () => {
  const store = openSqlite(join(at, 'events.db'), { owner: true });
  const look = async (BACKUP_DIR = at) =>
    (await see([backups], { DATABASE_URL: `sqlite:${at}/events.db`, BACKUP_DIR })).text;
  expect((await see([backups], { DATABASE_URL: `sqlite:${at}/events.db` })).text).toContain('BACKUP_DIR is not set');
  expect(await look(join(at, 'none'))).toContain(
    `warning backups: there is no folder ${at}/none → mount it, or create`,
  );
  expect(await look()).toContain('warning backups: there is none yet, on the disk of the store');
  // A disk of its own, on Linux and macOS.
  expect(await look('/dev')).toContain('ok backups: there is none yet');
  const last = {
    at: 1,
    verifiedAt: 1,
    file: '/b/events.db',
    bytes: 1,
    failures: 1,
    error: 'The last backup failed: no',
  };
  await store.state.note({}, { backup: JSON.stringify(last) });
  expect(await look()).toContain(
    'warning backups: The last backup failed: no; the newest is /b/events.db → see backup_old',
  );
  store.close();
});

test.each([
  ['larger', 100, 1],
  ['newer', 5, 3],
  [undefined, 5, 1],
])('copies of another store are reported if they are newer or larger: %s', async (isBeyond, bytes, changedAt) => {
  const path = join(at, 'events.db');
  const store = openSqlite(path, { owner: true });
  const other = createBackupFolder(at, path, 1).nameAt(1);
  writeFileSync(other, ' '.repeat(bytes));
  utimesSync(other, changedAt, changedAt);
  const last = { at: 2_000, verifiedAt: 2_000, file: '/b/events.db', bytes: 10, failures: 0, error: null };
  await store.state.note({}, { backup: JSON.stringify(last) });
  store.close();
  const { text } = await see([backups], { DATABASE_URL: `sqlite:${path}`, BACKUP_DIR: at });
  expect(text).toContain('the newest is /b/events.db');
  if (isBeyond) expect(text).toContain(`warning backups: another store's backups are there, and newer or larger → if`);
  if (isBeyond) expect(text).toContain(`if this store was lost, npx kit restore ${other}`);
  else expect(text).not.toContain('another store');
});
