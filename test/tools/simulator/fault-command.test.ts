// The command `fault`, typed at the console, and which call gets the fault.
import { expect, test } from 'vitest';
import { createConsole } from '../../../src/tools/simulator/console.ts';
import { FAULTS } from '../../../src/tools/simulator/faults.ts';
import { refusal, setUp } from './caller.ts';

const message = { to: '15550101', body: 'hi' };

async function setUpConsole() {
  const all = await setUp({ scopes: ['events:read', 'messages:send', 'product:inbox'] });
  return { ...all, say: createConsole(all.service, all.key) };
}

test('a fault of a send waits for the send: neither its quote nor a replay takes it', async () => {
  const { quote, replay, say, send } = await setUpConsole();
  expect(await say('fault OUTCOME_UNCERTAIN messages/send')).toBe(
    'the next call of messages/send gets the fault OUTCOME_UNCERTAIN',
  );
  expect((await replay({})).status).toBe(200);
  const quoteId = await quote('messages/send', message);
  expect(refusal(await send(message, quoteId))).toEqual([503, 'UNAVAILABLE', 'OUTCOME_UNCERTAIN']);
  expect((await send(message, await quote('messages/send', message))).status).toBe(200);
});

test.each([
  ['fault 503 ListMessages', [503, 'UNAVAILABLE']],
  ['fault ACCESS_CONTROL_UNAVAILABLE ListMessages', [503, 'UNAVAILABLE', 'ACCESS_CONTROL_UNAVAILABLE']],
  ['fault 409 SESSION_DISCONNECTED ListMessages', [409, 'CONFLICT', 'SESSION_DISCONNECTED']],
  ['fault too-large ListMessages', [413, 'VALIDATION_FAILED', 'PAYLOAD_TOO_LARGE']],
])('%s hits only this operation', async (line, refused) => {
  const { call, say } = await setUpConsole();
  expect(await say(line)).toMatch(/^the next call of ListMessages gets the fault /);
  expect((await call('ListConversations', {})).status).toBe(200);
  expect(refusal(await call('ListMessages', {}))).toEqual(refused);
  expect((await call('ListMessages', {})).status).toBe(200);
});

test('a fault that names no call hits the next, whichever it is; faults for others keep their place', async () => {
  const { ask, call, say } = await setUpConsole();
  await say('fault 500 events');
  expect(await say('fault 402')).toBe('the next call gets the fault 402');
  expect(refusal(await call('ListMessages', {}))).toEqual([402, 'PAYMENT_REQUIRED']);
  expect((await call('ListMessages', {})).status).toBe(200);
  expect(refusal(await ask('GET', '/v1/events'))).toEqual([500, 'INTERNAL']);
});

test.each(['html', 'redirect', 'proxy-503'])('the fault %s also hits the stream', async (name) => {
  const { ask, say } = await setUpConsole();
  await say(`fault ${name} events`);
  const answered = await ask('GET', '/v1/events');
  expect(answered.headers.get('content-type')).not.toBe('text/event-stream');
});

test('a false page waits for ReplayEvents, and no other call can be named for it', async () => {
  const { call, replay, say, service } = await setUpConsole();
  service.happen(2);
  expect(await say('fault items-repeated')).toBe('the next call of ReplayEvents gets the fault items-repeated');
  expect((await call('ListMessages', {})).status).toBe(200);
  expect((await replay({})).body['events']).toHaveLength(4);
  expect(await say('fault page-stuck ListMessages')).toBe(
    'ListMessages cannot follow page-stuck; one of these can:\n  ReplayEvents',
  );
  await say('fault page-empty ReplayEvents');
  expect((await replay({})).body).toMatchObject({ events: [], has_more: true });
});

test.each([
  ['fault 418', /^ {2}uncertain-sent, .*^ {2}400 REQUEST_INVALID .*^ {2}402$.*\n418 is none of these$/ms],
  ['fault 599', /\n599 is none of these$/],
  ['fault nonsense', /\nnonsense is none of these$/],
  ['fault VALIDATION_FAILED', /\nVALIDATION_FAILED is none of these$/],
  ['fault F33 unsent', /\nF33 is none of these$/],
  ['fault toString', /\ntoString is none of these$/],
  [
    'fault 503 SESSION_DISCONNECTED',
    /^SESSION_DISCONNECTED cannot follow 503; one of these can:\n.*OUTCOME_UNCERTAIN/s,
  ],
  ['fault 402 NONE_OF_THEM', /^NONE_OF_THEM cannot follow 402; one of these can:\n {2}events messages\/send/],
  ['fault 503 SendTextMessage', /^SendTextMessage cannot follow 503; .*messages\/send.*ReplayEvents/s],
  ['fault html nowhere', /^nowhere cannot follow html/],
  ['fault 503 OUTCOME_UNCERTAIN nowhere', /^nowhere cannot follow OUTCOME_UNCERTAIN/],
  ['fault OUTCOME_UNCERTAIN messages/send twice', /^twice cannot follow OUTCOME_UNCERTAIN/],
  ['fault page-stuck ReplayEvents twice', /^twice cannot follow page-stuck/],
])('%s is answered with what is possible, and no call gets it', async (line, possible) => {
  const { call, say } = await setUpConsole();
  expect(await say(line)).toMatch(possible);
  expect((await call('ListMessages', {})).status).toBe(200);
});

test('fault alone names every fault, and lists reasons, operations and routes within 100 columns', async () => {
  const { say, service } = await setUpConsole();
  const list = await say('fault');
  expect(list.split('\n').filter((line) => line.length > 100)).toEqual([]);
  const words = new Set(list.split(/[\s,:;]+/));
  const names = [...Object.keys(FAULTS), ...service.callNames, 'ACCESS_CONTROL_UNAVAILABLE', '402', '428'];
  expect(names.filter((name) => !words.has(name))).toEqual([]);
});
