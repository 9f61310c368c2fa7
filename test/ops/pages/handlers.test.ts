// The screens of handlers, and their actions: pause, resume, and discarding old tasks.
import { afterEach, beforeEach, expect, test } from 'vitest';
import { createOps, deliver, end, fanOut, HOSTILE, NOTHING_SET, type Ops } from '../harness.ts';

let ops: Ops;
beforeEach(async () => {
  ops = await createOps();
});
afterEach(() => ops.close());

/** The cells of the first table with this caption, without markup. */
function rowsOf(text: string, caption: string): string[][] {
  const found = new RegExp(`<caption>\\s*${caption}.*?</table>`, 's').exec(text)?.[0] ?? '';
  return [...found.matchAll(/<tr>(.*?)<\/tr>/gs)].slice(1).map(([, row = '']) =>
    [...row.matchAll(/<td[^>]*>(.*?)<\/td>/gs)].map(([, cell = '']) =>
      cell
        .replaceAll(/<[^>]+>/g, '')
        .replaceAll(/\s+/g, ' ')
        .trim(),
    ),
  );
}

function post(path: string, fields: Record<string, string> = {}, to = ops) {
  const headers = {
    origin: `http://127.0.0.1:${to.port}`,
    'sec-fetch-site': 'same-origin',
    'content-type': 'application/x-www-form-urlencoded',
  };
  return to.send('POST', path, headers, new URLSearchParams(fields).toString());
}

/** The message that a form's answer leads to. */
async function said(path: string, fields?: Record<string, string>): Promise<string> {
  const { headers } = await post(path, fields);
  const cookie = String(headers['set-cookie']).split(';')[0] ?? '';
  const { text } = await ops.get('/handlers', { cookie });
  return /role="status">([^<]+)</.exec(text)?.[1] ?? '';
}

/** Two handlers with five events: `broken` fails, `answer` has done its own but one. */
async function busy(): Promise<void> {
  await deliver(ops, ...Array.from({ length: 5 }, (_, n) => ({ cursor: `${n + 1}` })));
  const [answer = 0, broken = 0] = await fanOut(ops, ['answer', 'broken']);
  await ops.store.read.sample(ops.clock.time - 60_000);
  for (let n = 0; n < 4; n++) await end(ops, answer, 'done');
  for (let n = 0; n < 3; n++) await end(ops, broken, 'dead', `Error: ${HOSTILE} ${n}`);
  await ops.store.state.note({ 'took.1.answer': 4, 'took.200.broken': 3 });
  ops.clock.time += 120_000;
  await ops.store.read.sample(ops.clock.time);
}

test('a row for each handler: state, what waits and since when, failures, durations, dead letters, and its pause', async () => {
  await busy();
  const rows = rowsOf((await ops.get('/handlers')).text, 'Handlers');
  expect(rows).toEqual([
    ['answer', 'running', '1', expect.stringMatching(/^12\d s$|^2 min$/), '0 %', '1 ms', '0', 'Pause answer'],
    [
      'broken',
      'failing',
      '2',
      expect.stringMatching(/^12\d s$|^2 min$/),
      '100 %',
      '200 ms',
      '3 dead letters of broken',
      'Pause broken',
    ],
  ]);
  expect(rowsOf((await ops.get('/')).text, 'Handlers')).toEqual(rows);
});

test('a pause is shown with its time and reason, until somebody resumes', async () => {
  await busy();
  expect(await said('/handlers/pause', { handler: 'answer', reason: 'answers twice' })).toMatch(/^Answer is paused: /i);
  ops.clock.time += 60_000;
  const [first] = rowsOf((await ops.get('/handlers')).text, 'Handlers');
  expect(first?.[1]).toBe('paused 60 s ago answers twice');
  expect(first?.at(-1)).toBe('Resume answer');
  expect(await said('/handlers/resume', { handler: 'answer' })).toBe('Answer goes on.');
  expect(await said('/handlers/resume', { handler: 'answer' })).toBe('Answer is not paused.');
});

test('all handlers are paused and resumed at once', async () => {
  await busy();
  expect(await said('/handlers/pause', { all: 'yes', reason: 'a bot misbehaves' })).toMatch(/^All handlers are paused/);
  expect(await ops.store.state.get('paused')).toEqual({ '*': { at: ops.clock.time, reason: 'a bot misbehaves' } });
  expect((await ops.get('/handlers/answer')).text).toContain('Resume it alone');
  expect(await said('/handlers/resume', { all: 'yes' })).toBe('All handlers go on.');
});

test.each(['.', '..'])('the handler %s has a screen, and its forms change it alone', async (name) => {
  await deliver(ops, { cursor: '1' });
  await fanOut(ops, [name, 'other']);
  ops.clock.time += 3_600_000;
  const [, link = ''] = /href="(\/handlers\/[^"]+)"/.exec((await ops.get('/handlers')).text) ?? [];
  // A browser takes dots out of the path before it sends.
  const { pathname, search } = new URL(link, 'http://x');
  const { text } = await ops.get(`${pathname}${search}&older=30m`);
  expect(text).toContain(`<h1>${name}</h1>`);
  expect([...text.matchAll(/name="handler" value="([^"]*)"/g)].map(([, one]) => one)).toEqual([name, name, name]);
  expect(await said('/handlers/pause', { handler: name })).toMatch(/ is paused: /);
  expect(Object.keys(await ops.store.state.get('paused'))).toEqual([name]);
});

