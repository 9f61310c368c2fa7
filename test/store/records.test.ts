// Records of dead letters, attempts and duplicates: counts are exact, no personal data stays, and no more is kept than
// documented.
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { patternOf } from '../../src/store/error-pattern.ts';
import { timelineOf } from '../../src/admin/timeline.ts';
import type { Cursor } from '../../src/wire/cursor.ts';
import { fanOut, createOps, deliver, end, type Ops } from '../ops/harness.ts';

describe('the pattern of an error', () => {
  test.each([
    ['Error: no answer within 1500 ms', 'Error: no answer within # ms'],
    ['no message 3f2a-99 of 5511999990000@s.example', 'no message # of …'],
    ['cannot write to +55 11 99999-0000', 'cannot write to #'],
    [`no contact "Ana 'x' Silva", nor 'Rui'`, 'no contact …, nor …'],
    ["can't do it, won't do it", "can't do it, won't do it"],
    ['GET https://example.org/a?b=c failed', 'GET … failed'],
    ['\u202ebad\u0007\n\tnews', 'bad news'],
    ['', ''],
  ])('%j is %j', (error, pattern) => {
    expect(patternOf(error)).toBe(pattern);
  });

  test.each([
    ['the endpoint answered 404', 'the endpoint answered 500'],
    ['ReplayEvents: 401 UNAUTHENTICATED', 'ReplayEvents: 403 UNAUTHENTICATED'],
    ['Request failed with status code 429', 'Request failed with status code 503'],
    ['HTTP/1.1 429 for order 12345', 'HTTP/1.1 503 for order 12345'],
    ['(404) Not Found', '(410) Not Found'],
    ['upstream 502, gave up after 1500 ms', 'upstream 504, gave up after 1500 ms'],
    ['database error 23505', 'database error 40001'],
    ['SQLSTATE[23505]: no', 'SQLSTATE[23503]: no'],
    [`error: no { code: '23505' }`, `error: no { code: '40001' }`],
    ['ERROR: 40001: could not serialize', 'ERROR: 40P01: could not serialize'],
    ['deadlock (40P01)', 'deadlock (55P03)'],
    ['error: 42P01 at line 7', 'error: 42703: at line 7'],
    ['spawn E2BIG', 'spawn EACCES'],
    ['connect ECONNREFUSED 10.0.0.7:5432', 'connect ETIMEDOUT 10.0.0.7:5432'],
    ['the tool ended with exit code 1', 'the tool ended with exit code 137'],
    ['exited with 2', 'exited with 3'],
    ['errno -104', 'errno -110'],
    ['error 1062', 'error 1213'],
    ['P2002: unique', 'P2025: unique'],
    ['ERR_HTTP2_STREAM_CANCEL', 'ERR_HTTP2_SESSION_ERROR'],
    ['refused: {"code":"NOT_FOUND"}', 'refused: {"code":"RATE_LIMITED"}'],
    ['refused: {"reason":"GONE"}', 'refused: {"reason":"BUSY"}'],
    ['refused: {"code":"23505"}', 'refused: {"code":"40001"}'],
    ['refused: {"status":404,"id":77}', 'refused: {"status":500,"id":78}'],
    ['PostgresError: 23505 duplicate', 'PostgresError: 40001 duplicate'],
    ['ORA-00942: no', 'ORA-00955: no'],
    ['violates constraint "orders_by_id"', 'violates constraint "orders_by_name"'],
  ])('E45: %j and %j are two causes', (one, other) => {
    expect(patternOf(one)).not.toBe(patternOf(other));
  });

  test.each([
    ['no message 404123', 'no message 500123'],
    ['order 12345 is unknown', 'order 23505 is unknown'],
    ['cannot write to +1 404 555 0100', 'cannot write to +1 503 555 0199'],
    ['cannot write to (404) 555-0100', 'cannot write to (503) 555-0199'],
    ['no answer within 408 ms', 'no answer within 504 ms'],
    ['no contact "ANA"', 'no contact "RUI"'],
    ['no contact "Ana 404"', 'no contact "Rui 500"'],
    ['fails at x.ts:404:11', 'fails at x.ts:500:12'],
    ['Error: 12 messages are left', 'Error: 13 messages are left'],
    ['ORDER_48211 is gone', 'ORDER_48212 is gone'],
    ['code 482910 is wrong', 'code 482911 is wrong'],
    ['status of 5f0c3a52-6f1e-4c55-9a52-9d9f5b1f6d11', 'status of 00000000-6f1e-4c55-9a52-9d9f5b1f6d11'],
    ['late since 2026-01-02T03:04:05.404Z', 'late since 2026-02-03T04:05:06.500Z'],
  ])('E45: %j and %j are one cause', (one, other) => {
    expect(patternOf(one)).toBe(patternOf(other));
  });

  test('however long and odd an error, its pattern is short', () => {
    for (const odd of ['-a'.repeat(5_000), '"'.repeat(10_000), '9 '.repeat(5_000), 'é@'.repeat(5_000)])
      expect(patternOf(odd).length).toBeLessThanOrEqual(160);
  });
});

