// Events, one event and dead letters over the ops port: what pages and programs list, reveal, export and change.
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { fanOut, createOps, deliver, end, keysOf, NOTHING_SET, OTHER_SESSION, SESSION, type Ops } from './harness.ts';

const TOKENS = { ...NOTHING_SET, OPS_TOKEN: 'changes-0123456789', OPS_READ_TOKEN: 'looks-0123456789' };
const CHANGE = { authorization: `Bearer ${TOKENS.OPS_TOKEN}` };
const LOOK = { authorization: `Bearer ${TOKENS.OPS_READ_TOKEN}` };
/** The headers of a form that a browser sends from our page. */
const FORM = { 'content-type': 'application/x-www-form-urlencoded', 'sec-fetch-site': 'same-origin' };
const HOSTILE = `<script>alert(1)</script>"' \u202eevil\u0007 ${'x'.repeat(10_000)}`;

let ops: Ops;
beforeEach(async () => {
  ops = await createOps(TOKENS);
});
afterEach(() => ops.close());

const jobOf = async () =>
  ((await ops.get('/api/jobs', LOOK)).json() as { jobs: { id: number; state: string; moved: number }[] }).jobs[0];
const submit = (path: string, fields: Record<string, string>, headers: Record<string, string> = CHANGE) =>
  ops.post(path, new URLSearchParams(fields).toString(), { ...FORM, ...headers });

/** Makes this many dead letters of one handler. Odd and even cursors have different causes. */
async function kill(many: number, after = 0): Promise<void> {
  await deliver(ops, ...Array.from({ length: many }, (_, n) => ({ cursor: String(after + n + 1) })));
  const [handler = 0] = await fanOut(ops, ['answer'], { lane: 'one' });
  for (let n = 1; n <= many; n++)
    await end(
      ops,
      handler,
      'dead',
      n % 2 ? `Error: no answer to "${n}" after ${n} ms` : 'TypeError: x is not a function',
    );
}

describe('events', () => {
  test('are filtered by origin, handler, state, session and time, also combined', async () => {
    await deliver(ops, { cursor: '1' }, { cursor: '2', session: OTHER_SESSION }, { cursor: '3' });
    const [handler = 0] = await fanOut(ops, ['answer', 'project']);
    await end(ops, handler, 'done');
    const since = new Date(ops.clock.time - 1_000).toISOString();
    const ask = async (query: string) => keysOf(await ops.get(`/api/events?${query}`, LOOK));
    expect(await ask('origin=webhook')).toEqual(['c:3', 'c:2', 'c:1']);
    expect(await ask('origin=stream')).toEqual([]);
    expect(await ask(`since=${since}`)).toEqual(['c:3', 'c:2']);
    expect(await ask(`until=${since}`)).toEqual(['c:1']);
    expect(await ask('handler=answer&state=done')).toEqual(['c:1']);
    expect(await ask('handler=project&state=done')).toEqual([]);
    expect(await ask('handler=nobody')).toEqual([]);
    expect(await ask(`session=${SESSION}&type=&q=`)).toEqual(['c:3', 'c:1']);
    expect((await ops.get('/api/events?since=yesterday', LOOK)).text).toContain('must be a time');
  });

  test('are found by a message id in their data, but by no other value there', async () => {
    await deliver(ops, { cursor: '1', data: { message_id: 'wa "1"', from: 'm-2' } }, { cursor: '2' });
    expect(keysOf(await ops.get(`/api/events?q=${encodeURIComponent('wa "1"')}`, LOOK))).toEqual(['c:1']);
    expect(keysOf(await ops.get('/api/events?q=m-2', LOOK))).toEqual([]);
  });

  test('are exported with one line for each match; bodies need OPS_TOKEN, and their export is logged', async () => {
    await deliver(ops, ...Array.from({ length: 1_100 }, (_, n) => ({ cursor: String(n + 1) })));
    const plain = await ops.get('/api/events.ndjson?origin=webhook', LOOK);
    const lines = plain.text.trimEnd().split('\n');
    expect(lines).toHaveLength(1_100);
    expect(new Set(lines.map((line) => (JSON.parse(line) as { key: string }).key)).size).toBe(1_100);
    expect(plain.text).not.toContain('5511999990000');
    expect((await ops.get('/api/events.ndjson?bodies', LOOK)).status).toBe(401);
    const whole = await ops.get('/api/events.ndjson?bodies&q=7', CHANGE);
    expect((JSON.parse(whole.text) as { body: string }).body).toContain('5511999990000');
    expect(ops.text()).toContain('bodies were revealed');
  });
});

