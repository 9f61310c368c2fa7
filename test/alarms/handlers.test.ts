// What the alarms about handlers know besides the status: growth of attempts since a start of `run`, and failing heads.
import { expect, onTestFinished, test } from 'vitest';
import { createAttemptCounters } from '../../src/alarms/attempt-counters.ts';
import { createFailingHeads } from '../../src/alarms/failing-heads.ts';
import { createRecords, deliver, fanOut, type Records } from '../admin/harness.ts';

function opened(): Records {
  const records = createRecords();
  onTestFinished(() => records.remove());
  return records;
}

test('E48: attempts are counted from each start of run, for five minutes', async () => {
  const { store, clock } = opened();
  const look = createAttemptCounters(store, clock);
  const seen = async (retry: number) => (await look({ 'attempts.retry.a': retry, accepted: retry })).sinceBoot;
  await store.processes.nextBoot();
  expect(await seen(7)).toEqual({ 'attempts.retry.a': 0 });
  clock.time += 10_000;
  expect(await seen(9)).toEqual({ 'attempts.retry.a': 2 });
  await store.processes.nextBoot();
  expect(await seen(10)).toEqual({ 'attempts.retry.a': 0 });
  clock.time += 299_000;
  expect(await seen(15)).toEqual({ 'attempts.retry.a': 5 });
  clock.time += 1_000;
  expect(await seen(16)).toEqual({});
});

test('E48: attempts of each third of the last half hour are counted once it has passed', async () => {
  const { store, clock } = opened();
  const look = createAttemptCounters(store, clock);
  const thirds: number[][] = [];
  for (let minute = 0; minute <= 40; minute++, clock.time += 60_000) {
    const growth = await look({ 'attempts.done.a': minute * minute });
    thirds.push(growth.thirds.map((third) => third['attempts.done.a'] ?? 0));
  }
  expect(thirds[29]).toEqual([]);
  expect(thirds[30]).toEqual([100, 300, 500]);
  expect(thirds[40]).toEqual([300, 500, 700]);
});

test('E48: a lane is stuck when its first task has failed for 15 minutes, however often it is retried', async () => {
  const records = opened();
  const { store, clock } = records;
  await deliver(records, { cursor: '1' }, { cursor: '2' });
  const [handler = 0] = await fanOut(records, ['answer'], { lane: 'one' });
  const stuck = createFailingHeads(store, clock);
  const turn = { boot: 1, fanOut: null, handlers: [handler] };
  for (let n = 0; n < 89; n++, clock.time += 10_000) {
    const { claims } = await store.work.turn({ ...turn, now: clock.time, settle: [], room: 1 });
    const settle = claims.map((claim) => {
      return { claim, state: 'ready', error: 'Error: no', dueAt: clock.time, holdMs: 86_400_000 } as const;
    });
    expect(settle).toHaveLength(1);
    await store.work.turn({ ...turn, now: clock.time, settle, room: 0 });
    expect(await stuck(() => false)).toEqual([]);
  }
  clock.time += 40_000;
  expect(await stuck(() => false)).toMatchObject([{ handler: 'answer', key: 'c:1', behind: 1 }]);
  clock.time += 40_000;
  expect(await stuck((name) => name === 'answer'), 'paused').toEqual([]);
  clock.time += 600_000;
  expect(await stuck(() => false), 'after the pause it has time to work').toEqual([]);
  clock.time += 600_000;
  expect(await stuck(() => false)).toHaveLength(1);
});