let ops: Ops;
beforeEach(async () => {
  ops = await createOps();
});
afterEach(() => ops.close());

const groups = async () => (await ops.store.read.groups({ limit: 10 })).groups;
const now = () => ops.clock.time;

test('groups count their dead letters exactly, also after retries, discards and further dead letters', async () => {
  await deliver(ops, { cursor: '1' }, { cursor: '2' }, { cursor: '3' });
  const [handler = 0] = await fanOut(ops, ['answer'], { lane: 'one' });
  const dead = [await end(ops, handler, 'dead', 'E 1'), await end(ops, handler, 'dead', 'E 2')];
  await end(ops, handler, 'dead', 'another');
  expect(await groups()).toMatchObject([{ dead: 2, pattern: 'E #' }, { dead: 1 }]);
  await ops.store.admin.retry(dead.slice(0, 1), now());
  await ops.store.admin.discard(dead.slice(1), 'why not', now());
  expect(await groups()).toMatchObject([{ dead: 1, pattern: 'another' }]);
  await end(ops, handler, 'dead', 'E 3');
  expect(await groups()).toMatchObject([{ dead: 1 }, { dead: 1 }]);
  expect((await ops.store.read.status(now())).tasks.dead).toBe(2);
});

test('the timeline shows a retry by a person, and its outcome', async () => {
  await deliver(ops, { cursor: '1' });
  const [handler = 0] = await fanOut(ops, ['answer']);
  const id = await end(ops, handler, 'dead', 'E');
  ops.clock.time += 5_000;
  await ops.store.admin.retry([id], now());
  ops.clock.time += 5_000;
  await end(ops, handler, 'done');
  const found = await ops.store.read.event('1', now());
  const story = found ? timelineOf(found) : [];
  expect(story.slice(1).map(({ what, detail }) => `${what}, ${detail.replace(/^.*, /, '')}`)).toEqual([
    'answer: attempt 1, dead',
    'answer: retried by hand, ',
    'answer: attempt 1, done',
  ]);
});

test('matching tasks are sorted by cursor, so that changes in steps keep the order of lanes', async () => {
  await deliver(ops, { cursor: '9' }, { cursor: '3' }, { cursor: '6' });
  const [handler = 0] = await fanOut(ops, ['answer']);
  for (let n = 0; n < 3; n++) await end(ops, handler, 'dead', 'E');
  const [group] = await groups();
  for (const filter of [{ state: 'dead' as const }, { group: group?.id }]) {
    const ids = await ops.store.admin.matching(filter, now());
    const { tasks } = await ops.store.read.tasks({ state: 'dead' }, now());
    expect(ids.map((id) => tasks.find((task) => task.id === id)?.key)).toEqual(['c:3', 'c:6', 'c:9']);
  }
});

test('the first seven duplicates and the last one are kept, and all are counted', async () => {
  for (let n = 0; n < 12; n++) await deliver(ops, { cursor: '1', data: { message_id: 'm' } });
  const found = await ops.store.read.event('1', now());
  expect(found?.event.copies).toBe(11);
  expect(found?.deliveries).toHaveLength(9);
  expect(found?.deliveries.at(-1)?.at).toBe(new Date(now()).toISOString());
});

test('the neighbours of a task are tasks of the same lane, in cursor order', async () => {
  await deliver(ops, ...['1', '2', '3', '4', '5'].map((cursor) => ({ cursor })));
  const [handler = 0] = await fanOut(ops, ['answer'], { lane: 'one' });
  await end(ops, handler, 'done');
  const { tasks } = await ops.store.read.tasks({}, now());
  const { earlier, later } = await ops.store.read.neighbours(tasks.find(({ key }) => key === 'c:3')?.id ?? 0, now());
  expect([earlier, later].map((side) => side.map(({ key }) => key))).toEqual([
    ['c:1', 'c:2'],
    ['c:4', 'c:5'],
  ]);
});

