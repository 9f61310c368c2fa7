// The simulator's program as a person uses it: typed lines and printed answers.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { expect, onTestFinished, test, vi } from 'vitest';
import { createEndpoint, inTurn, until } from './endpoint.ts';

function start(...args: string[]) {
  const main = fileURLToPath(new URL('../../../src/tools/simulator/main.ts', import.meta.url));
  const child = spawn(process.execPath, [main, '--port', '0', ...args]);
  const ended = once(child, 'exit');
  let output = '';
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk: Buffer) => (output += chunk.toString()));
  onTestFinished(async () => {
    child.kill('SIGKILL');
    await ended;
  });
  /** Types the line. Resolves to the text printed since then, once it matches. */
  async function say(line: string, fits: RegExp): Promise<string> {
    const from = output.length;
    child.stdin.write(`${line}\n`);
    await until(() => expect(output.slice(from)).toMatch(fits));
    return output.slice(from);
  }
  return { child, ended, say, output: () => output };
}

test('a rehearsal: register, ping, send, rotate, disable, enable, expire, revoke', async () => {
  const { url, got } = await createEndpoint(inTurn(204));
  const { say, output, child, ended } = start();
  await say('help', /chaos on\|off.*\n.*help/);
  expect(output()).toMatch(/^Invented answers .*: GetApiKeyIdentity, .*ListSessions.*$/m);
  expect(output()).toMatch(/^The key has the scopes sessions:read, .*\. Type key for its settings\.$/m);
  expect(output()).toMatch(/API_BASE_URL=http:\/\/127\.0\.0\.1:\d+\/v1\n {2}API_KEY=svc_test_\w+/);
  await say('ping', /no webhook is registered/);
  await say('register http://192.168.0.1/', /refused: 400 WEBHOOK_URL_INSECURE: 192\.168\.0\.1/);
  await say('register https://192.168.0.1/', /WEBHOOK_URL_PRIVATE: 192\.168\.0\.1 is a private-network address/);
  await say(`register ${url}`, /WEBHOOK_SECRET=whsec_\w+/);
  await say('ping', /ping, attempt 1: 204/);
  await say('ping', /429 WEBHOOK_TEST_RATE_LIMITED/);
  await say('send 3 MessageSent', /3 × MessageSent/);
  await until(() => expect(got).toHaveLength(4));
  await say('log', /204 {3}1 attempt {2}delivered {2}MessageSent/);
  await say('rotate', /both signatures/);
  await say('rotate now', /old secret signs no more/);
  await say('disable', /disabled/);
  await say('ping', /409 WEBHOOK_DISABLED/);
  await say('enable', /without backfill/);
  await say('chaos on', /by the seed/);
  await say('chaos off', /chaos is off/);
  await say('send 1 webhook.ping', /use ping/);
  await say('send 1 Unheard', /1 × Unheard created.*webhooks for this type: 0/);
  await say('bare on', /has no session and time; the envelope of a webhook has both/);
  await say('bare all', /the envelope of a webhook has no session either/);
  await say('bare off', /has its session and time/);
  await say('key restrict', /key restrict [\w-]+ /);
  await say('key restrict off', /key restrict off/);
  await say('key limit 121', /refused: 400 API_KEY_RATE_INVALID/);
  await say('key limit 5', /key limit 5 .*API_KEY_RATE_LIMITED/);
  await say('key limit off', /key limit off/);
  await say('key scopes events:read product:media', /key scopes events:read product:media /);
  await say('key restrict', /refused: 400 API_KEY_RESTRICTED_SCOPE_INVALID/);
  await say('balance some', /balance <number/);
  await say('balance 0', /402 PAYMENT_REQUIRED/);
  await say('expire quotes', /409 BILLING_QUOTE_EXPIRED/);
  await say('fault', /uncertain-sent, uncertain-unsent: /);
  await say('fault nonsense', /nonsense is none of these/);
  await say('fault uncertain-unsent messages/send', /the next call of messages\/send gets the fault uncertain-unsent/);
  await say('expire', /reset_required/);
  await say('key creates 2', /refused: 400 API_KEY_CREATION_SCOPE_REQUIRED\n/);
  await say('key scopes events:read sessions:manage', /sessions:manage/);
  await say('key creates 2', /key creates 2 /);
  await say('key revoke', /401/);
  for (const command of ['ping', 'enable', 'rotate']) await say(command, /refused: 401 API_AUTH_REVOKED/);
  await say('key new', /API_KEY=svc_test_\w+/);
  await say(`register ${url}`, /WEBHOOK_SECRET=whsec_\w+/);
  await say('ping', /ping, attempt 1: 204/);
  await say('nonsense', /type help/);
  child.kill('SIGTERM');
  expect(await ended).toEqual([0, null]);
});

test('options register a webhook with a given secret and create events at a rate', async () => {
  const { url, got } = await createEndpoint(inTurn(204));
  const { output } = start('--url', url, '--secret', 'whsec_of_the_tests_alone', '--rate', '6000');
  await until(() => expect(got.length).toBeGreaterThan(2));
  expect(output()).not.toContain('whsec_');
});

test.each([['--port', 'x'], ['--unknown'], ['--secret', 'whsec_1']])(
  'wrong arguments exit with 2: %s',
  async (...args) => {
    const { ended, output } = start(...args);
    expect(await ended).toEqual([2, null]);
    expect(output()).toContain('npm run service');
  },
);

test('npm run service ends with the signal that npm gets', async () => {
  const npm = spawn('npm', ['run', 'service', '--', '--port', '0'], { detached: true });
  const ended = once(npm, 'exit');
  let output = '';
  npm.stdout.on('data', (chunk: Buffer) => (output += chunk.toString()));
  // Without `exec` the simulator outlives npm, so the test ends the whole process group.
  onTestFinished(() => {
    try {
      if (npm.pid) process.kill(-npm.pid, 'SIGKILL');
    } catch {
      // The group has ended.
    }
  });
  await until(() => expect(output).toMatch(/Type help/));
  const [base = ''] = /http:\S+/.exec(output) ?? [];
  expect((await fetch(`${base}/`)).status).toBe(200);
  npm.kill('SIGTERM');
  await ended;
  await vi.waitFor(() => expect(fetch(`${base}/`)).rejects.toThrow(), 15_000);
});
