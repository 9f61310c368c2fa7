// Runs `npx kit trigger` as people do, against a real receiver.
import { execFile } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest';
import { z } from 'zod';
import { samples } from '../../src/cli/lib/sample.ts';
import { eventTypes } from '../../src/wire/event-map.ts';
import { mismatchOf } from '../../src/run/handler-event.ts';
import { storedEvent } from '../run/fixture.ts';
import { createKit, SECRET, type Kit } from '../system/kit.ts';

let kit: Kit;
beforeAll(async () => {
  kit = await createKit();
  await kit.start();
});
afterAll(() => kit.remove());

const asStored = (type: string, data: unknown) =>
  storedEvent({ type, text: JSON.stringify({ type, data: { [type]: data } }) });

const trigger = (...args: string[]) => run('trigger', ...args);

function run(...args: string[]): Promise<{ code: number; lines: string[] }> {
  const env = {
    PATH: process.env['PATH'],
    WEBHOOK_SECRET: SECRET,
    PORT: String(kit.port),
    DATABASE_URL: `sqlite:${kit.folder}/events.db`,
  };
  return new Promise((done) => {
    const command = [`${process.cwd()}/src/cli/kit.js`, ...args];
    const child = execFile(process.execPath, command, { env, cwd: kit.folder }, (_, out, err) => {
      done({ code: child.exitCode ?? -1, lines: (out + err).trim().split('\n') });
    });
  });
}

interface Sent {
  cursor: string | null;
  created_at: string;
  data: Record<string, Record<string, unknown>>;
}

/** The bodies of these events as they arrived, in the order of the keys. */
function bodies(keys: string[]): Sent[] {
  const ids = keys.map((key) => key.slice('i:'.length));
  return ids.flatMap((id) =>
    kit
      .query<{ body: Buffer }>('select body from events where id = ? and cursor is null', id)
      .map(({ body }) => JSON.parse(body.toString()) as Sent),
  );
}

