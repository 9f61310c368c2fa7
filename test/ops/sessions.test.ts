// Log-in sessions of the ops port outlast its restart. A second port on the same store stands for the restarted one.
import { afterEach, beforeEach, expect, onTestFinished, test, vi } from 'vitest';
import type { Context } from 'koa';
import { createSessions } from '../../src/ops/sessions.ts';
import { StoreError } from '../../src/store/store.ts';
import { createOps, NOTHING_SET, type Ops } from './harness.ts';

const [TOKEN, READ_TOKEN] = ['the-token-that-may-change-things', 'the-token-that-may-only-look'];
const CONFIG = { ...NOTHING_SET, OPS_TOKEN: TOKEN, OPS_READ_TOKEN: READ_TOKEN };
const HOUR_MS = 3_600_000;

let ops: Ops;
beforeEach(async () => void (ops = await createOps(CONFIG)));
afterEach(() => ops.close());

async function again(config: Parameters<typeof createOps>[0] = CONFIG): Promise<Ops> {
  const other = await createOps(config, {}, ops);
  onTestFinished(() => other.close());
  return other;
}

async function send(at: Ops, path: string, cookie = '', body = ''): Promise<{ status: number; cookie: string }> {
  const headers = {
    'content-type': 'application/x-www-form-urlencoded',
    origin: `http://127.0.0.1:${at.port}`,
    cookie,
  };
  const reply = await at.send('POST', path, headers, body);
  return { status: reply.status, cookie: String(reply.headers['set-cookie']).split(';')[0] ?? '' };
}

const login = async (at: Ops, token = TOKEN) => (await send(at, '/login', '', `token=${token}`)).cookie;
const see = async (at: Ops, cookie: string) => (await at.get('/', { cookie })).status;
const change = async (at: Ops, cookie: string) => (await send(at, '/reconciliation/now', cookie)).status;
/** What the sessions need of a request, with the cookie that its browser has or is given. */
function browser(cookie = '') {
  let given = cookie;
  const append = (_: string, text: string) => void (given = /^kit_session=([^;]*)/.exec(text)?.[1] ?? '');
  return { ctx: { cookies: { get: () => given }, append } as unknown as Context, cookie: () => given };
}
const kept = () => ops.store.state.get('sessions');

test('a session outlasts a restart, with the rights of its token', async () => {
  const [writer, reader] = [await login(ops), await login(ops, READ_TOKEN)];
  const other = await again();
  expect([await see(other, writer), await see(other, reader)]).toEqual([200, 200]);
  expect([await change(other, writer), await change(other, reader)]).toEqual([303, 403]);
});

test('a log-out ends a session for good, at every port of the store', async () => {
  const cookie = await login(ops);
  const other = await again();
  expect(await see(other, cookie)).toBe(200);
  await send(ops, '/logout', cookie);
  expect([await see(other, cookie), await see(ops, cookie), await see(await again(), cookie)]).toEqual([401, 401, 401]);
  expect(await kept()).toEqual({});
});

test.each([
  ['changed', { ...CONFIG, OPS_TOKEN: `${TOKEN}-2` }],
  ['removed', { ...CONFIG, OPS_TOKEN: undefined }],
])('a token that is %s ends its sessions, and no other', async (_, config) => {
  const [writer, reader] = [await login(ops), await login(ops, READ_TOKEN)];
  const other = await again(config);
  expect([await see(other, writer), await see(other, reader)]).toEqual([401, 200]);
});

test('what the store holds opens no session', async () => {
  await login(ops);
  const held = Object.keys(await kept()).flatMap((name) => [name, ...name.split(' ')]);
  expect(held).toHaveLength(3);
  for (const one of held) expect(await see(ops, `kit_session=${encodeURIComponent(one)}`)).toBe(401);
  expect(JSON.stringify(await kept())).not.toContain(TOKEN);
});

test('a session ends after 12 h, also if the clock was set back meanwhile', async () => {
  const cookie = await login(ops);
  ops.clock.time += 12 * HOUR_MS - 1;
  expect(await see(await again(), cookie)).toBe(200);
  ops.clock.time += 1;
  expect(await see(ops, cookie)).toBe(401);
  const later = await login(ops);
  ops.clock.time -= 24 * HOUR_MS;
  expect(await see(ops, later)).toBe(401);
});

test('while the store cannot be written, people can log in, and a log-out says that it did not last', async () => {
  const failing = vi.spyOn(ops.store.state, 'change');
  failing.mockRejectedValue(new StoreError('unwritable', 'the disk is full'));
  const cookie = await login(ops);
  expect([await see(ops, cookie), await see(ops, cookie)]).toEqual([200, 200]);
  expect((await send(ops, '/logout', cookie)).status).toBe(503);
  const second = await login(ops);
  failing.mockRestore();
  const third = await login(ops);
  expect([await see(await again(), second), await see(await again(), third)]).toEqual([200, 200]);
});

test.each(['the same port', 'another port'])(
  'a log-out holds although somebody logs in meanwhile at %s',
  async (where) => {
    const get: typeof ops.store.state.get = ops.store.state.get.bind(ops.store.state);
    // An answer of PostgreSQL takes a turn of the event loop, so both can read before either of them writes.
    vi.spyOn(ops.store.state, 'get').mockImplementation(async (name) => {
      const value = await get(name);
      await new Promise((go) => setImmediate(go));
      return value;
    });
    const tokens = { writer: TOKEN, reader: READ_TOKEN };
    const sessions = () => createSessions({ ...ops, tokens, secure: false });
    const one = sessions();
    const other = where === 'the same port' ? one : sessions();
    const [person, second] = [browser(), browser()];
    await one.begin(person.ctx, 'writer');
    const stolen = browser(person.cookie());
    await Promise.all([one.end(person.ctx), other.begin(second.ctx, 'writer')]);
    for (const { ctx } of [stolen, second]) await one.look(ctx);
    expect([one.of(stolen.ctx), one.of(second.ctx)]).toEqual([undefined, 'writer']);
  },
);

test('log-ins with OPS_READ_TOKEN end no session of OPS_TOKEN', async () => {
  const writer = await login(ops);
  const ends = Object.entries(await kept());
  const readers = Array.from({ length: 1_000 }, (_, n) => [`reader other-${n}`, ops.clock.time + HOUR_MS * 12]);
  ops.clock.time += 1;
  await ops.store.state.note({}, { sessions: JSON.stringify(Object.fromEntries([...ends, ...readers])) });
  const reader = await login(ops, READ_TOKEN);
  expect([await see(ops, writer), await see(ops, reader)]).toEqual([200, 200]);
  expect(Object.keys(await kept())).toHaveLength(1_001);
});

test('at most 1,000 sessions of a role are kept: the oldest ends', async () => {
  const first = await login(ops);
  ops.clock.time += 1;
  const ends = Object.entries(await kept());
  const others = Array.from({ length: 999 }, (_, n) => [`writer other-${n}`, ops.clock.time + HOUR_MS * 12]);
  await ops.store.state.note({}, { sessions: JSON.stringify(Object.fromEntries([...ends, ...others])) });
  expect(await see(ops, first)).toBe(200);
  ops.clock.time += 1;
  const last = await login(ops);
  expect(Object.keys(await kept())).toHaveLength(1_000);
  expect([await see(ops, first), await see(ops, last)]).toEqual([401, 200]);
});
