// Events, one event and dead letters on the command line, which can do everything that the page can.
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { fanOut, createRecords, deliver, end, type Records } from '../admin/harness.ts';

let records: Records;
beforeAll(async () => {
  records = createRecords();
  await deliver(records, { cursor: '1' }, { cursor: '2' }, { cursor: '3' }, { cursor: '3' });
  await deliver(records, { cursor: '4', data: { message_id: `it's \u001b[31m "odd"` } });
  const [handler = 0] = await fanOut(records, ['answer'], { lane: 'one' });
  for (let n = 1; n <= 3; n++)
    await end(records, handler, 'dead', n === 2 ? 'TypeError: \u001b[31mno' : `Error: no ${n}`);
});
afterAll(() => records.remove());

let port = '1';

function spawnKit(args: string[], done: (out: string) => void = () => {}) {
  const env = { PATH: process.env['PATH'], DATABASE_URL: `sqlite:${records.path}`, PORT: port };
  const command = [`${process.cwd()}/src/cli/kit.js`, ...args];
  return execFile(process.execPath, command, { env }, (_, out, err) => done(out + err));
}

function kit(...args: string[]): Promise<{ code: number; out: string }> {
  return new Promise((done) => {
    const child = spawnKit(args, (out) => done({ code: child.exitCode ?? -1, out }));
  });
}

test('events are filtered as on the page, and exported as lines of JSON', async () => {
  const { out } = await kit('events', '--ndjson', '--handler', 'answer', '--state', 'dead');
  const keys = out
    .trim()
    .split('\n')
    .map((line) => (JSON.parse(line) as { key: string }).key);
  expect(keys).toEqual(['c:3', 'c:2', 'c:1']);
  expect((await kit('events', '--origin', 'stream')).out).not.toContain('c:');
  expect((await kit('events', '--since', 'yesterday')).code).toBe(2);
});

test('`tasks --lanes` names the event that most tasks wait for, but not the lane', async () => {
  await deliver(records, { cursor: '7' }, { cursor: '8' });
  await fanOut(records, ['answer'], { lane: 'a person' });
  const { out } = await kit('tasks', '--lanes');
  expect(out).toMatch(/answer +\d+ +c:\d+ +0\n/);
  expect(out).not.toContain('a person');
});

test('a table is aligned, and has no colour outside a terminal', async () => {
  const { out } = await kit('events');
  const lines = out.trimEnd().split('\n');
  expect(out).not.toContain('\u001b');
  expect(new Set(lines.map((line) => line.search(/key|c:\d/))).size).toBe(1);
});