test('a form that names no handler changes none', async () => {
  await busy();
  expect(await said('/handlers/pause')).toBe('No handler is named &quot;&quot;.');
  expect(await ops.store.state.get('paused')).toEqual({});
});

test('a form leads back to the page that it was on', async () => {
  await busy();
  expect((await post('/handlers/pause', { handler: 'answer', to: '/?range=6h' })).headers['location']).toBe(
    '/?range=6h',
  );
  expect((await post('/handlers/resume', { handler: 'answer', to: '//elsewhere' })).headers['location']).toBe('/');
});

test('an unknown handler has no screen, and is not paused', async () => {
  expect((await ops.get('/handlers/nobody')).status).toBe(404);
  expect(await said('/handlers/pause', { handler: 'nobody' })).toBe('No handler is named &quot;nobody&quot;.');
});

test('the screen of a handler shows failures by cause, the slowest tasks, and how long attempts took', async () => {
  await busy();
  const { text } = await ops.get('/handlers/broken');
  expect(text).toMatch(/<h1>broken<\/h1>/);
  expect(rowsOf(text, 'Failures by cause').map(([, state, tasks]) => [state, tasks])).toContainEqual(['dead', '3']);
  expect(rowsOf(text, 'Slowest of its newest tasks')).toHaveLength(3);
  expect(rowsOf(text, 'How long attempts took')).toEqual([['200 ms', '3', '100.0 %', '']]);
  expect(text).not.toContain('<img');
});

test.each(['constructor', '__proto__'])('a handler named %s has a row and a screen, as any other', async (name) => {
  await ops.store.read.sample(ops.clock.time - 600_000);
  await ops.store.state.note({ [`attempts.done.${name}`]: 1 });
  await ops.store.work.register([name]);
  await ops.store.read.sample(ops.clock.time);
  for (const path of ['/', '/handlers', `/handlers/${name}`]) expect((await ops.get(path)).status).toBe(200);
  const [row] = rowsOf((await ops.get('/handlers')).text, 'Handlers');
  expect(row?.slice(0, 5)).toEqual([name, 'running', '0', '–', '0 %']);
});

test('old waiting tasks are counted first; then exactly these are discarded, with a reason', async () => {
  await busy();
  ops.clock.time += 3_600_000;
  await deliver(ops, { cursor: '9' });
  await fanOut(ops, ['answer', 'broken']);
  expect((await ops.get('/handlers/broken')).text).not.toContain('Discard these');
  const { text } = await ops.get('/handlers/broken?older=30m');
  expect(text).toMatch(/<strong>2<\/strong> waiting tasks are of events received before/);
  expect(text).toContain('Discard these 2 tasks for good');
  const field = (name: string): string => new RegExp(`name="${name}" value="(\\d+)"`).exec(text)?.[1] ?? '';
  const these = { before: field('before'), at: field('at'), count: field('count') };
  expect(await said('/handlers/discard', { handler: 'broken', ...these })).toContain('discarded with a reason');
  expect(await said('/handlers/discard', { handler: 'broken', ...these, count: '1', reason: 'too old' })).toContain(
    '2 tasks match',
  );
  expect(await said('/handlers/discard', { handler: 'broken', ...these, reason: 'too old' })).toBe(
    '2 tasks will be skipped.',
  );
  await expect
    .poll(async () => (await ops.store.read.status(ops.clock.time)).tasks)
    .toMatchObject({ skipped: 2, ready: 3, dead: 3 });
});

test('old tasks of a strict handler that wait for the watermark are counted and discarded too', async () => {
  await deliver(ops, { cursor: '1' }, { cursor: '2' });
  await fanOut(ops, ['answer'], { strict: true, lane: 'a' });
  ops.clock.time += 3_600_000;
  const { text } = await ops.get('/handlers/answer?older=30m');
  expect(text).toMatch(/<strong>2<\/strong> waiting tasks are of events received before/);
  const these = { before: String(ops.clock.time - 1_800_000), at: String(ops.clock.time), count: '2' };
  expect(await said('/handlers/discard', { handler: 'answer', ...these, reason: 'too old' })).toBe(
    '2 tasks will be skipped.',
  );
});

test.each(['1h', 'constructor', ''])('the age %j is not offered, so nothing is counted', async (age) => {
  await busy();
  const { status, text } = await ops.get(`/handlers/broken?older=${age}`);
  expect(status).toBe(200);
  expect(text).not.toContain('for good');
});

test('who may only look sees neither pauses nor the words of errors', async () => {
  const closed = await createOps({
    ...NOTHING_SET,
    OPS_TOKEN: 'changes-0123456789',
    OPS_READ_TOKEN: 'reads-0123456789',
  });
  const open = ops;
  ops = closed;
  await busy();
  const headers = { authorization: 'Bearer reads-0123456789' };
  for (const path of ['/', '/handlers', '/handlers/broken?older=30m']) {
    const { status, text } = await ops.get(path, headers);
    expect(status).toBe(200);
    expect(text).not.toMatch(/>Pause|for good|Count them|onerror/);
  }
  expect((await post('/handlers/pause', { handler: 'answer' }, closed)).status).toBe(401);
  await open.close();
});
