// When backups are written, what becomes of them, and what is noted of them: real files in a real folder.
import { chmodSync, existsSync, mkdirSync, readdirSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { beforeEach, expect, onTestFinished, test } from 'vitest';
import { createBackupFolder } from '../../src/backups/folder.ts';
import { createBackups } from '../../src/backups/schedule.ts';
import { backUp, putInPlace } from '../../src/store/sqlite/admin/backup.ts';
import { openSqlite } from '../../src/store/sqlite/open.ts';
import { createRecords, deliver, type Records } from '../admin/harness.ts';
import { createTestLog, type TestLog } from '../reconcile/harness.ts';

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;

let records: Records;
let testLog: TestLog;
let dir: string;
let storeBytes: number;
let copies: string[];
let stopping: AbortController;
let copy: (to: string) => Promise<number>;
let step: () => Promise<number>;

beforeEach(() => {
  records = createRecords();
  onTestFinished(() => records.remove());
  testLog = createTestLog();
  dir = join(records.path, '..', 'backups');
  storeBytes = 1;
  copies = [];
  stopping = new AbortController();
  copy = async (to) => backUp(records.path, to);
  step = start();
});

function start({ store, path } = records, keep = 3): () => Promise<number> {
  const { clock } = records;
  return createBackups({
    store,
    clock,
    log: testLog.log,
    folder: (born) => createBackupFolder(dir, path, born),
    everyMs: DAY_MS,
    keep,
    disk: async () => ({ storeBytes, logBytes: 0, freeBytes: Infinity }),
    copy(to) {
      copies.push(to);
      return copy(to);
    },
    signal: stopping.signal,
  });
}

/** An empty store in another folder, or what a backup is restored to there. */
function elsewhere(backup?: string): Records {
  const path = join(records.path, '..', 'elsewhere', basename(records.path));
  if (backup) putInPlace(backup, path, '2026');
  const store = openSqlite(path, { owner: true });
  onTestFinished(() => store.close());
  return { ...records, store, path };
}

const kept = () => records.store.state.get('backup');
const files = (): string[] => readdirSync(dir).toSorted();
const fail = (words: string) => () => Promise.reject(new Error(words));

test('the first backup is written at once, the next after the interval, each verified and for its owner alone', async () => {
  await deliver(records, { cursor: '1' });
  const at = records.clock.time;
  expect(await step()).toBe(DAY_MS);
  const [name = ''] = files();
  expect(name).toMatch(/^\w+-\w+-\d{4}-\d\d-\d\dT\d\d-\d\d-\d\dZ\.db$/);
  const file = join(dir, name);
  const bytes = statSync(file).size;
  expect(await kept()).toEqual({ at, verifiedAt: at, file, bytes, failures: 0, error: null });
  expect([statSync(dir).mode & 0o777, statSync(file).mode & 0o777]).toEqual([0o700, 0o600]);
  records.clock.time += DAY_MS - 1;
  expect(await step()).toBe(1);
  records.clock.time += 1;
  expect(await step()).toBe(DAY_MS);
  expect(files()).toHaveLength(2);
});

test('a restart neither repeats a backup nor delays the next one', async () => {
  await step();
  records.clock.time += DAY_MS - HOUR_MS;
  step = start();
  expect(await step()).toBe(HOUR_MS);
  records.clock.time += HOUR_MS;
  expect(await step()).toBe(DAY_MS);
  expect(copies).toHaveLength(2);
});

test('a clock that is set by a year, in either direction, costs one backup at most, also over restarts', async () => {
  await step();
  for (const years of [1, -1, -1, 1]) {
    records.clock.time += years * 365 * DAY_MS;
    const before = copies.length;
    for (let restarts = 0; restarts < 3; restarts++) {
      step = start();
      expect(await step()).toBeLessThanOrEqual(DAY_MS);
    }
    expect(copies.length - before).toBeLessThanOrEqual(1);
  }
});

test('only the newest copies stay, and no file with another name is removed', async () => {
  mkdirSync(dir);
  const others = ['notes.txt', 'store.db', 'events-2020.db', 'x-2026-01-31T02-00-00Z.db'];
  for (const name of others) writeFileSync(join(dir, name), '');
  for (let day = 0; day < 5; day++, records.clock.time += DAY_MS) await step();
  const left = copies.slice(-3).map((path) => path.replace(dir + '/', ''));
  expect(files()).toEqual([...others, ...left].toSorted());
});

test('copies that a clock ahead has named go first, and the newest stays', async () => {
  await step();
  records.clock.time += 365 * DAY_MS;
  for (let day = 0; day < 2; day++, records.clock.time += DAY_MS) await step();
  records.clock.time -= 365 * DAY_MS;
  for (let day = 0; day < 2; day++, records.clock.time += DAY_MS) {
    step = start();
    await step();
    expect(existsSync((await kept())?.file ?? '')).toBe(true);
  }
  expect(files()).toHaveLength(3);
  expect(files().filter((name) => name > (copies.at(-1) ?? '').slice(dir.length + 1))).toHaveLength(0);
});

test('the empty store that a lost one was replaced with does not push the backups of the lost one out', async () => {
  await start(records, 1)();
  const [good = ''] = files();
  records.clock.time += DAY_MS;
  const empty = elsewhere();
  copy = async (to) => backUp(empty.path, to);
  for (let day = 0; day < 3; day++, records.clock.time += DAY_MS) await start(empty, 1)();
  expect(files()).toHaveLength(2);
  expect(files()).toContain(good);
});

test('a restored store goes on with the backups of the store that it is a copy of', async () => {
  await start(records, 1)();
  const [good = ''] = files();
  records.clock.time += DAY_MS;
  const restored = elsewhere(join(dir, good));
  copy = async (to) => backUp(restored.path, to);
  await start(restored, 1)();
  expect(files()).toHaveLength(1);
  expect(files()).not.toContain(good);
});

test('a restored store has no log-in session that has ended since, and no failed backup: the next one is due at once', async () => {
  const sessions = { digest: records.clock.time };
  await records.store.state.note({}, { sessions: JSON.stringify(sessions) });
  await step();
  const { store } = elsewhere(copies[0]);
  expect([await store.state.get('sessions'), await store.state.get('backup')]).toEqual([{}, null]);
  records.clock.time += 1_000;
  await start({ ...records, store })();
  expect(await store.state.get('backup')).toMatchObject({ file: copies[1], failures: 0 });
});

test('a folder that is named like a backup stays, and does not make a good backup count as failed', async () => {
  await step();
  const folder = join(dir, files()[0]?.replace(/\d{4}-.*/, '2020-01-01T00-00-00Z.db') ?? '');
  mkdirSync(folder);
  for (let day = 0; day < 5; day++, records.clock.time += DAY_MS) await start(records, 1)();
  expect(await kept()).toMatchObject({ failures: 0, error: null });
  expect(files().map((name) => join(dir, name))).toEqual([folder, copies.at(-1)]);
});

test.skipIf(process.getuid?.() === 0)('a good backup counts even if no old copy can be removed', async () => {
  await step();
  records.clock.time += DAY_MS;
  copy = async (to) => {
    const bytes = backUp(records.path, to);
    chmodSync(dir, 0o500);
    return bytes;
  };
  await start(records, 1)();
  chmodSync(dir, 0o700);
  expect(await kept()).toMatchObject({ failures: 0, error: null, file: copies.at(-1) });
  expect(testLog.text()).toContain('old backups were not removed');
  copy = async (to) => backUp(records.path, to);
  records.clock.time += DAY_MS;
  await start(records, 1)();
  expect(files()).toHaveLength(1);
});

test('a failed backup is tried again within an hour, leaves the copies, and tells its cause', async () => {
  await step();
  const good = await kept();
  copy = fail('/b/x.db cannot be used: SQLITE_FULL');
  for (let failures = 1; failures <= 2; failures++) {
    records.clock.time += failures === 1 ? DAY_MS : HOUR_MS;
    expect(await step()).toBe(HOUR_MS);
    const error = expect.stringContaining('SQLITE_FULL');
    expect(await kept()).toEqual({ ...good, at: records.clock.time, failures, error });
  }
  expect(files()).toHaveLength(1);
  copy = async (to) => backUp(records.path, to);
  records.clock.time += HOUR_MS;
  expect(await step()).toBe(DAY_MS);
  expect(await kept()).toMatchObject({ failures: 0, error: null });
  expect(testLog.text()).toContain('no backup was written');
});

test('without room for the store and a tenth, no backup is begun', async () => {
  storeBytes = 1e15;
  expect(await step()).toBe(HOUR_MS);
  expect(copies).toEqual([]);
  expect((await kept())?.error).toMatch(
    /\d+ MB are free, and the copy takes 1\d+ MB and leaves 640 MB on the disk of the store\. Make room/,
  );
});

test('a folder that is gone is not created again, because it may be a disk that is not mounted', async () => {
  await step();
  rmSync(dir, { recursive: true });
  records.clock.time += DAY_MS;
  await step();
  expect(existsSync(dir)).toBe(false);
  expect((await kept())?.error).toContain(`there is no folder ${dir} any more: mount or create it`);
});

test('an empty folder in the place of the backups is not written to, because it may be a disk that is not mounted', async () => {
  await step();
  const [newest = ''] = copies;
  renameSync(dir, `${dir}-disk`);
  mkdirSync(dir);
  records.clock.time += DAY_MS;
  await step();
  expect(files()).toEqual([]);
  expect((await kept())?.error).toContain(`${newest} is gone: mount BACKUP_DIR; if its files were removed, npx kit`);
  // The command that the words name.
  backUp(records.path, newest);
  records.clock.time += HOUR_MS;
  await step();
  expect(await kept()).toMatchObject({ failures: 0, file: copies.at(-1) });
});

test('in another folder, the backups begin anew', async () => {
  await step();
  dir = `${dir}-new`;
  mkdirSync(dir);
  records.clock.time += DAY_MS;
  await start()();
  expect(files().map((name) => join(dir, name))).toEqual([copies.at(-1)]);
});

test('an attempt that the end of keep cuts off counts as failed, and its file is removed at the next start', async () => {
  copy = (to) => {
    writeFileSync(`${to}.part`, 'half');
    return new Promise(() => {});
  };
  void step();
  await expect.poll(() => copies.length === 1 && existsSync(`${copies[0]}.part`)).toBe(true);
  expect(await kept()).toMatchObject({ failures: 1, error: expect.stringContaining('keep ended') });
  copy = async (to) => backUp(records.path, to);
  step = start();
  expect(await step(), 'a crash causes no storm').toBe(HOUR_MS);
  expect(files()).toEqual([]);
  records.clock.time += HOUR_MS;
  await step();
  expect(files().map((name) => join(dir, name))).toEqual(copies.slice(1));
});

test('an attempt that a stop cuts off counts as none', async () => {
  await step();
  const before = await kept();
  records.clock.time += DAY_MS;
  copy = (to) => {
    stopping.abort();
    return fail(to)();
  };
  await step();
  expect(await kept()).toEqual(before);
});

test('a copy that is damaged or shorter than the store is not taken for a backup', async () => {
  await deliver(records, { cursor: '1' }, { cursor: '2' });
  const to = join(records.path, '..', 'copy.db');
  expect(backUp(records.path, to)).toBe(statSync(to).size);
  rmSync(to);
  await records.store.state.note({ events: 1 });
  expect(() => backUp(records.path, to)).toThrow('the copy is not whole (it lacks events, up to number 2)');
});
