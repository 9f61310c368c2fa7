// Events, one event and dead letters on the command line: everything that the page can do.
import { execFile } from 'node:child_process';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { assign, createOps, deliver, end, type Ops } from '../ops/rig.ts';

let ops: Ops;
beforeAll(async () => {
  ops = await createOps();
  await deliver(ops, { cursor: '1' }, { cursor: '2' }, { cursor: '3' }, { cursor: '3' });
  await deliver(ops, { cursor: '4', data: { message_id: `it's \u001b[31m "odd"` } });
  const [handler = 0] = await assign(ops, ['answer'], { lane: 'one' });
  for (let n = 1; n <= 3; n++) await end(ops, handler, 'dead', n === 2 ? 'TypeError: \u001b[31mno' : `Error: no ${n}`);
});
afterAll(() => ops.close());

function kit(...args: string[]): Promise<{ code: number; out: string }> {
  const env = { PATH: process.env['PATH'], DATABASE_URL: `sqlite:${ops.path}` };
  return new Promise((done) => {
    const child = execFile(process.execPath, [`${process.cwd()}/src/cli/kit.js`, ...args], { env }, (_, out, err) => {
      done({ code: child.exitCode ?? -1, out: out + err });
    });
  });
}

test('events are narrowed as on the page, and exported as lines', async () => {
  const { out } = await kit('events', '--ndjson', '--handler', 'answer', '--state', 'dead');
  const keys = out
    .trim()
    .split('\n')
    .map((line) => (JSON.parse(line) as { key: string }).key);
  expect(keys).toEqual(['c:3', 'c:2', 'c:1']);
  expect((await kit('events', '--origin', 'stream')).out).not.toContain('c:');
  expect((await kit('events', '--since', 'yesterday')).code).toBe(2);
});

test('what most tasks wait for is named, and not by whom: explain tells that', async () => {
  await deliver(ops, { cursor: '7' }, { cursor: '8' });
  await assign(ops, ['answer'], { lane: 'a person' });
  const { out } = await kit('tasks', '--lanes');
  expect(out).toMatch(/answer +\d+ +c:\d+ +0\n/);
  expect(out).not.toContain('a person');
});

test('a table is aligned, without colour where there is no terminal', async () => {
  const { out } = await kit('events');
  const lines = out.trimEnd().split('\n');
  expect(out).not.toContain('\u001b');
  expect(new Set(lines.map((line) => line.search(/key|c:\d/))).size).toBe(1);
});

test('explain tells the story in words, and the body on demand only', async () => {
  const { out } = await kit('explain', '3');
  for (const words of [
    'first delivery',
    'duplicate 1',
    'answer: attempt 1',
    'Error: no #'.replace('#', '3'),
    'c:2 dead',
  ])
    expect(out).toContain(words);
  expect(out).not.toContain('5511999990000');
  expect((await kit('explain', '3', '--body')).out).toContain('5511999990000');
  expect((await kit('explain', '3', '--fixture')).out).toContain('fixture("MessageReceived"');
});

test('the curl line takes any body as it is, and holds no secret', async () => {
  const { out } = await kit('explain', '4', '--curl');
  expect(out).toContain('$WEBHOOK_SECRET');
  expect(out).toContain(`it'\\''s`);
  expect(out).not.toContain('\u001b');
});

test('dead letters are grouped; a group is retried, another discarded', async () => {
  const { out } = await kit('tasks', '--state', 'dead', '--groups', '--json');
  const { groups } = JSON.parse(out) as { groups: { id: number; dead: number; pattern: string }[] };
  expect(groups).toMatchObject([{ dead: 2, pattern: 'Error: no #' }, { dead: 1 }]);
  const table = (await kit('tasks', '--state', 'dead', '--groups')).out;
  expect(table).toContain('Error: no #');
  expect(table).not.toContain('\u001b');
  expect((await kit('tasks', '--groups')).code).toBe(2);
  expect((await kit('retry', '--group', String(groups[0]?.id))).out).toContain('2 tasks will run again');
  const discarded = await kit('discard', '--group', String(groups[1]?.id), '--reason', 'no use');
  expect(discarded.out).toContain('1 task skipped');
  expect((await kit('tasks', '--state', 'dead', '--groups')).out).toContain('0 dead letters');
});