describe('selected events', () => {
  test('may be changed with OPS_TOKEN only: a reader sees outcomes, but no box, and no question', async () => {
    await kill(1);
    const page = await ops.get('/events', LOOK);
    expect(page.text).toContain('dead: answer');
    for (const words of ['type="checkbox"', 'Run again']) expect(page.text).not.toContain(words);
    expect((await submit('/events/selected/tasks', { event: 'c:1' }, LOOK)).status).toBe(403);
    expect((await ops.get('/events', CHANGE)).text).toContain('Select c:1');
  });

  test('the question leads back to the list alone, and knows no other address', async () => {
    await kill(1);
    const ask = async (to: string) => (await submit('/events/selected/tasks', { event: 'c:1', to })).text;
    expect(await ask('/events?state=dead')).toContain('<a href="/events?state=dead">Back');
    for (const to of ['javascript:alert(1)', '//elsewhere.example'])
      expect(await ask(to)).toContain('<a href="/events">Back');
  });

  test('the questions before dead letters are changed say how many, how fast, and what can repeat', async () => {
    await kill(3);
    const text = (await ops.get('/dead-letters', CHANGE)).text.replaceAll(/\s+/g, ' ');
    expect(text).toContain(
      'At most 3 tasks become due, in steps of 500; those that change meanwhile stay. Handlers run 32 at once at most',
    );
    expect(text).toContain('Calls to other systems can repeat');
    expect(text).toContain('At most 3 tasks become skipped');
  });
});

describe('one event', () => {
  test('has a page with its timeline from the first delivery to the end, and with its body masked', async () => {
    await deliver(ops, { cursor: '5' }, { cursor: '5' }, { cursor: '6' });
    const [handler = 0] = await fanOut(ops, ['answer'], { lane: 'one' });
    await end(ops, handler, 'dead', 'TypeError: it broke at words of theirs (handlers/answer.ts:7)');
    const { text, status } = await ops.get('/events/c%3A5', LOOK);
    expect(status).toBe(200);
    for (const words of ['first delivery', 'duplicate 1', 'answer: attempt 1', 'text of 21', 'c:6'])
      expect(text).toContain(words);
    expect(text).toContain('TypeError … (handlers/answer.ts:7)');
    for (const hidden of ['5511999990000', 'words of theirs', 'Reveal the body']) expect(text).not.toContain(hidden);
  });

  test('shows its body to OPS_TOKEN by POST, with curl and fixture but no secret; the log names the key', async () => {
    await deliver(ops, { cursor: '5' });
    expect((await submit('/events/c%3A5/body', {}, LOOK)).status).toBe(403);
    expect((await ops.post('/api/events/5/body', {}, LOOK)).status).toBe(401);
    expect((await ops.get('/events/c%3A5/body', CHANGE)).status).toBe(405);
    const { text } = await submit('/events/c%3A5/body', {});
    for (const words of [
      '5511999990000',
      'openssl dgst',
      '$WEBHOOK_SECRET',
      '{WEBHOOK_HEADER_PREFIX:-X-Svc-}',
      'fixture(',
    ])
      expect(text).toContain(words);
    expect(text).toContain('data-still');
    expect((await ops.post('/api/events/5/body', {}, CHANGE)).text).toContain('5511999990000');
    const logged = ops
      .text()
      .split('\n')
      .filter((line) => line.includes('a body was revealed'));
    expect(logged).toHaveLength(2);
    for (const line of logged) expect(line).toMatch(/c(:|%3A)5/);
    expect(ops.text()).not.toContain('5511999990000');
  });

  test('shows its body to nobody if OPS_TOKEN is not set', async () => {
    const open = await createOps();
    await deliver(open, { cursor: '5' });
    expect((await open.post('/events/c%3A5/body', '', FORM)).status).toBe(403);
    expect((await open.post('/api/events/5/body')).status).toBe(403);
    await open.close();
  });

  test('is a page with status 404 if it is unknown', async () => {
    expect((await ops.get('/events/c%3A404', LOOK)).status).toBe(404);
  });
});

