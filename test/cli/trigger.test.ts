// `npx kit trigger` as people run it, against a real receiver.
import { execFile } from 'node:child_process';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { createKit, SECRET, type Kit } from '../system/kit.ts';

let kit: Kit;
beforeAll(async () => {
  kit = await createKit();
  await kit.start();
});
afterAll(() => kit.remove());

function trigger(...args: string[]): Promise<{ code: number; lines: string[] }> {
  const env = { PATH: process.env['PATH'], WEBHOOK_SECRET: SECRET, PORT: String(kit.port) };
  return new Promise((done) => {
    const command = [`${process.cwd()}/src/cli/kit.js`, 'trigger', ...args];
    const child = execFile(process.execPath, command, { env, cwd: kit.folder }, (_, out, err) => {
      done({ code: child.exitCode ?? -1, lines: (out + err).trim().split('\n') });
    });
  });
}

const stored = (from: number) =>
  kit.query<{ cursor: number; created_at: number; copies: number }>(
    'select cursor, created_at, copies from events where cursor between ? and ? order by seq',
    from,
    from + 99,
  );

test('one event is one line and a hint', async () => {
  const { code, lines } = await trigger('MessageReceived', '--set', 'data.body=hi');
  expect(code).toBe(0);
  expect(lines).toEqual([
    expect.stringMatching(/^204 for MessageReceived i:trigger_/),
    expect.stringMatching(/^npx kit explain i:/),
  ]);
});

test('shuffled and doubled events come in mixed order, their times ascending by cursor', async () => {
  const { code, lines } = await trigger(
    ...['MessageReceived', '--repeat', '5', '--shuffle', '--duplicate', '--set', 'cursor=100'],
  );
  expect(code).toBe(0);
  expect(lines).toHaveLength(11);
  expect(lines.at(-1)).toBe('5 events in 10 deliveries: 10 answered 204, as they should');
  const sent = lines.slice(0, 10).map((line) => Number(line.split('c:')[1]));
  expect(sent).not.toEqual(sent.toSorted((a, b) => a - b));
  const events = stored(100).toSorted((a, b) => a.cursor - b.cursor);
  expect(events).toMatchObject([100, 101, 102, 103, 104].map((cursor) => ({ cursor, copies: 1 })));
  expect(events.map((one) => one.created_at)).toEqual(events.map((_, n) => (events[0]?.created_at ?? 0) + n));
});

test.each([
  ['signed with another secret', ['--bad-signature'], 401],
  ['older than the tolerance', ['--old', '400'], 401],
  ['old, within the tolerance', ['--old', '200'], 204],
])('what is %s gets what it should, and that is no failure', async (_, args, status) => {
  const { code, lines } = await trigger('MessageReceived', '--json', ...args);
  expect(code).toBe(0);
  expect(JSON.parse(lines.join('\n'))).toMatchObject([{ status }]);
});

test('another answer than it should get is a failure', async () => {
  expect(await trigger('MessageReceived', '--url', `http://127.0.0.1:${kit.port}/other`)).toMatchObject({ code: 1 });
});

test('where nothing answers it says so', async () => {
  const { code, lines } = await trigger('MessageReceived', '--url', 'http://127.0.0.1:1/webhooks');
  expect(code).toBe(69);
  expect(lines.join()).toContain('nothing answers at http://127.0.0.1:1 (ECONNREFUSED): start the receiver');
});

test.each([[['MessageReceived', '--repeat', '0']], [['MessageReceived', '--shuffle']], [[]], [['a', '--url', 'x']]])(
  'wrong usage: %j',
  async (args) => {
    expect((await trigger(...args)).code).toBe(2);
  },
);
