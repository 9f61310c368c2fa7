// The changes that people make by hand, without HTTP or a terminal: what is checked, what changes, and the messages.
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { AdminError } from '../../src/admin/error.ts';
import { closeGap } from '../../src/admin/gaps.ts';
import { createJobs } from '../../src/admin/jobs.ts';
import { moveTasks } from '../../src/admin/move.ts';
import { readAgain } from '../../src/admin/quarantine.ts';
import { askToReconcile, readPoint, verifyFrom } from '../../src/admin/range.ts';
import { redacted } from '../../src/admin/redact.ts';
import { cancelRerun, planRerun } from '../../src/admin/rerun.ts';
import { changeThese, matchingTasks, readJob, readTaskChange, taskChange } from '../../src/admin/tasks.ts';
import type { TaskFilter } from '../../src/store/read.ts';
import type { Store } from '../../src/store/store.ts';
import type { Cursor } from '../../src/wire/cursor.ts';
import { createTestLog, type TestClock } from '../reconcile/harness.ts';
import { fanOut, createRecords, deliver, end, type Records } from './harness.ts';

let records: Records;
let store: Store;
let clock: TestClock;
beforeEach(() => {
  records = createRecords();
  ({ store, clock } = records);
});
afterEach(() => records.remove());

/** Makes two dead tasks of the handler `answer`. */
async function twoDead(): Promise<number[]> {
  await deliver(records, { cursor: '1' }, { cursor: '2' });
  const [handler = 0] = await fanOut(records, ['answer'], { lane: 'wa:5511999990000' });
  return [await end(records, handler, 'dead', 'Error: said 5511999990000'), await end(records, handler, 'dead')];
}

/** An AdminError with this code and message. */
const refusal = (code: AdminError['code'], message: string) => expect.objectContaining({ code, message });

describe('retry and discard', () => {
  test('tasks are changed by id or by filter, and counted', async () => {
    const [first = 0] = await twoDead();
    const retry = readTaskChange('retry', { ids: [first] });
    expect(await changeThese(await matchingTasks(store, retry, clock), store, retry, clock)).toBe(1);
    const discard = readJob({ action: 'discard', filter: { state: 'dead' }, reason: 'no use' });
    expect(await changeThese(await matchingTasks(store, discard, clock), store, discard, clock)).toBe(1);
    expect((await store.read.status(clock.now())).tasks).toMatchObject({ ready: 1, skipped: 1, dead: 0 });
  });

  test.each([undefined, '', '  '])('without a reason (%j) a retry is accepted, but no discard', (reason) => {
    const words = 'tasks are discarded with a reason: say why they need not run';
    expect(() => taskChange('discard', {}, reason)).toThrow(refusal('input', words));
    expect(taskChange('retry', {}, reason)).toMatchObject({ action: 'retry' });
  });

  test('by age a discard of ready tasks takes held ones too, and a retry leaves them held', async () => {
    await deliver(records, { cursor: '1' }, { cursor: '2' });
    await fanOut(records, ['answer'], { strict: true, lane: 'a' });
    clock.time += 3_600_000;
    const matched = async (action: 'retry' | 'discard', filter: TaskFilter): Promise<number> =>
      (await matchingTasks(store, taskChange(action, filter, 'too old'), clock)).length;
    const byAge = { state: 'ready', receivedBefore: clock.time } as const;
    expect([await matched('discard', byAge), await matched('discard', { state: 'ready' })]).toEqual([2, 0]);
    expect(await matched('retry', byAge)).toBe(0);
  });

  test('nothing is changed if the clock was set back since the tasks were shown', async () => {
    const ids = await twoDead();
    const shown = { at: clock.now() + 1_000 };
    await expect(matchingTasks(store, { ...taskChange('retry', { ids }), shown }, clock)).rejects.toEqual(
      refusal('busy', 'nothing was changed: the clock was set back since the tasks were shown; look again'),
    );
    clock.time += 1_000;
    expect(await matchingTasks(store, { ...taskChange('retry', { ids }), shown }, clock)).toEqual(ids);
  });

  test('a second job is refused while the first one runs', async () => {
    await twoDead();
    const jobs = createJobs({ store, clock, log: createTestLog().log, onChange: () => {} });
    const retry = taskChange('retry', { state: 'dead' });
    const first = jobs.start(retry);
    await expect(jobs.start(retry)).rejects.toEqual(
      refusal('busy', 'another job is running: wait for it, or cancel it'),
    );
    expect(await first).toMatchObject({ action: 'retry', of: 2 });
    await expect.poll(() => jobs.list()[0]?.state).toBe('done');
    expect(jobs.list()).toHaveLength(1);
  });
});