async function sent(...args: string[]): Promise<Sent[]> {
  const { code, lines } = await trigger(...args, '--json');
  expect(lines.join('\n')).toMatch(/^\[/);
  expect(code).toBe(0);
  return bodies((JSON.parse(lines.join('\n')) as { key: string }[]).map(({ key }) => key));
}

test('one event prints one line and the next command', async () => {
  const { code, lines } = await trigger('MessageReceived', '--set', 'data.body=hi');
  expect(code).toBe(0);
  expect(lines).toEqual([
    expect.stringMatching(/^204 for MessageReceived i:trigger_/),
    expect.stringMatching(/^DATABASE_URL=sqlite:\S+ npx kit explain i:/),
  ]);
});

test('shuffled and duplicated events come in mixed order, and their times ascend with their cursors', async () => {
  const { code, lines } = await trigger(
    ...['MessageReceived', '--repeat', '5', '--shuffle', '--duplicate', '--set', 'cursor=100'],
  );
  expect(code).toBe(0);
  expect(lines).toHaveLength(11);
  expect(lines.at(-1)).toBe('5 events in 10 deliveries: 10 answered 204, as expected');
  const keys = lines.slice(0, 10).map((line) => line.split(' ').at(-1) ?? '');
  const events = bodies(keys);
  const cursors = events.map(({ cursor }) => Number(cursor));
  expect(cursors).toHaveLength(10);
  expect(cursors).not.toEqual(cursors.toSorted((a, b) => a - b));
  const inOrder = new Map(
    events.toSorted((a, b) => Number(a.cursor) - Number(b.cursor)).map((one) => [one.cursor, one]),
  );
  expect([...inOrder.keys()]).toEqual(['100', '101', '102', '103', '104']);
  const times = [...inOrder.values()].map((one) => Date.parse(one.created_at));
  expect(times).toEqual(times.map((_, n) => (times[0] ?? 0) + n));
  expect(kit.query('select copies from events where copies = 1')).toHaveLength(5);
});

test.each([
  ['signed with another secret', ['--bad-signature'], 401],
  ['older than the tolerance', ['--old', '400'], 401],
  ['old, within the tolerance', ['--old', '200'], 204],
])('an event that is %s gets the expected answer, and the exit code is 0', async (_, args, status) => {
  const { code, lines } = await trigger('MessageReceived', '--json', ...args);
  expect(code).toBe(0);
  expect(JSON.parse(lines.join('\n'))).toMatchObject([{ status }]);
});

test('an unexpected answer is a failure', async () => {
  expect(await trigger('MessageReceived', '--url', `http://127.0.0.1:${kit.port}/other`)).toMatchObject({ code: 1 });
});

test('if nothing answers, the command says so', async () => {
  const { code, lines } = await trigger('MessageReceived', '--url', 'http://127.0.0.1:1/webhooks');
  expect(code).toBe(69);
  expect(lines.join()).toContain('nothing answers at http://127.0.0.1:1 (ECONNREFUSED): start the receiver');
});

test.each([
  ['MessageReceived', 'i:trigger_'],
  ['webhook.ping', 'i:trigger_'],
])('E80: a cursor is only data: %s is stored under its id, and `explain` finds it', async (type, key) => {
  const { lines } = await trigger(type, '--set', 'cursor=42', '--set', `id=evt_${type}`);
  expect(lines[0]).toMatch(new RegExp(`^204 for ${type} ${key}`));
  expect(lines[1]).toBe(`DATABASE_URL=sqlite:${kit.folder}/events.db npx kit explain ${lines[0]?.split(' ').at(-1)}`);
  expect(bodies([`i:trigger_evt_${type}`])).toMatchObject([{ cursor: '42', sent_by: 'kit' }]);
  expect(kit.query("select * from events where cursor is not null or id like 'evt_%'")).toEqual([]);
  const explained = await run('explain', lines[0]?.split(' ').at(-1) ?? '');
  expect(explained).toMatchObject({ code: 0, lines: expect.arrayContaining([expect.stringContaining(type)]) });
});

test.each([
  ['MessageReceived', '--repeat', '3', '--set', 'cursor=9223372036854775807'],
  ['a', '--set', 'cursor=-1'],
])('E80: an invalid cursor is refused before anything is sent: %j', async (...args) => {
  const { code, lines } = await trigger(...args);
  expect({ code, first: lines[0] }).toEqual({ code: 2, first: expect.stringContaining('0 to 9223372036854775807') });
});

test.each(Object.keys(eventTypes))('E63: %s is sent with its own example, and fits its schema', async (type) => {
  const [event] = await sent(type);
  const data = type === 'webhook.ping' ? event?.data : event?.data[type];
  const { example } = eventTypes[type as keyof typeof eventTypes];
  const names = Object.keys(example?.({ n: 1, session: randomUUID(), at: 1 }) ?? {});
  expect(Object.keys(data ?? {})).toEqual(names);
  expect(mismatchOf(asStored(type, data))).toBeUndefined();
});

test('E63: a value of --set gets the type of its field', async () => {
  const [event] = await sent(
    ...['MessageReceived', '--set', 'data.from=5511999', '--set', 'data.is_group=true', '--set', 'data.body=null'],
    ...[
      '--set',
      'data.timestamp_unix_ms=1767225600000',
      '--set',
      'data.push_name={"a":1}',
      '--set',
      'data.extra={"a":1}',
    ],
    ...['--set', 'data.far=9007199254740993'],
  );
  const { MessageReceived: data } = event?.data ?? {};
  expect(data).toMatchObject({ from: '5511999', is_group: true, timestamp_unix_ms: 1_767_225_600_000 });
  expect(data).toMatchObject({ push_name: '{"a":1}', extra: { a: 1 }, far: '9007199254740993' });
  expect(event?.created_at).toBe('2026-01-01T00:00:00.000Z');
  expect(mismatchOf(asStored('MessageReceived', data))).toBeUndefined();
  const [gap] = await sent('kit.gap', '--set', 'data.upTo=null', '--set', 'data.after=7');
  expect(gap?.data['kit.gap']).toMatchObject({ upTo: null, after: '7' });
  const [bare] = await sent('MessageSent', '--set', 'data.message_id=5511', '--set', 'data.count=3');
  expect(bare?.data['MessageSent']).toMatchObject({ message_id: '5511', count: 3 });
});

test('E63: an event of an unknown type holds only the data of --set, and the command says so', async () => {
  const { code, lines } = await trigger('Thing', '--set', 'data.a=1', '--set', 'data.__proto__=b');
  expect(code).toBe(0);
  expect(lines.join('\n')).toContain('src/events.ts has no example of Thing');
  const key =
    lines
      .find((line) => line.startsWith('204'))
      ?.split(' ')
      .at(-1) ?? '';
  expect(JSON.stringify(bodies([key])[0]?.data)).toBe('{"Thing":{"a":1,"__proto__":"b"}}');
});

test('a misspelt type is sent, with a question whether the known type was meant', async () => {
  const { code, lines } = await trigger('messagereceved');
  expect(code).toBe(0);
  expect(lines.join('\n')).toContain('no example of messagereceved (did you mean MessageReceived?): its data');
});

test.each([
  ['data.is_group=maybe', 'data.is_group of MessageReceived must be true or false', '--set data.is_group='],
  [
    'data.timestamp_unix_ms=soon',
    'data.timestamp_unix_ms of MessageReceived must be an integer',
    'data.timestamp_unix_ms=',
  ],
  ['data.session_id=none', 'data.session_id of MessageReceived must be a UUID', '--set data.session_id='],
  ['session_id=none', 'data.session_id of MessageReceived must be a UUID', '--set data.session_id='],
  ['data.bdoy=hi', 'MessageReceived has no field bdoy: did you mean data.body?', 'src/events.ts'],
  ['data.from=', 'data.from of MessageReceived must have 1 character or more', '--set data.from='],
  ['created_at=soon', 'created_at needs a time', '2026'],
  ['id=two words', 'this could not be read as an event', 'id'],
  ['sent_by=me', '--set sent_by: name id, cursor', 'data.<field>'],
  ['data', '--set takes path=value, like data.body=hi, not data', 'letters'],
  [`data.a-b=${'9'.repeat(300)}`, '--set takes path=value, like data.body=hi, not data.a-b', 'letters'],
])('E63: %s is refused before it is sent', async (assignment, words, must) => {
  const before = kit.query('select seq from events').length;
  const { code, lines } = await trigger('MessageReceived', '--set', assignment);
  expect({ code, first: lines[0] }).toEqual({ code: 2, first: expect.stringContaining(words) });
  expect(lines[0]).toContain(must);
  expect(lines[0]?.length).toBeLessThan(300);
  expect(kit.query('select seq from events')).toHaveLength(before);
});

test('a schema of your own: the message of each fault names the field, what it must be, and --set', () => {
  const data = z.looseObject({
    order: z.string(),
    state: z.enum(['open', 'paid']).default('open'),
    items: z
      .array(z.object({ sku: z.string() }))
      .max(1)
      .default([]),
    amount: z.number().min(5).default(5),
    currency: z.string().length(3, 'must be a currency, like EUR').default('EUR'),
    odd: z.number().multipleOf(2).default(2),
  });
  onTestFinished(() => void Reflect.deleteProperty(eventTypes, 'Order'));
  Object.assign(eventTypes, { Order: { data } });
  const fault = (...set: string[]): string => {
    try {
      samples('Order', 1, set);
    } catch (error) {
      return (error as Error).message;
    }
    return 'none';
  };
  const by = (field: string): string => `, by its schema in src/events.ts: give it with --set data.${field}=VALUE`;
  expect(fault()).toBe(`data.order of Order is missing, and must be a string${by('order')}`);
  const faults = ['state=x', 'items=[{}]', 'items={', 'items=[1,2]', 'amount=1', 'amount=x', 'currency=E', 'odd=3'];
  expect(faults.map((one) => fault('data.order=1', `data.${one}`))).toEqual([
    `data.state of Order must be "open" or "paid"${by('state')}`,
    `data.items.0.sku of Order is missing, and must be a string${by('items')}`,
    `data.items of Order must be a list, written as JSON${by('items')}`,
    `data.items of Order must have 1 item or less${by('items')}`,
    `data.amount of Order must be 5 or more${by('amount')}`,
    `data.amount of Order must be a number${by('amount')}`,
    `data.currency of Order must be a currency, like EUR${by('currency')}`,
    `data.odd of Order does not fit${by('odd')}`,
  ]);
});

test.each([
  [['MessageReceived', '--repeat', '0']],
  [['MessageReceived', '--repeat', '99999999']],
  [['MessageReceived', '--shuffle']],
  [[]],
  [['a', '--url', 'x']],
])('wrong usage: %j', async (args) => {
  expect((await trigger(...args)).code).toBe(2);
});