test('the last ten attempts of a failing task are kept, and pruning removes them', async () => {
  await deliver(ops, { cursor: '1' });
  const [handler = 0] = await fanOut(ops, ['answer']);
  const turn = { boot: 1, settle: [], fanOut: null, room: 0, handlers: [handler] };
  for (let n = 1; n <= 13; n++) {
    ops.clock.time += 10;
    const [claim] = (await ops.store.work.turn({ ...turn, now: now(), room: 1 })).claims;
    if (!claim) throw new Error('no task is due');
    const failed = { claim, state: 'ready', error: `E ${n}`, dueAt: now(), holdMs: null } as const;
    const ended = n < 13 ? failed : ({ claim, state: 'done', error: null } as const);
    await ops.store.work.turn({ ...turn, now: now() + 5, settle: [ended] });
  }
  const found = await ops.store.read.event('1', now());
  expect(found?.attempts.map(({ attempt }) => attempt)).toEqual([4, 5, 6, 7, 8, 9, 10, 11, 12, 13]);
  expect(found?.attempts.at(-1)).toMatchObject({ state: 'done', error: null });
  await deliver(ops, { cursor: '2' });
  await fanOut(ops, []);
  await ops.store.keep.prune({ now: now(), before: now() + 1, settled: Infinity, after: null, limit: 10 });
  let left: unknown;
  await ops.store.work.setup(async (tx) => void (left = (await tx.get('select count(*) as n from attempts'))?.['n']));
  expect(left).toBe(0);
});

test('erasing a person removes their data from attempts and from the sample error of a group of dead letters', async () => {
  await deliver(ops, { cursor: '1' });
  const [handler = 0] = await fanOut(ops, ['answer']);
  await end(ops, handler, 'dead', 'Error: Ana is not there');
  await ops.store.admin.eraseEvents(() => true, 0, 10, now(), false);
  const found = await ops.store.read.event('1', now());
  expect(JSON.stringify([found, await groups()])).not.toContain('Ana');
});

test('a dead task that is moved to another handler changes its group too, and a task that runs again leaves its group', async () => {
  await deliver(ops, { cursor: '1' }, { cursor: '2' });
  const [old = 0] = await fanOut(ops, ['old']);
  await end(ops, old, 'dead', 'E 1');
  await end(ops, old, 'dead', 'E 2');
  expect(await groups()).toMatchObject([{ handler: 'old', dead: 2 }]);
  await ops.store.work.register(['new']);
  const { tasks } = await ops.store.read.tasks({ state: 'dead', limit: 10 }, ops.clock.time);
  await ops.store.admin.giveTo(
    tasks.slice(0, 1).map(({ id }) => id),
    'new',
    ops.clock.time,
  );
  expect((await groups()).map(({ handler, dead }) => `${handler} ${dead}`)).toEqual(
    expect.arrayContaining(['new 1', 'old 1']),
  );
  const [from, to] = ['1', null] as [Cursor, null];
  const range = await ops.store.admin.range(from, to);
  await ops.store.admin.askRerun({ handler: 'old', type: null, from, to, events: 2, range }, now());
  const page = await ops.store.work.rerun([old], 10);
  if (!page) throw new Error('there is no rerun');
  const again = { handler: old, lane: null, releaseAt: now(), rerun: page.id };
  const made = page.events.map(({ seq, cursor }) => ({ event: seq, cursor, ...again }));
  const nothing = { settle: [], fanOut: null, room: 0, handlers: [] };
  await ops.store.work.turn({ now: now(), boot: 1, ...nothing, rerun: { page, tasks: made } });
  expect(await groups()).toMatchObject([{ handler: 'new', dead: 1 }]);
  expect((await ops.store.read.status(now())).tasks.dead).toBe(1);
});

test('a rerun leaves out events that were pruned after their page was read', async () => {
  await deliver(ops, { cursor: '1' }, { cursor: '2' });
  const [handler = 0] = await fanOut(ops, ['a']);
  await end(ops, handler, 'done');
  await end(ops, handler, 'done');
  const [from, to] = ['0', null] as [Cursor, null];
  const range = await ops.store.admin.range(from, to);
  await ops.store.admin.askRerun({ handler: 'a', type: null, from, to, events: 2, range }, now());
  const page = await ops.store.work.rerun([handler], 10);
  if (!page) throw new Error('there is no rerun');
  await ops.store.keep.prune({ now: now(), before: now() + 1, settled: Infinity, after: null, limit: 100 });
  const tasks = page.events.map(({ seq, cursor }) => ({
    event: seq,
    cursor,
    handler,
    lane: null,
    releaseAt: now(),
    rerun: page.id,
  }));
  const nothing = { settle: [], fanOut: null, room: 0, handlers: [] };
  await ops.store.work.turn({ now: now(), boot: 1, ...nothing, rerun: { page, tasks } });
  expect(await ops.store.admin.reruns(1)).toMatchObject([{ seen: 2, made: 1, purged: 1 }]);
  const claimed = await ops.store.work.turn({ now: now(), boot: 1, ...nothing, room: 5, handlers: [handler] });
  expect(claimed.claims.map(({ event }) => event.cursor)).toEqual(['2']);
});
