// Several instances of the kit on one store, as `npx kit instances` and `npx kit status` show them.
import { execFile } from 'node:child_process';
import { afterEach, beforeEach, expect, onTestFinished, test, vi } from 'vitest';
import { show } from '../../src/cli/commands/instances.ts';
import { show as showStatus, withState } from '../../src/cli/commands/status.ts';
import { UNREAD } from '../../src/keep/view.ts';
import type { Status } from '../../src/store/read.ts';
import { createRecords, HOSTILE, INSTANCES } from '../admin/harness.ts';

const LOST = '2026-01-02T03:04:05.678Z';
const READY = { words: 'ready', ready: true, listens: true };
const UP = UNREAD.processes;

let text: string;
beforeEach(() => {
  text = '';
  vi.spyOn(process.stdout, 'write').mockImplementation((part) => ((text += String(part)), true));
});
afterEach(() => {
  vi.restoreAllMocks();
});

function statusOf(instances: Status['instances']): Status {
  return { ...UNREAD, instances };
}

function printed(instances: Status['instances']): string[] {
  show(statusOf(instances), false);
  return text.trimEnd().split('\n');
}

test('one that leads, one that stands by and one that is lost', () => {
  const rows = printed(INSTANCES).map((line) => line.split(/ {2,}/));
  expect(rows).toEqual([
    ['instance', 'version', 'since', 'leads', 'processes', 'handlers', 'state'],
    ['first:11', '0.1.0', '2026-01-01T00:00:00.000Z', 'yes', 'keep receive run', '1', 'up'],
    ['second:22', '0.1.0', '2026-01-02T00:00:00.000Z', 'no', 'keep receive', '1', 'up'],
    ['third:33', '0.1.0', '2026-01-03T00:00:00.000Z', 'no', '-', '1', `lost since ${LOST}`],
  ]);
});

test('a PostgreSQL store without instances is not taken for a file', () => {
  expect(printed([])).toEqual(['no instance gives signs of life']);
});

test('the status has a line of them after the processes', () => {
  showStatus(statusOf(INSTANCES), 0, READY, '');
  expect(text).toMatch(/^Receiving\. .*\n\nprocesses +receive up, run up, keep up\ninstances +(.*)\nevents/);
  expect(text).toContain(`  2 up, first:11 leads; third:33 lost since ${LOST}\n`);
});

test('the status says if none leads, and has no such line for a file', () => {
  showStatus(statusOf(INSTANCES.slice(1)), 0, READY, '');
  expect(text).toMatch(/^instances +1 up, none leads; third:33/m);
  text = '';
  showStatus(statusOf([]), 0, READY, '');
  expect(text).not.toContain('instances');
});

test('the processes are those of all instances, and the receiver speaks for them only if it is the only one', () => {
  const state = { store: 's', writable: true, processes: { ...UP, run: 'down' as const }, alarms: [] };
  expect(withState(statusOf(INSTANCES), state).processes).toEqual(UP);
  expect(withState(statusOf(INSTANCES.slice(0, 1)), state).processes.run).toBe('down');
});

test('a name cannot control the terminal', () => {
  const hostile = INSTANCES.map((one) => ({ ...one, name: HOSTILE, version: HOSTILE }));
  expect(printed(hostile)).toHaveLength(4);
  showStatus(statusOf(hostile), 0, READY, '');
  for (const sign of ['\u001b', '\u202e']) expect(text).not.toContain(sign);
  expect(text).toContain(`\u{fffd}[2J\u{fffd}\u{fffd}&':44 leads;`);
});

test('a store in a file has one instance', async () => {
  const { store, path, remove } = createRecords();
  onTestFinished(() => remove());
  const kit = (...args: string[]): Promise<string> =>
    new Promise((done) => {
      const env = { PATH: process.env['PATH'], DATABASE_URL: `sqlite:${path}` };
      execFile(process.execPath, ['src/cli/kit.js', 'instances', ...args], { env }, (_, out, err) => done(out + err));
    });
  const words = 'the store is a file, so it has one instance; processes up:';
  expect(await kit()).toBe(`${words} none\n`);
  for (const role of ['keep', 'receive'])
    await store.processes.beat({ role, pid: 1, started: '', boot: 1 }, Date.now());
  expect(await kit()).toBe(`${words} receive keep\n`);
  expect(JSON.parse(await kit('--json'))).toEqual({ instances: [] });
});