describe('dead letters', () => {
  test('are grouped by handler and by the common pattern of their errors', async () => {
    await kill(5);
    const { dead, groups } = (await ops.get('/api/dead-letters', CHANGE)).json() as {
      dead: number;
      groups: { id: number; dead: number; pattern: string; key: string; handler: string }[];
    };
    expect(dead).toBe(5);
    expect(groups).toMatchObject([
      { dead: 3, handler: 'answer', pattern: 'Error: no answer to … after # ms', key: 'c:5' },
      { dead: 2, handler: 'answer', pattern: 'TypeError: x is not a function', key: 'c:4' },
    ]);
    const page = await ops.get('/dead-letters', LOOK);
    expect(page.text).toContain('TypeError …');
    for (const hidden of ['no answer', 'not a function', 'Retry all']) expect(page.text).not.toContain(hidden);
    const one = await ops.get(`/dead-letters?group=${groups[1]?.id}`, CHANGE);
    expect(one.text).toContain('Retry all 2');
    expect(one.text).toContain('href="/events/c%3A4"');
    expect(one.text).not.toContain('href="/events/c%3A5"');
  });

  test('are retried by group from the page; the other group stays, and the answer leads back to the page', async () => {
    await kill(5);
    const { groups } = await ops.store.read.groups({ limit: 10 });
    const reply = await submit('/dead-letters/retry', { group: String(groups[0]?.id) });
    expect(reply).toMatchObject({ status: 303, headers: { location: '/dead-letters' } });
    await expect.poll(async () => (await jobOf())?.state).toBe('done');
    expect(await ops.store.read.groups({ limit: 10 })).toMatchObject({ dead: 2, groups: [{ dead: 2 }] });
    expect((await ops.store.read.status(ops.clock.time)).tasks).toMatchObject({ dead: 2, ready: 3 });
    expect(ops.changes()).toBeGreaterThan(0);
  });

  test('are shown with the waiting tasks, which can be retried at once', async () => {
    await deliver(ops, { cursor: '1' });
    await fanOut(ops, ['answer']);
    expect((await ops.get('/dead-letters', CHANGE)).text).toMatch(/<strong>1<\/strong> task waits/);
    await submit('/dead-letters/retry', { state: 'ready' });
    await expect.poll(jobOf).toMatchObject({ state: 'done', moved: 1 });
  });

  test('E47: are changed as the page showed them, after a second click that names their number', async () => {
    await kill(4);
    const { text } = await ops.get('/dead-letters', CHANGE);
    expect(text).toMatch(/<summary>Retry all 4<\/summary>[^]*<button class="">Retry all 4 now</);
    expect(text).toMatch(/<summary>Discard all 4<\/summary>[^]*<button class="bad">Discard all 4 for good</);
    const field = (name: string) => new RegExp(`name="${name}" value="(\\d+)"`).exec(text)?.[1] ?? '';
    const shown = { at: field('at'), count: field('count') };
    expect(shown.count).toBe('4');
    ops.clock.time += 1_000;
    await kill(2, 10);
    await submit('/dead-letters/discard', { state: 'dead', reason: 'too old', ...shown });
    await expect.poll(jobOf).toMatchObject({ state: 'done', of: 4, moved: 4 });
    expect((await ops.store.read.status(ops.clock.time)).tasks).toMatchObject({ dead: 2, skipped: 4 });
    const refused = await submit('/dead-letters/retry', { state: 'dead', at: String(ops.clock.time), count: '1' });
    expect(decodeURIComponent(String(refused.headers['set-cookie']))).toContain('2 tasks match, 1 were shown');
    expect((await ops.store.read.status(ops.clock.time)).tasks.dead).toBe(2);
  });

  test('E47: waiting tasks that come after the page was shown are not retried', async () => {
    await deliver(ops, { cursor: '1' });
    await fanOut(ops, ['answer']);
    const { text } = await ops.get('/dead-letters', CHANGE);
    const at = /name="at" value="(\d+)"/.exec(text)?.[1] ?? '';
    await deliver(ops, { cursor: '2' });
    await fanOut(ops, ['answer']);
    await submit('/dead-letters/retry', { state: 'ready', at });
    await expect.poll(jobOf).toMatchObject({ state: 'done', of: 1 });
  });

  test('E47: the API changes what it has shown, and later ones stay', async () => {
    await kill(3);
    const { dead, at } = (await ops.get('/api/dead-letters', CHANGE)).json() as { dead: number; at: string };
    ops.clock.time += 1_000;
    await kill(1, 10);
    const asked = { filter: { state: 'dead' }, shown: { at, count: dead } };
    const few = { ...asked, shown: { at, count: 2 } };
    expect((await ops.post('/api/tasks/retry', few, CHANGE)).status).toBe(409);
    expect((await ops.post('/api/tasks/retry', asked, CHANGE)).json()).toEqual({ retried: 3 });
    expect((await ops.store.read.status(ops.clock.time)).tasks.dead).toBe(1);
  });

  test('are discarded only with a reason', async () => {
    await kill(4);
    const refused = await submit('/dead-letters/discard', { handler: 'answer', reason: '  ' });
    expect(refused).toMatchObject({ status: 303, headers: { location: '/dead-letters' } });
    expect(String(refused.headers['set-cookie'])).toContain('with%20a%20reason');
    expect(await jobOf()).toBeUndefined();
    await submit('/dead-letters/discard', { handler: 'answer', reason: 'too old' });
    await expect.poll(async () => (await jobOf())?.moved).toBe(4);
    expect(await ops.store.read.groups({ limit: 10 })).toEqual({ dead: 0, groups: [] });
  });

  test('are changed neither with OPS_READ_TOKEN nor by an empty form', async () => {
    await kill(2);
    expect((await submit('/dead-letters/retry', { state: 'dead' }, LOOK)).status).toBe(403);
    await submit('/dead-letters/retry', {});
    expect((await ops.store.read.status(ops.clock.time)).tasks.dead).toBe(2);
  });

  test('are changed over the API, and the log holds the reason', async () => {
    await kill(3);
    await ops.post(
      '/api/tasks/discard',
      { filter: { state: 'dead', handler: 'answer' }, reason: 'told by Ann' },
      CHANGE,
    );
    expect(ops.text()).toMatch(/"discarded":3,"reason":"told by Ann"/);
    await ops.post('/api/jobs', { action: 'discard', filter: { state: 'dead' }, reason: 'told by Rui' }, CHANGE);
    expect(ops.text()).toMatch(/"action":"discard",.*"reason":"told by Rui"/);
    await ops.post('/api/reconcile', {}, CHANGE);
    expect(ops.text()).toContain('reconciliation was asked for');
  });

  test('are retried by a job of the API, which shows its progress and cannot be cancelled after its end', async () => {
    await kill(3);
    const reply = await ops.post('/api/jobs', { action: 'retry', filter: { state: 'dead' } }, CHANGE);
    expect(reply).toMatchObject({ status: 202 });
    expect(reply.json()).toMatchObject({ job: { id: 1, action: 'retry', of: 3 } });
    await expect.poll(async () => (await jobOf())?.state).toBe('done');
    expect((await ops.post('/api/jobs/1/cancel', {}, CHANGE)).status).toBe(404);
    expect((await ops.post('/api/jobs', { action: 'discard', filter: {} }, CHANGE)).status).toBe(400);
  });
});

