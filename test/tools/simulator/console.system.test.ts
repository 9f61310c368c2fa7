// The simulator's program as a person uses it: typed lines and printed answers.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, onTestFinished, test, vi } from 'vitest';
import { createEndpoint, inTurn, until } from './endpoint.ts';

/** In a folder of its own, where the account is kept. */
function start(...args: string[]) {
  return startIn(mkdtempSync(join(tmpdir(), 'kit-service-')), ...args);
}

function startIn(folder: string, ...args: string[]) {
  const main = fileURLToPath(new URL('../../../src/tools/simulator/main.ts', import.meta.url));
  const child = spawn(process.execPath, [main, '--port', '0', ...args], { cwd: folder });
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

test('a webhook that fails from the start is switched off, which is said with the command that enables it', async () => {
  const { url } = await createEndpoint(inTurn(503));
  const { output, say } = start('--url', url, '--rate', '6000');
  const off = /^webhook [\w-]+ disabled: 15 consecutive failures\. .*start the receiver, then type enable$/gm;
  await until(() => expect(output().match(off)).toHaveLength(1));
  await say('enable', /without backfill/);
});

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
  const account = join(mkdtempSync(join(tmpdir(), 'kit-service-')), 'service.json');
  const npm = spawn('npm', ['run', 'service', '--', '--port', '0', '--account', account], { detached: true });
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

test('the account goes on after a restart: key, webhook, history; --new begins another', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'kit-service-'));
  const { url, got } = await createEndpoint(inTurn(204));
  const keyOf = (text: string): string | undefined => /API_KEY=(\w+)/.exec(text)?.[1];
  const first = startIn(folder);
  await first.say(`register ${url}`, /WEBHOOK_SECRET=whsec_\w+/);
  await first.say('send 3', /3 × MessageReceived/);
  await until(() => expect(got).toHaveLength(3));
  await first.say('key expires 3', /key expires 3/);
  const before = keyOf(first.output());
  expect(before).toBeDefined();
  first.child.kill('SIGTERM');
  await first.ended;

  const second = startIn(folder);
  await second.say('key', /key expires 3 /);
  expect(keyOf(second.output())).toBe(before);
  const base = /API_BASE_URL=(\S+)/.exec(second.output())?.[1];
  const replayed = await fetch(`${base}/rpc/ReplayEvents`, {
    method: 'POST',
    headers: { authorization: `Bearer ${before}`, 'content-type': 'application/json' },
    body: '{"request":{}}',
  });
  expect(JSON.stringify(await replayed.json()).match(/MessageReceived/g)).toHaveLength(3);
  await second.say('send 1', /webhooks for this type: 1/);
  await until(() => expect(got).toHaveLength(4));
  expect(new Set(got.map(({ body }) => (JSON.parse(body.toString()) as { cursor: string }).cursor)).size).toBe(4);
  second.child.kill('SIGTERM');
  await second.ended;

  const other = startIn(folder, '--new');
  await until(() => expect(other.output()).toContain('Type help'));
  expect(keyOf(other.output())).not.toBe(before);
});

test('--env writes what the receiver needs into .env, and leaves what a person has set there', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'kit-service-'));
  const { url } = await createEndpoint(inTurn(204));
  const read = (): string => readFileSync(join(folder, '.env'), 'utf8');
  writeFileSync(join(folder, '.env'), '# mine\nLOG_LEVEL=debug\nAPI_KEY=\n');
  const first = startIn(folder, '--url', url, '--env');
  await until(() => expect(first.output()).toMatch(/written to \.env: API_BASE_URL, API_KEY, WEBHOOK_SECRET/));
  expect(read()).toMatch(
    /^# mine\nLOG_LEVEL=debug\n# Of the simulated service.*\nAPI_BASE_URL=http:\S+\/v1\nAPI_KEY=svc_test_\w+\nWEBHOOK_SECRET=whsec_\w+\n$/,
  );
  first.child.kill('SIGKILL');
  await first.ended;

  const again = startIn(folder, '--new', '--url', url, '--env');
  await until(() => expect(again.output()).toMatch(/written to \.env/));
  expect(read().match(/API_KEY=/g)).toHaveLength(1);
  again.child.kill('SIGKILL');
  await again.ended;

  // Shaped like a key of the simulator, but a person's.
  const mine = `API_KEY=svc_test_${'a'.repeat(32)}\n`;
  writeFileSync(join(folder, '.env'), mine);
  const second = startIn(folder, '--new', '--env');
  await until(() => expect(second.output()).toMatch(/\.env was not written: it sets API_KEY\. Take that out/));
  expect(read()).toBe(mine);
});