describe('tasks of a handler', () => {
  test('are moved to another handler only if its name is known', async () => {
    await twoDead();
    await store.work.register(['answer', 'reply']);
    expect(await moveTasks(store, { from: 'answer', to: 'reply' }, clock)).toEqual({
      moved: 2,
      steps: 0,
      paused: false,
    });
    expect((await store.read.tasks({ handler: 'reply', limit: 10 }, clock.now())).tasks).toHaveLength(2);
    await expect(moveTasks(store, { from: 'reply', to: 'rpely' }, clock)).rejects.toEqual(
      refusal('missing', 'no handler was ever named rpely; known are: answer, reply'),
    );
  });

  test('are moved after the steps of its setup, which a handler needs to be loaded', async () => {
    await twoDead();
    const steps = async (): Promise<string[]> => (await store.work.steps()).map(({ handler }) => handler);
    await store.work.setup(() => {}, { handler: 'answer', step: 1, digest: 'd1', now: clock.now() });
    const move = { from: 'answer', to: 'reply' };
    expect(await moveTasks(store, move, clock)).toEqual({ moved: 0, steps: 1, paused: false });
    expect(await steps()).toEqual(['reply']);
    await expect(moveTasks(store, move, clock)).rejects.toEqual(
      refusal('missing', 'no handler was ever named reply; known are: answer'),
    );
    await store.work.register(['reply']);
    expect(await moveTasks(store, move, clock)).toEqual({ moved: 2, steps: 0, paused: false });
    // A name that was mistyped is corrected in the same way, and steps do not move to a handler that is loaded.
    expect(await moveTasks(store, { from: 'reply', to: 'answer' }, clock)).toEqual({
      moved: 0,
      steps: 1,
      paused: false,
    });
    expect(await moveTasks(store, move, clock)).toEqual({ moved: 0, steps: 0, paused: false });
    expect(await steps()).toEqual(['answer']);
  });

  test('are made again by a rerun, after a count by type, and only for a loaded handler', async () => {
    await deliver(records, { cursor: '1' }, { cursor: '2', type: 'MessageSent' }, { cursor: '3' });
    await fanOut(records, ['answer']);
    const asked = { handler: 'answer', type: null, from: '1', to: null };
    const plan = await planRerun(store, asked, ['1' as Cursor, null]);
    expect(plan).toMatchObject({
      events: 3,
      purged: 0,
      types: [{ type: 'MessageReceived', events: 2 }, { events: 1 }],
    });
    const id = await store.admin.askRerun(plan, clock.now());
    expect(await cancelRerun(store, id, clock)).toBe(0);
    await expect(cancelRerun(store, id, clock)).rejects.toEqual(refusal('missing', `there is no open rerun ${id}`));
    await store.work.register(['other']);
    await expect(planRerun(store, asked, ['1' as Cursor, null])).rejects.toThrow(
      /^no loaded handler is named answer; loaded are: other\. Its waiting tasks are kept\. They run once/,
    );
    await expect(planRerun(store, { ...asked, handler: 'none' }, ['1' as Cursor, null])).rejects.toThrow(
      /^no loaded handler is named none; loaded are: other$/,
    );
  });
});

describe('history', () => {
  test('a gap is closed once, with a reason', async () => {
    await store.ingest.accept({ readings: [], now: clock.now(), watermark: '7' as Cursor });
    await store.replay.giveUpWatermark(clock.now());
    const [gap] = await store.read.gaps();
    const close = (reason: string) => closeGap(store, { gap: gap?.id ?? 0, reason }, clock.now());
    await expect(close(' ')).rejects.toEqual(
      refusal('input', 'a gap is closed with a reason: say what was done about it'),
    );
    expect(await close(' fetched by hand ')).toBe(`gap ${gap?.id} is closed`);
    expect(await store.read.gaps()).toMatchObject([{ closedBy: 'fetched by hand' }]);
    await expect(close('again')).rejects.toEqual(
      expect.objectContaining({ message: `there is no open gap ${gap?.id}`, remedy: 'npx kit gaps lists them' }),
    );
  });

  test('a request to reconcile is stored', async () => {
    await askToReconcile(store, clock.now());
    expect(await store.state.get('reconcile_asked')).toBe(clock.now());
  });

  test.each([
    ['soon', /^give a cursor, or a time that is past/],
    ['2999-01-01', /^give a cursor, or a time that is past/],
    ['2020-01-01', /^nothing is stored that it could be compared with$/],
  ])('a verify from %s is refused in an empty store', async (from, words) => {
    await expect(verifyFrom(store, readPoint(from), clock.now())).rejects.toThrow(words);
    expect(await store.state.get('verify')).toBeNull();
  });

  test.each([
    ['2', { from: '2', short: false }],
    ['2026-01-01T12:00:02Z', { from: '1', short: false }],
    ['2020-01-01', { from: '1', short: true }],
  ])('a verify from %s begins at %j', async (from, begin) => {
    await deliver(records, { cursor: '1' }, { cursor: '2' });
    expect(await verifyFrom(store, readPoint(from), clock.now())).toEqual(begin);
    expect(await store.state.get('verify')).toMatchObject({ state: 'running', from: begin.from, asked: clock.now() });
  });
});

test('quarantined bytes are read again, one row or all of them', async () => {
  for (const text of ['{', '[', '"']) {
    const unreadable = { origin: 'webhook', cursor: null, body: Buffer.from(text), reason: 'not JSON' } as const;
    await store.ingest.accept({ readings: [{ unreadable }], now: clock.now() });
  }
  expect(await readAgain(store, 2, clock.now())).toMatchObject([{ verdict: 'quarantined' }]);
  expect(await readAgain(store, 99, clock.now())).toEqual([undefined]);
  expect(await readAgain(store, { newest: 2 }, clock.now())).toHaveLength(2);
});

test('redacted reads contain no phone number, neither in errors nor in lane names', async () => {
  await twoDead();
  await deliver(records, { cursor: '3' }, { cursor: '4' });
  await fanOut(records, ['answer'], { lane: 'wa:5511999990000' });
  const now = clock.now();
  const all = async (reads: Parameters<typeof redacted>[0]) =>
    JSON.stringify([
      (await reads.event('c:1', now))?.tasks,
      await reads.tasks({ limit: 10 }, now),
      await reads.groups({ limit: 10 }),
      await reads.waitingLanes(10),
    ]);
  expect((await all(store.read)).match(/5511999990000/g)?.length).toBeGreaterThan(4);
  expect(await all(redacted(store.read))).not.toContain('5511999990000');
});
