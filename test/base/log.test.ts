// Thrown values in the log: senders' text is left out, and floods are throttled.
import { execFileSync } from 'node:child_process';
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

/** What a process prints that logs these fields and this text, after it has read this environment. */
function printed(format: string, fields: object, text: string, env: Record<string, string> = {}): string {
  const code = `import { createLog } from './src/base/log.ts'; import { loadConfig } from './src/config.ts';
    try { loadConfig(${JSON.stringify(env)}); } catch {}
    createLog('receive', { level: 'info', format: '${format}' }).info(${JSON.stringify(fields)}, ${JSON.stringify(text)});`;
  return execFileSync(process.execPath, ['--input-type=module', '-e', code], { encoding: 'utf8' });
}

test('E87: LOG_FORMAT=pretty shows characters that control a terminal, and does not print them', () => {
  const hostile = 'a\u001b[2J\nINFO: forged\r\t\u0007\u009b1m\u007f\u202egnp\u2066\u200f \\n "quoted" \\u001b';
  const shown = 'a\\u001b[2J\\nINFO: forged\\r\\t\\u0007\\u009b1m\\u007f\\u202egnp\\u2066\\u200f';
  const text = printed('pretty', { prefix: hostile }, hostile);
  expect(text.split(shown)).toHaveLength(3);
  expect(text).toContain(`${shown} \\n "quoted" \\u001b`);
  expect(text.trimEnd().split('\n')).toHaveLength(2);
  // oxlint-disable-next-line no-control-regex -- the characters that must not be printed
  expect(text).not.toMatch(/[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/);
});

test.each(['json', 'pretty'])('E87: secrets that a text from outside echoes are masked in the log (%s)', (format) => {
  const env = {
    WEBHOOK_SECRET: 'whsec_0123456789abcdef, whsec_fedcba9876543210',
    API_KEY: 'svc_"quoted\\key"',
    OPS_TOKEN: 'token-0123456789',
    OPS_READ_TOKEN: 'reads-0123456789',
    ALERT_URL: 'https://alerts.example/T0KEN',
    DATABASE_URL: 'postgres://kit:p%40ssword@db/kit',
  };
  const echoed = [...Object.values(env).slice(1, 5), 'whsec_fedcba9876543210', 'p%40ssword', 'p@ssword'];
  const text = printed(format, { requestId: echoed.join(' ') }, `echo ${echoed.join(' ')}`, env);
  for (const secret of [...echoed, 'quoted', 'T0KEN', 'fedcba']) expect(text).not.toContain(secret);
  expect(text).toContain('echo *** ***');
});
