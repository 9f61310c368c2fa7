// Thrown values in the log: senders' text is left out, and floods are throttled.
import { expect, test } from 'vitest';
import { loggable } from '../../src/base/errors.ts';
import { createThrottle } from '../../src/base/log.ts';

test('a line of a message that looks like a stack frame is not logged as the place of the error', () => {
  const quoting = new Error('hi\n    at stranger (/5511999990000/secret.ts:1:1)\n    at http://x/5511999990000:1:1');
  expect(loggable(quoting)).toEqual({ error: 'Error', at: expect.stringMatching(/test\/base\/log\.test\.ts:\d+$/) });
  quoting.stack = 'Error: hi\n    at stranger (/5511999990000/secret.ts:1:1)';
  expect(loggable(quoting).at).toBe(null);
  quoting.stack = '/5511999990000/secret:1\nError: hi';
  expect(loggable(quoting).at).toBe(null);
});

test.each(['what a stranger wrote', '+5511999990000', '5511999990000', ''])('the name "%s" is not logged', (name) => {
  expect(loggable(Object.assign(new Error('x'), { name })).error).toBe('unknown');
});

test('in a flood the first lines of each kind are logged, and the number of the others after ten seconds', () => {
  let now = 0;
  const throttle = createThrottle({ now: () => now, monotonic: () => now }, 2);
  expect([throttle('a'), throttle('a'), throttle('a'), throttle('b'), throttle('a')]).toEqual([
    {},
    {},
    undefined,
    {},
    undefined,
  ]);
  now = 9_999;
  expect(throttle('a')).toBe(undefined);
  now = 10_000;
  expect([throttle('a'), throttle('b')]).toEqual([{ more: 3 }, {}]);
  now = 20_000;
  expect(throttle('a'), 'nothing was left out').toEqual({});
});
