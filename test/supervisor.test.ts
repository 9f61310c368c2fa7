// A child and its number: what it claims tasks by, and what its owner gives back when another process ends.
import { afterEach, expect, test, vi } from 'vitest';
import { createChild, type Child, type Exit } from '../src/supervisor.ts';
import { createTestLog } from './keep/rig.ts';

let child: Child | undefined;
afterEach(async () => {
  vi.useRealTimers();
  await child?.stop(1_000);
});

test('one that is started anew while its number is waited for works under the number that its owner knows', async () => {
  const boots: PromiseWithResolvers<number>[] = [];
  const boot = (): Promise<number> => {
    boots.push(Promise.withResolvers());
    return boots.at(-1)?.promise ?? Promise.reject(new Error('no number'));
  };
  const one = createChild({
    role: 'run',
    memory: [],
    entry: '../test/obedient.ts',
    env: () => process.env,
    boot,
    log: createTestLog().log,
  });
  child = one;
  void one.start();
  const before = one.pid();
  expect(before).toBeDefined();
  process.kill(before ?? 0, 'SIGKILL');
  await expect.poll(() => boots.length, { timeout: 10_000 }).toBe(2);
  boots[0]?.resolve(1);
  boots[1]?.resolve(2);
  await expect.poll(() => one.handlers(), { timeout: 10_000 }).toEqual(['2']);
  expect(one.boot()).toBe(2);
});

test('one that loads yet may stand still for a minute, though it has shown life; one that works for ten seconds', async () => {
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval', 'performance'] });
  const { log, text } = createTestLog();
  const alive = Promise.withResolvers<void>();
  const number = Promise.withResolvers<number>();
  const one = createChild({
    role: 'run',
    memory: [],
    entry: '../test/obedient.ts',
    env: () => process.env,
    boot: () => number.promise,
    log,
    lasting: false,
    onWake: alive.resolve,
  });
  child = one;
  void one.start();
  await alive.promise;
  vi.advanceTimersByTime(50_000);
  expect(text()).toBe('');
  number.resolve(1);
  await vi.waitUntil(() => one.handlers().length > 0, { timeout: 10_000 });
  vi.advanceTimersByTime(9_000);
  expect(text()).toBe('');
  vi.advanceTimersByTime(2_000);
  expect(text()).toContain('run stood still for 10 s and is killed');
});

test('E42: the line that says that it died holds how it ended and what it was at, and waits no longer than a second for that', async () => {
  const { log, text } = createTestLog();
  const exits: Exit[] = [];
  const number = Promise.withResolvers<number>();
  number.resolve(1);
  const one = createChild({
    role: 'run',
    memory: [],
    entry: '../test/obedient.ts',
    env: () => process.env,
    boot: () => number.promise,
    log,
    async onExit(exit) {
      exits.push(exit);
      // The second time, the store is locked.
      return exits.length === 1 ? { handler: 'answer', key: 'c:1' } : new Promise<object>(() => {});
    },
  });
  child = one;
  void one.start();
  const lines = (): string[] =>
    text()
      .split('\n')
      .filter((line) => line.includes('run died and is started again'));
  for (const deaths of [1, 2]) {
    await expect.poll(() => one.handlers().length > 0 && one.boot(), { timeout: 10_000 }).toBe(1);
    process.kill(one.pid() ?? 0, 'SIGKILL');
    await expect.poll(() => lines().length, { timeout: 10_000 }).toBe(deaths);
  }
  expect(lines()[0]).toMatch(/"signal":"SIGKILL".*"handler":"answer","key":"c:1"/);
  expect(lines()[1]).toMatch(/"signal":"SIGKILL"/);
  expect(exits[0]).toEqual({ unexpected: true, words: 'SIGKILL' });
  child = undefined;
});
