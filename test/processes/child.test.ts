// A child of the main process: the boot number that its claims carry, and the time limits for its signs of life.
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, expect, test, vi } from 'vitest';
import { createChild, type Child } from '../../src/processes/child.ts';
import { createTestLog } from '../store-file.ts';
import { createFolder } from '../run/fixture.ts';

let child: Child | undefined;
afterEach(async () => {
  vi.useRealTimers();
  await child?.stop(1_000);
});

test('a child that crashes while it waits for its boot number is restarted with a new number', async () => {
  const boots: PromiseWithResolvers<number>[] = [];
  const boot = (): Promise<number> => {
    boots.push(Promise.withResolvers());
    return boots.at(-1)?.promise ?? Promise.reject(new Error('no number'));
  };
  const numbers = join(createFolder(), 'numbers');
  const one = createChild({
    role: 'run',
    memory: [],
    entry: '../test/processes/idle-child.ts',
    env: () => ({ ...process.env, NUMBERS: numbers }),
    boot,
    standing: () => ({ instance: 0, leads: true }),
    log: createTestLog().log,
  });
  child = one;
  void one.start();
  await expect.poll(() => boots.length, { timeout: 10_000 }).toBe(1);
  const before = one.pid();
  expect(before).toBeDefined();
  process.kill(before ?? 0, 'SIGKILL');
  boots[0]?.resolve(1);
  await expect.poll(() => boots.length, { timeout: 10_000 }).toBe(2);
  boots[1]?.resolve(2);
  await expect.poll(() => existsSync(numbers) && readFileSync(numbers, 'utf8'), { timeout: 10_000 }).toContain('2\n');
  expect(one.boot()).toBe(2);
  expect(one.pid()).not.toBe(before);
});

test('a child may block its event loop for a minute while it starts, and for ten seconds while it works', async () => {
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval', 'performance'] });
  const { log, text } = createTestLog();
  const alive = Promise.withResolvers<void>();
  const loaded = Promise.withResolvers<void>();
  const one = createChild({
    role: 'run',
    memory: [],
    entry: '../test/processes/idle-child.ts',
    args: ['slow'],
    env: () => process.env,
    standing: () => ({ instance: 0, leads: true }),
    boot: () => {
      loaded.resolve();
      return Promise.withResolvers<number>().promise;
    },
    log,
    lasting: false,
    onWake: alive.resolve,
  });
  child = one;
  void one.start();
  await alive.promise;
  vi.advanceTimersByTime(50_000);
  expect(text()).toBe('');
  process.kill(one.pid() ?? 0, 'SIGUSR2');
  await loaded.promise;
  vi.advanceTimersByTime(9_000);
  expect(text()).toBe('');
  vi.advanceTimersByTime(2_000);
  expect(text()).toContain('run blocked its event loop for 10 s; killing it');
});