test('a reader with OPS_READ_TOKEN sees no phone number, neither in lane names nor in errors', async () => {
  const lane = `${SESSION}/15550100`;
  await deliver(ops, { cursor: '1' }, { cursor: '2' }, { cursor: '3' });
  const [handler = 0] = await fanOut(ops, ['answer'], { lane });
  await end(ops, handler, 'dead', 'Error: 15550100 is not a customer');
  const [group] = (await ops.store.read.groups({ limit: 1 })).groups;
  const addresses = ['/', '/events', '/events/c:1', '/events/c:2', '/dead-letters', `/dead-letters?group=${group?.id}`];
  const programs = ['events', 'events/c:1', 'tasks', 'dead-letters', 'events.ndjson', 'status', 'quarantine'];
  for (const path of [...addresses, ...programs.map((name) => `/api/${name}`), '/metrics']) {
    const { status, text } = await ops.get(path, LOOK);
    expect([path, status, text.includes('15550100')]).toEqual([path, 200, false]);
  }
  expect((await ops.get('/events/c:1', LOOK)).text).toContain(`${SESSION}/…`);
  for (const path of ['/', '/events/c:1', '/dead-letters?group=1', '/api/tasks', '/api/dead-letters'])
    expect((await ops.get(path, CHANGE)).text, path).toContain('15550100');
});

test('hostile text in an event is shown as text on every screen', async () => {
  await deliver(ops, {
    id: '<script>',
    type: '<img/src=x>',
    session: HOSTILE.slice(0, 150),
    data: { [HOSTILE]: HOSTILE },
  });
  const [handler = 0] = await fanOut(ops, ['answer']);
  await end(ops, handler, 'dead', HOSTILE);
  const { groups } = await ops.store.read.groups({ limit: 1 });
  const key = encodeURIComponent('i:<script>');
  const pages = [
    '/events',
    `/events/${key}`,
    '/dead-letters',
    `/dead-letters?group=${groups[0]?.id}`,
    '/events?type=<script>',
  ];
  const replies = [
    ...(await Promise.all(pages.map((path) => ops.get(path, CHANGE)))),
    await submit(`/events/${key}/body`, {}),
  ];
  for (const { status, text } of replies) {
    expect(status).toBe(200);
    expect(text).not.toMatch(/<script>|<img\/src|\u202e/);
    expect(text).not.toContain('\u0007');
  }
});
