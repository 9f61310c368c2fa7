// The commands for the key, typed at the console, and what the key's calls get afterwards.
import { expect, test } from 'vitest';
import { createConsole } from '../../../src/tools/simulator/console.ts';
import { refusal, setUp } from './caller.ts';

async function setUpConsole() {
  const all = await setUp({ scopes: ['events:read', 'sessions:read'], validDays: 30 });
  return { ...all, say: createConsole(all.service, all.key) };
}
type Say = Awaited<ReturnType<typeof setUpConsole>>['say'];
const secretOf = async (say: Say) => /API_KEY=(\S+)/.exec(await say('key new'))?.[1] ?? '';
/** The settings that `key` shows, each as the command that makes it. */
const settingsOf = async (say: Say) =>
  (await say('key')).split('\n').flatMap((line) => /^ {2}(key .*?) {2}/.exec(line)?.[1] ?? []);

test('3.1, 5.7: a key that expires now is refused, until it gets other days', async () => {
  const { replay, say } = await setUpConsole();
  expect(await say('key expires now')).toMatch(/^ {2}key expires now .*401 API_AUTH_REQUIRED/);
  expect(refusal(await replay({}))).toEqual([401, 'UNAUTHENTICATED', 'API_AUTH_REQUIRED']);
  expect(await say('ping')).toMatch(/^refused: 401 API_AUTH_REQUIRED: the key has expired/);
  expect(await say('key')).toMatch(/^the key is expired\n/);
  expect(await say('key expires 2')).toMatch(/^ {2}key expires 2 /);
  expect((await replay({})).status).toBe(200);
});

test('3.1: a key expires after the days that were set, or never', async () => {
  const { clock, replay, say } = await setUpConsole();
  await say('key expires 1');
  clock.at += 86_400_000 - 1;
  expect((await replay({})).status).toBe(200);
  clock.at += 1;
  expect(await say('key expires')).toMatch(/key expires now/);
  expect(refusal(await replay({}))).toEqual([401, 'UNAUTHENTICATED', 'API_AUTH_REQUIRED']);
  expect(await say('key expires off')).toMatch(/key expires off/);
  clock.at += 10 * 365 * 86_400_000;
  expect((await replay({})).status).toBe(200);
});

test('5.5: calls from an address that the key does not allow are refused', async () => {
  const { replay, say } = await setUpConsole();
  expect(await say('key ips 192.0.2.1 2001:db8::/32')).toMatch(/key ips 192\.0\.2\.1 2001:db8::\/32 .*_IP_FORBIDDEN/);
  expect(refusal(await replay({}))).toEqual([403, 'FORBIDDEN', 'API_KEY_IP_FORBIDDEN']);
  await say('key ips 127.0.0.0/8');
  expect((await replay({})).status).toBe(200);
  await say('key ips 192.0.2.1');
  expect(await say('key ips off')).toMatch(/key ips off/);
  expect((await replay({})).status).toBe(200);
});

test.each([
  ['key expires 0', 'API_KEY_EXPIRY_INVALID: 1 to 1096 days'],
  ['key expires soon', 'API_KEY_EXPIRY_INVALID: 1 to 1096 days'],
  ['key ips here', 'API_KEY_IPS_INVALID: each must be an IP address'],
  ['key scopes off', 'API_KEY_INPUT_INVALID: .*messages:send'],
  ['key restrict all', 'API_KEY_DEVICES_INVALID'],
])('7.4: %s is refused, and changes nothing', async (line, reason) => {
  const { say } = await setUpConsole();
  const before = await say('key');
  expect(await say(line)).toMatch(new RegExp(`^refused: 400 ${reason}`));
  expect(await say('key')).toBe(before);
});

test('key alone shows every setting as the command that makes it', async () => {
  const { history, say } = await setUpConsole();
  expect(await settingsOf(say)).toEqual([
    'key scopes events:read sessions:read',
    'key restrict off',
    'key creates off',
    'key limit off',
    'key expires 30',
    'key ips off',
  ]);
  const [one = '', other = ''] = history.numbers;
  const commands = [
    'key scopes events:read sessions:manage',
    `key restrict ${one} ${other}`,
    'key creates 2',
    'key limit 5',
    'key expires 90',
    'key ips 192.0.2.1 10.0.0.0/8',
  ];
  for (const command of commands) expect(await say(command)).toMatch(command);
  expect(await settingsOf(say)).toEqual(commands);
  for (const name of ['creates', 'limit', 'ips', 'restrict']) await say(`key ${name} off`);
  expect((await settingsOf(say)).filter((line) => line.endsWith(' off'))).toHaveLength(4);
});

test('a setting without a value is shown and not changed, except that restrict takes the first number', async () => {
  const { history, say } = await setUpConsole();
  const before = await say('key');
  for (const name of ['scopes', 'creates', 'limit', 'expires', 'ips'])
    expect(before).toContain(await say(`key ${name}`));
  expect(await say('key')).toBe(before);
  expect(await say('key restrict')).toMatch(`key restrict ${history.numbers[0]}`);
});

test('a new key has the settings of the key before it, and is valid for as many days', async () => {
  const { ask, say } = await setUpConsole();
  const identity = async (secret: string) => ask('GET', '/v1', { headers: { authorization: `Bearer ${secret}` } });
  await say('key limit 5');
  const before = await say('key');
  for (const [end, state] of [
    ['key expires now', 'expired'],
    ['key revoke', 'revoked'],
  ] as const) {
    await say(end);
    expect(await say('key')).toMatch(`the key is ${state}\n`);
    expect((await identity(await secretOf(say))).status).toBe(200);
    expect(await say('key')).toBe(before);
  }
  await say('key ips 192.0.2.1');
  expect(refusal(await identity(await secretOf(say)))).toEqual([403, 'FORBIDDEN', 'API_KEY_IP_FORBIDDEN']);
});

test('an unknown command for the key is answered with those that exist', async () => {
  const { say } = await setUpConsole();
  expect(await say('key nonsense')).toMatch(
    /^ {2}key expires <days>\|now\|off .*\n {2}key ips <address or range> …\|off /m,
  );
});

test('help lists every command, also those for the key, within 100 columns', async () => {
  const { say } = await setUpConsole();
  const help = (await say('help')).split('\n');
  expect(help.filter((line) => line.length > 100)).toEqual([]);
  for (const name of 'new revoke scopes restrict limit creates expires ips'.split(' '))
    expect(help).toContainEqual(expect.stringMatching(new RegExp(`^ {2}key ${name}\\b.* {2,}\\S`)));
  const names = new Set(help.map((line) => /^ {2}(\w+)/.exec(line)?.[1]));
  for (const name of names) expect(await say(name ?? ''), name).not.toMatch(/unknown command/);
  expect(names.size).toBe(14);
});

test('5.7: a rotated API key has another secret, and the old one is valid for the hours that were typed', async () => {
  const { clock, ask, replay, say } = await setUpConsole();
  const secret = /API_KEY=(\S+)/.exec(await say('key rotate 1'))?.[1];
  const asNew = () => ask('GET', '/v1', { headers: { authorization: `Bearer ${secret}` } });
  expect([(await replay({})).status, (await asNew()).status]).toEqual([200, 200]);
  clock.at += 3_600_000;
  expect(refusal(await replay({}))).toEqual([401, 'UNAUTHENTICATED', 'API_AUTH_REVOKED']);
  expect((await asNew()).status).toBe(200);
  expect(await say('key rotate 2')).toContain('key rotate 0|1|24');
});
