// A child and its number: what it claims tasks by, and what its owner gives back when another process ends.
import { afterEach, expect, test } from 'vitest';
import { createChild, type Child } from '../src/supervisor.ts';
import { createTestLog } from './keep/rig.ts';

let child: Child | undefined;
afterEach(() => child?.stop(1_000));

test('one that is started anew while its number is waited for works under the number that its owner knows', async () => {
  const boots: PromiseWithResolvers<number>[] = [];
  const boot = (): Promise<number> => {
    boots.push(Promise.withResolvers());
    return boots.at(-1)?.promise ?? Promise.reject(new Error('no number'));
  };
  const one = createChild({
    role: 'run',
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