test('`explain` shows the timeline, and the body only on demand', async () => {
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

test('contradictions are shown for both events, and their bodies on demand', async () => {
  await deliver(records, { cursor: '5', id: 'twin', data: { body: 'first' } });
  await deliver(records, { cursor: '5', id: 'other', data: { body: 'second' } });
  await deliver(records, { cursor: '5', id: 'twin', data: { body: 'third' } });
  expect((await kit('events', '--contradicted')).out.match(/[ci]:\S+/g)).toEqual(['c:5', 'c:3']);
  const { out } = await kit('explain', 'c:5');
  expect(out).toContain('contradicted by webhook: its cursor was known with another id and other data: id other');
  expect(out).toContain('its id was known with other data: id twin');
  expect((await kit('explain', 'i:other')).out).toContain('npx kit explain c:5');
  const { out: bodies } = await kit('explain', 'c:5', '--body');
  expect(['first', 'second', 'third'].map((text) => bodies.includes(text))).toEqual([true, true, true]);
  const { contradictions } = JSON.parse((await kit('explain', 'c:5', '--body', '--json')).out) as {
    contradictions: { body: string }[];
  };
  expect(contradictions.map(({ body }) => /second|third/.exec(body)?.[0])).toEqual(['second', 'third']);
});

test('the curl command quotes any body correctly, and holds no secret', async () => {
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

/** Characters that control a terminal, change the direction of text, or are invisible. */
const STEERING = '\u001b]0;x\u0007\u009b31m\u0085\u007f\u202e\u2066\u200f\u061c\u2028\u200b\ufeff\r\n\t';

test('text from outside cannot control a terminal, in words or in JSON, and JSON keeps it unchanged', async () => {
  await deliver(records, { cursor: '20', session: STEERING, data: { message_id: STEERING, body: STEERING } });
  const [handler = 0] = await fanOut(records, ['answer'], { lane: STEERING });
  await end(records, handler, 'dead', `Error: ${STEERING}`);
  const unreadable = { origin: 'webhook', cursor: null, body: Buffer.from(STEERING), reason: STEERING } as const;
  await records.store.ingest.accept({ readings: [{ unreadable }], now: records.clock.time });
  const event = ['explain', 'c:20'];
  const tables = [
    ['events'],
    ['tasks'],
    ['tasks', '--state', 'dead', '--groups'],
    ['tasks', '--lanes'],
    ['quarantine'],
  ];
  const json = [...tables, event, [...event, '--body']].map((words) => [...words, '--json']);
  const bodies = ['--body', '--curl', '--fixture'].map((form) => [...event, form]);
  // A line feed is allowed in the output, because the kit itself prints one at the end of each line.
  for (const words of [...tables, event, ...bodies, ...json, ['events', '--ndjson', '--bodies']])
    expect((await kit(...words)).out, words.join(' ')).not.toMatch(/(?!\n)[\p{Cc}\p{Bidi_Control}\u2028\u200b\ufeff]/u);

  const { out } = await kit(...event, '--json', '--body');
  const shown = JSON.parse(out) as { event: { sessionId: string }; body: string };
  expect(shown.event.sessionId).toBe(STEERING);
  expect(JSON.parse(shown.body)).toMatchObject({ data: { MessageReceived: { body: STEERING } } });
  const fixture = (await kit(...event, '--fixture')).out;
  const overrides = /, (\{.*\})\)/s.exec(fixture)?.[1] ?? '';
  expect(JSON.parse(overrides)).toMatchObject({ data: { body: STEERING } });
});

test('a list that is cut names the option --before of the next page', async () => {
  expect((await kit('events', '--origin', 'webhook', '--limit', '1')).out).toMatch(/the same with --before \d+\n/);
  expect((await kit('tasks', '--state', 'dead', '--limit', '1')).out).toMatch(/the same with --before \d+\n/);
});

test.each([['status'], ['events'], ['reconcile'], ['erase', '--sender', '5511999990000']])(
  '%s refuses arguments that it does not use',
  async (...words) => {
    const { code, out } = await kit(...words, 'c:1');
    expect(code).toBe(2);
    expect(out).toContain("'c:1'");
    expect(out).toContain(`Usage: npx kit ${words[0]}`);
  },
);

test('a retry or discard without a matching task fails, and says where to look', async () => {
  for (const words of [
    ['retry', '999'],
    ['discard', '999', '--reason', 'no use'],
  ]) {
    const { code, out } = await kit(...words);
    expect(code).toBe(1);
    expect(out).toContain('npx kit tasks');
  }
});

test('a receiver that cannot write its signs of life is asked directly, so it does not count as stopped', async () => {
  expect((await kit('reconcile')).out).toBe('the receiver is not running: npm start\n');
  const receiver = createServer((_, res) => res.writeHead(503).end('the store cannot be written\n'));
  await once(receiver.listen(0, '127.0.0.1'), 'listening');
  port = String((receiver.address() as AddressInfo).port);
  for (const words of [['reconcile'], ['verify', '--from', '1']]) {
    const { code, out } = await kit(...words);
    expect(code).toBe(69);
    expect(out).toMatch(/^the receiver runs, but it says that the store cannot be written: /);
  }
  expect((await kit('status')).out).toContain('the store cannot be written; figures are those of before');
  receiver.close();
});

test('Ctrl-C ends a long retry between two steps and prints its progress; the same command continues it', async () => {
  const many = 5_000;
  const from = 1_000;
  for (let n = 0; n < many; n += 500)
    await deliver(records, ...Array.from({ length: 500 }, (_, i) => ({ cursor: String(from + n + i) })));
  let handler = 0;
  for (let n = 0; n < many; n += 1_000) [handler = 0] = await fanOut(records, ['answer']);
  for (let dead = 0; dead < many;) {
    const turn = { now: records.clock.time, boot: 1, fanOut: null, handlers: [handler] };
    const { claims } = await records.store.work.turn({ ...turn, settle: [], room: 500 });
    const settle = claims.map((claim) => ({ claim, state: 'dead', error: 'RangeError: too many' }) as const);
    await records.store.work.turn({ ...turn, settle, room: 0 });
    dead += claims.length;
  }
  const dead = async (): Promise<number> => (await records.store.read.status(records.clock.time)).tasks.dead;
  const before = await dead();

  const ended = Promise.withResolvers<string>();
  const child = spawnKit(['retry', '--state', 'dead'], ended.resolve);
  await once(child.stderr ?? child, 'data');
  child.kill('SIGINT');
  const words = await ended.promise;
  expect(child.exitCode).toBe(1);
  const [, moved = 0, left = 0] = (/stopped: (\d+) tasks will run again, (\d+) are left/.exec(words) ?? []).map(Number);
  expect(moved).toBeGreaterThan(0);
  expect(left).toBeGreaterThan(0);
  expect(moved + left).toBe(before);
  expect(await dead()).toBe(left);
  expect((await kit('retry', '--state', 'dead')).out).toContain(`${left} tasks will run again`);
});

test('E47: at a terminal, many tasks are changed only after a question with their number', async () => {
  await deliver(records, { cursor: '8001' }, { cursor: '8002' });
  const [handler = 0] = await fanOut(records, ['asked']);
  for (let n = 0; n < 2; n++) await end(records, handler, 'dead', 'Error: asked');
  const env = { PATH: process.env['PATH'], DATABASE_URL: `sqlite:${records.path}`, PORT: port, SHELL: '/bin/sh' };
  const command = `${process.execPath} ${process.cwd()}/src/cli/kit.js retry --state dead --handler asked`;
  const answer = async (word: string): Promise<string> => {
    const child = spawn('script', ['-qefc', command, '/dev/null'], { env, stdio: ['pipe', 'pipe', 'pipe'] });
    let text = '';
    let asked = false;
    child.stdout.on('data', (chunk: Buffer) => {
      text += chunk.toString();
      if (asked || !text.includes('run again: 2 tasks? [y/N]')) return;
      asked = true;
      child.stdin.write(`${word}\n`);
    });
    await once(child, 'close');
    return text;
  };
  expect(await answer('n')).toContain('nothing was changed');
  expect((await records.store.read.groups({ handler: 'asked', limit: 1 })).dead).toBe(2);
  expect(await answer('y')).toContain('2 tasks');
  expect((await records.store.read.groups({ handler: 'asked', limit: 1 })).dead).toBe(0);
});

test('retry, rerun and tasks say that tasks of an unloaded handler wait, and how to run or discard them', async () => {
  await deliver(records, { cursor: '9001' }, { cursor: '9002' });
  await fanOut(records, ['old']);
  await records.store.work.register(['answer']);
  const remedy =
    'They run once it is loaded again (npx kit reload). npx kit tasks move --from old --to OTHER gives them to another handler; npx kit discard --handler old --reason TEXT gives them up.';
  const wait = `2 tasks left waiting: no loaded handler is named old. ${remedy}\n`;
  expect(await kit('retry', '--handler', 'old')).toEqual({ code: 0, out: wait });
  const { out } = await kit('retry', '--state', 'ready');
  expect(out).toMatch(/^\d+ tasks will run again\n/);
  expect(out.endsWith(wait)).toBe(true);
  const json = await kit('retry', '--handler', 'old', '--json');
  expect(json).toEqual({ code: 0, out: `${JSON.stringify({ retried: 2, left: 0 }, null, 2)}\n${wait}` });
  expect(await kit('rerun', '--handler', 'old', '--from', '1', '--yes')).toEqual({
    code: 1,
    out: `no loaded handler is named old; loaded are: answer. Its waiting tasks are kept. ${remedy}\n`,
  });
  expect((await kit('rerun', '--handler', 'none', '--from', '1', '--yes')).out).toBe(
    'no loaded handler is named none; loaded are: answer\n',
  );
  expect((await kit('tasks', '--handler', 'old')).out).toContain(`no loaded handler is named old. ${remedy}`);
  expect((await kit('tasks', '--handler', 'answer')).out).not.toContain('no loaded handler');
  expect((await kit('discard', '--handler', 'old', '--reason', 'gone')).out).toBe('2 tasks skipped\n');
  expect((await kit('tasks', '--handler', 'old')).out).not.toContain('no loaded handler');
});

test('the table of events shows how each ended', async () => {
  await deliver(records, { cursor: '9051' });
  const [handler = 0] = await fanOut(records, ['shown']);
  await end(records, handler, 'dead', 'Error: shown');
  const { out } = await kit('events', '--handler', 'shown');
  expect(out).toMatch(/^received +key +type +outcome +session/);
  expect(out).toMatch(/c:\d+ +MessageReceived +dead: shown/);
});

test('a done task is retried only with --state done, and the answer without it is that command', async () => {
  await deliver(records, { cursor: '9101' });
  const [handler = 0] = await fanOut(records, ['finished']);
  await records.store.work.register(['answer', 'finished']);
  const task = await end(records, handler, 'done');
  expect(await kit('retry', String(task))).toEqual({
    code: 1,
    out: `1 task done already: npx kit retry ${task} --state done. Calls to other systems can repeat; ctx.idempotencyKey stays the same.\n`,
  });
  expect(await kit('retry', '--state', 'done')).toMatchObject({ code: 2 });
  expect(await kit('discard', String(task), '--state', 'done', '--reason', 'no')).toMatchObject({ code: 2 });
  expect(await kit('retry', String(task), '--state', 'done')).toEqual({ code: 0, out: '1 task will run again\n' });
  expect((await kit('tasks', '--handler', 'finished', '--json')).out).toContain('"state": "ready"');
  expect((await kit('retry', String(task), '--state', 'done')).out).toContain(
    'no task matched that is done, with the body',
  );
});

test('tasks are listed and discarded by the age of their events', async () => {
  await deliver(records, { cursor: '9201' });
  await fanOut(records, ['aged']);
  records.clock.time += 4 * 3_600_000;
  await deliver(records, { cursor: '9202' });
  await fanOut(records, ['aged']);
  // Commands use the time of the machine; the events were received at the time of the test.
  const ago = `${Math.floor((Date.now() - records.clock.time) / 3_600_000) + 2}h`;
  expect((await kit('tasks', '--handler', 'aged', '--older-than', ago)).out).toMatch(/c:9201/);
  expect((await kit('tasks', '--handler', 'aged', '--older-than', ago)).out).not.toMatch(/c:9202/);
  expect((await kit('tasks', '--older-than', '1w')).out).toContain(
    '--older-than must be a duration like 30m, 6h or 2d, not 1w',
  );
  const discard = ['discard', '--handler', 'aged', '--older-than', ago];
  expect((await kit(...discard)).out).toContain('--reason is needed');
  expect((await kit(...discard, '--reason', 'too old')).out).toBe('1 task skipped\n');
});

test('handlers are listed with what waits for them, paused and resumed, one or all', async () => {
  await records.store.work.register(['answer', 'aged']);
  const row = async (name: string) =>
    (await kit('handlers')).out
      .split('\n')
      .find((line) => line.startsWith(name))
      ?.replaceAll(/ +/g, ' ');
  expect((await kit('handlers')).out).toMatch(/^handler +state +waiting +oldest +failed +p95 +dead\n/);
  expect(await row('aged')).toMatch(/^aged running 1 \d+ s - - 0$/);
  expect(await row('finished')).toMatch(/^finished not loaded/);
  expect((await kit('pause', 'aged', '--reason', 'the bot errs')).out).toContain('aged is paused');
  expect(await row('aged')).toMatch(/^aged paused since \S+: the bot errs 1 /);
  expect((await kit('resume', 'aged')).out).toContain('aged goes on');
  expect(await kit('resume', 'aged')).toMatchObject({ code: 1 });
  expect((await kit('pause', '--all')).out).toContain('all handlers are paused');
  expect(await row('answer')).toMatch(/^answer paused/);
  expect((await kit('resume', '--all')).out).toContain('all handlers go on');
  expect(await kit('pause', 'nobody')).toMatchObject({
    code: 1,
    out: expect.stringContaining('npx kit handlers') as string,
  });
  for (const words of [['pause'], ['pause', 'aged', '--all'], ['resume'], ['resume', 'a', 'b']])
    expect(await kit(...words)).toMatchObject({ code: 2 });
  const { handlers } = JSON.parse((await kit('handlers', '--json')).out) as { handlers: { name: string }[] };
  expect(handlers.find(({ name }) => name === 'aged')).toMatchObject({
    loaded: true,
    paused: null,
    waiting: 1,
    lastHour: { succeeded: 0, failed: 0, p95: null },
  });
});

test('E65: `explain` says that an attempt died with its process, that a handler is gone, and that a body was erased', async () => {
  await deliver(records, { cursor: '31' }, { cursor: '32' });
  const [handler = 0] = await fanOut(records, ['left']);
  const turn = { now: records.clock.time, settle: [], fanOut: null, handlers: [handler] };
  await records.store.work.turn({ ...turn, boot: 90, room: 2 });
  const how = { how: 'exit code 1 at src/handlers/left.ts:3', after: () => 'dead' as const };
  await records.store.processes.giveBack([], records.clock.time, how);
  await records.store.work.register(['answer']);
  const { out } = await kit('explain', '31');
  expect(out).toContain(
    'left: attempt 1: 0 ms, failed; will be retried\n    its process died: exit code 1 at src/handlers',
  );
  expect(out).toContain('no loaded handler is named left. They run once it is loaded again (npx kit reload).');
  await kit('erase', '--sender', '5511999990000');
  expect((await kit('explain', '31')).out).toContain('body erased by npx kit erase');
  expect((await kit('explain', '31', '--body')).out).toContain('no body: erased by npx kit erase');
});

test('single events are erased with what contradicted them, and no other message of the same sender', async () => {
  await deliver(records, { cursor: '41' }, { cursor: '42' }, { cursor: '43' });
  await deliver(records, { cursor: '41', data: { from: '15550100', body: 'forged' } });
  const none = await kit('erase', '--event', 'c:41', '--event', 'c:999');
  expect([none.code, none.out]).toEqual([1, 'no event c:999: npx kit events\n']);
  const both = await kit('erase', '--event', 'c:41', '--sender', '5511999990000');
  expect([both.code, both.out]).toEqual([2, expect.stringContaining('either --sender or --event')]);
  const { code, out } = await kit('erase', '--event', 'c:41', '42', '--json');
  expect([code, JSON.parse(out)]).toEqual([0, expect.objectContaining({ events: 2, conflicts: 1, quarantined: 0 })]);
  expect((await kit('explain', '42', '--body')).out).toContain('no body: erased by npx kit erase');
  expect((await kit('explain', '43', '--body')).out).toContain('5511999990000');
});
