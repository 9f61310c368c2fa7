// Commands as a person runs them, in a process of their own, on a store whose kit is down.
import { spawn } from 'node:child_process';
import { text } from 'node:stream/consumers';
import { dirname, join } from 'node:path';
import { expect, test } from 'vitest';
import { createWorld, type World } from '../store/fixture.ts';

const KIT = join(import.meta.dirname, '../../src/cli/kit.js');

async function kit(world: World, args: string[], env: Record<string, string> = {}, node: string[] = []) {
  const all = { PATH: process.env['PATH'], DATABASE_URL: `sqlite:${world.file}`, ...env };
  const child = spawn(process.execPath, [...node, KIT, ...args], { cwd: dirname(world.file), env: all });
  const ended = new Promise<number | null>((resolve) => child.once('close', resolve));
  const [out, error, code] = await Promise.all([text(child.stdout), text(child.stderr), ended]);
  return { out, error, code };
}

async function worldWith(event: object = {}): Promise<World> {
  const world = await createWorld().begin();
  await world.accept({ cursor: 1, id: 'a', ...event });
  await world.settle();
  return world;
}

test('the status is told while the kit is down, and says so first', async () => {
  const world = await worldWith();
  const { out, code } = await kit(world, ['status']);
  expect([out.split('\n')[0], code]).toEqual(['The kit is not running: npm start', 0]);
});

test('--json is what the API answers', async () => {
  const { out } = await kit(await worldWith(), ['events', '--json']);
  expect(JSON.parse(out)).toMatchObject([{ key: 'c:1', receivedAt: '1970-01-01T00:16:40.000Z', deliveries: 1 }]);
});

test('a command changes the store that it opens; an option of two words has a hyphen', async () => {
  const world = await worldWith();
  await kit(world, ['rerun', '--handler', 'h', '--all', '--per-minute', '7']);
  expect(world.rows('select only, per_minute as pace from reruns')).toEqual([{ only: 'all', pace: 7 }]);
});

const ESCAPE = '\u001b]0;owned\u0007\u009b2J\u202etxt\u{e0041}';
test.each([
  ['as a table', []],
  ['as JSON', ['--json']],
])('hostile text cannot reach the terminal %s', async (_, more) => {
  const { out } = await kit(await worldWith({ session: ESCAPE }), ['events', ...more]);
  expect(out).not.toMatch(/(?!\n)[\p{Cc}\u202e\u{e0000}-\u{e007f}]/u);
  if (more.length > 0) expect(JSON.parse(out)).toMatchObject([{ session: ESCAPE }]);
});

test.each<[string, string[], Record<string, string>, number, RegExp]>([
  ['an unknown command', ['evnts'], {}, 2, /^there is no command evnts: there are status, events, /],
  ['an unknown option', ['events', '--sesion', 'x'], {}, 2, /^Unknown option '--sesion'/],
  ['a wrong value', ['events', '--limit', '0'], {}, 2, /^limit: /],
  ['no store', ['status'], { DATABASE_URL: 'sqlite:none.db' }, 78, /there is no store at .*none\.db: see DATABASE_URL/],
  ['a faulty configuration', ['backup'], { RETENTION_DAYS: 'x' }, 78, /RETENTION_DAYS must be a whole number/],
])('%s ends with its code and a sentence', async (_, args, env, code, words) => {
  const ended = await kit(await worldWith(), args, env);
  expect([ended.code, ended.out]).toEqual([code, '']);
  expect(ended.error).toMatch(words);
});

test('a store that is none ends with 78', async () => {
  const world = await worldWith();
  const { code, error } = await kit(world, ['status'], { DATABASE_URL: `sqlite:${KIT}` });
  expect([code, error]).toEqual([78, expect.stringMatching(/not a database/)]);
});

test('each command has help that names its options', async () => {
  const world = await worldWith();
  expect((await kit(world, ['rerun', '--help'])).out).toContain('--per-minute …');
});

test('it says its version, and an older Node gets a sentence and 78', async () => {
  const world = await worldWith();
  expect((await kit(world, ['--version'])).out).toMatch(/^webhook-receiver-kit \d+\.\d+\.\d+, Node v/);
  const old = "data:text/javascript,Object.defineProperty(process,'versions',{value:{node:'20.1.0'}})";
  const { code, error } = await kit(world, ['status'], {}, ['--import', old]);
  expect([code, error]).toEqual([78, expect.stringMatching(/^npx kit needs Node 24 or newer/)]);
});
