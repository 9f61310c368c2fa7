// `npx kit types` on the command line: names of fields, never values.
import { execFile } from 'node:child_process';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { createRecords, deliver, SESSION, type Records } from '../admin/harness.ts';

let records: Records;
beforeAll(async () => {
  records = createRecords();
  const received = { session_id: SESSION, from: '5511999990000', message_id: '3EB0', timestamp_unix_ms: 'soon' };
  const reaction = { message_id: '3EB0', emoji: 'secret', by: { '5511999990000': 'Ana' }, '\u001b[31m': 1 };
  await deliver(records, { cursor: '1', data: received }, { cursor: '2', data: { ...received, extra: { deep: 1 } } });
  await deliver(records, { cursor: '3', type: 'ReactionReceived', data: reaction });
});
afterAll(() => records.remove());

function types(...args: string[]): Promise<{ code: number; out: string }> {
  const env = { PATH: process.env['PATH'], DATABASE_URL: `sqlite:${records.path}` };
  return new Promise((done) => {
    const command = [`${process.cwd()}/src/cli/kit.js`, 'types', ...args];
    const child = execFile(process.execPath, command, { env }, (_, out, err) => {
      done({ code: child.exitCode ?? -1, out: out + err });
    });
  });
}

test('each type has a table of its fields, beside src/events.ts', async () => {
  const { code, out } = await types();
  expect(code).toBe(0);
  expect(out).toBe(`MessageReceived: 2 events
  field              in     kinds    src/events.ts
  session_id         100 %  UUID
  from               100 %  digits
  message_id         100 %  string
  body               0 %             never came
  is_group           0 %             never came
  timestamp_unix_ms  100 %  string   does not fit in 100 %
  message_type       0 %             never came
  push_name          0 %             never came
  extra              50 %   object   does not name it
  extra.deep         100 %  integer  does not name it
MessageSent: 0 events
MessageStatusUpdated: 0 events
ReactionReceived: 1 event; not in src/events.ts: npx kit types ReactionReceived --schema
  field       in     kinds
  message_id  100 %  string
  emoji       100 %  string
  by          100 %  object
  by.<key>    -      string
  <key>       -      integer
`);
});

test('one type is shown as JSON, or as a definition to paste', async () => {
  const { out } = await types('ReactionReceived', '--json');
  expect(JSON.parse(out)).toMatchObject([
    { type: 'ReactionReceived', events: 1, defined: false, fields: [{ path: 'message_id', share: 1 }, {}, {}, {}, {}] },
  ]);
  const { code, out: text } = await types('ReactionReceived', '--schema');
  expect(code).toBe(0);
  expect(text).toMatch(/^ {2}ReactionReceived: define\(\{\n[^]*\n {2}\}\),\n$/);
});

test.each([[[]], [['--json']], [['ReactionReceived', '--schema']], [['ReactionReceived', '--json']]])(
  'no value of a person, and no key, is shown: %j',
  async (args) => {
    const { out } = await types(...args);
    expect(out).toContain('message_id');
    expect(out).not.toContain('\u001b');
    expect(out).not.toMatch(/5511999990000|3EB0|secret|Ana|soon|5f0c3a52/);
  },
);

test('a type of which nothing is stored, or none at all for a definition, is refused', async () => {
  for (const args of [['Reaction'], ['MessageSent', '--schema'], ['MessageSent', '--json']]) {
    const { code, out } = await types(...args);
    expect({ code, out }).toEqual({ code: 1, out: expect.stringMatching(/^no readable event of \w+ is stored; /) });
  }
  expect((await types('--schema')).code).toBe(2);
  expect((await types('a', 'b')).code).toBe(2);
});
