// `npx kit status` shows the receiver's own answer beside the figures of the store.
import { execFile } from 'node:child_process';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import Database from 'better-sqlite3';
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest';
import { fingerprintOf } from '../../src/store/sqlite/lock.ts';
import { createStoreFile, type StoreFile } from '../reconcile/harness.ts';

let file: StoreFile;
/** The receiver's answer. Undefined: text without JSON, as an older kit answers. */
let said: object | undefined;
const receiver = createServer((req, res) => {
  const json = said !== undefined && req.headers.accept?.includes('json');
  res.writeHead(503, { 'content-type': json ? 'application/json' : 'text/plain' });
  res.end(json ? JSON.stringify(said) : 'the store cannot be written\n');
});

beforeAll(async () => {
  file = createStoreFile();
  await file.store.state.note({ events: 3 });
  await new Promise<void>((done) => receiver.listen(0, '127.0.0.1', done));
});
afterAll(() => {
  receiver.closeAllConnections();
  receiver.close();
  file.remove();
});

const stateOf = (store: string) => ({
  ready: false,
  words: 'the store cannot be written',
  store,
  writable: false,
  processes: { receive: 'up', run: 'down', keep: 'up' },
  alarms: [{ name: 'store_unwritable', since: '2026-01-01T00:00:00.000Z', detail: 'nothing can be written: df -h' }],
});

function status(path: string, ...args: string[]): Promise<{ code: number; out: string; err: string }> {
  const { port } = receiver.address() as AddressInfo;
  const env = { PATH: process.env['PATH'], DATABASE_URL: `sqlite:${path}`, PORT: String(port) };
  return new Promise((done) => {
    const child = execFile(process.execPath, ['src/cli/kit.js', 'status', ...args], { env }, (_, out, err) =>
      done({ code: child.exitCode ?? -1, out, err }),
    );
  });
}

test('E40: alarms and processes come from the receiver, not from the last signs of life in the store', async () => {
  said = stateOf(fingerprintOf(file.path));
  const { code, out } = await status(file.path);
  expect(code).toBe(0);
  expect(out).toMatch(
    /^Not receiving\. The store cannot be written: .*\n\nprocesses +receive up, run down, keep up\n.*the store cannot be written; figures are those of before/,
  );
  expect(out).toMatch(/events +3 stored/);
  expect(out).toMatch(/alarm +store_unwritable since 2026.*df -h/);
  expect(JSON.parse((await status(file.path, '--json')).out)).toMatchObject({
    events: 3,
    processes: { receive: 'up', run: 'down', keep: 'up' },
    alarms: [{ name: 'store_unwritable' }],
  });
});

test.each<[string, number, string[], boolean]>([
  ['nothing is wrong', 0, [], true],
  ['the webhook is off at the service', 15, ['failure_run'], false],
  ['a run of failures ended just now', 0, ['failure_run'], false],
  ['webhooks are silent', 0, ['webhook_silent'], false],
])('the status says quiet only if nothing is wrong: %s', async (_, failureRun, alarms, quiet) => {
  const since = '2026-01-01T00:00:00.000Z';
  const calm = createStoreFile();
  onTestFinished(() => calm.remove());
  const replay = { state: 'idle', since, lastAt: since, reason: null, progress: null };
  const failures = { causes: {}, badSignatures: 0, badSince: null, lastBadAt: null, lastGoodAt: since };
  const facts = { failure_run: failureRun, failures: JSON.stringify(failures), replay: JSON.stringify(replay) };
  await calm.store.state.note({}, facts);
  for (const name of alarms) await calm.store.alarms.raise(name, 'as it was', Date.parse(since));
  said = undefined;
  const { out } = await status(calm.path);
  expect(out.includes('; quiet: replay shows nothing missing')).toBe(quiet);
  expect(/quiet/.test(out)).toBe(quiet);
});

test.each([
  ['another kit', () => stateOf('other')],
  ['an older kit', () => undefined],
])('the answer of %s on the same port is not shown for this store', async (_, say) => {
  said = say();
  const { out } = await status(file.path);
  expect(out).toMatch(/^Not receiving\. .*\n\nprocesses +receive down, run down, keep down\n/);
  expect(out).not.toContain('store_unwritable');
});

test.each([
  ['an older kit, whose receiver still runs', 0, 'is of an older kit'],
  ['a newer kit', 99, 'was written by a newer kit'],
])('of a store of %s, no alarm is said to be absent', async (_, version, words) => {
  const path = `${file.path}-of-${version}`;
  file.exec(`vacuum into '${path}'`);
  new Database(path).exec(`pragma user_version = ${version}`).close();
  said = { ...stateOf(fingerprintOf(path)), alarms: [] };
  const { code, out, err } = await status(path);
  expect([code, err]).toEqual([1, expect.stringContaining(words)]);
  expect(out).toContain('receive up, run down, keep up\nalarms       not known, because the store cannot be read');
});

test('E40: a store that cannot even be read does not hide the alarm', async () => {
  const path = `${file.path}-copy`;
  file.exec(`vacuum into '${path}'`);
  const db = new Database(path);
  db.pragma('journal_mode = wal');
  db.pragma('locking_mode = exclusive');
  db.exec('begin exclusive');
  said = stateOf(fingerprintOf(path));
  const { code, out, err } = await status(path);
  expect(code).toBe(1);
  expect(out).toMatch(
    /^Not receiving\. [^]*receive up, run down, keep up\nalarm +store_unwritable.*\nalarms +others are not known/,
  );
  expect(err).toContain('locked by another process');
  expect(JSON.parse((await status(path, '--json')).out)).toMatchObject({ alarms: [{ name: 'store_unwritable' }] });
  db.close();
});
