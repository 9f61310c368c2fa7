import { expect, test } from 'vitest';
import { refusal, setUp } from './caller.ts';

const SCOPES = ['product:campaigns', 'messages:send', 'product:inbox'];
const message = { to: '15550101', body: 'hi' };
const EXPIRED = [409, 'CONFLICT', 'BILLING_QUOTE_EXPIRED'];

async function setUpPaid() {
  const all = await setUp({ scopes: SCOPES });
  const sent = () => all.history.all().filter(({ type }) => type === 'MessageSent').length;
  const resume = (request: object, quoteId: string) => all.call('ResumeCampaign', request, { billing: { quoteId } });
  return { ...all, sent, resume };
}

test('4.1, 7.4: the simulator refuses a paid call without a quote with BILLING_QUOTE_REQUIRED', async () => {
  const { ask, call, sent } = await setUpPaid();
  const unpaid = [428, 'PAYMENT_REQUIRED', 'BILLING_QUOTE_REQUIRED'];
  expect(refusal(await call('ResumeCampaign', {}))).toEqual(unpaid);
  expect(refusal(await call('ResumeCampaign', {}, { billing: { quote_id: 'q' } }))).toEqual(unpaid);
  expect(refusal(await ask('POST', '/v1/messages/send', { body: '{"request":{}}' }))).toEqual(unpaid);
  expect(refusal(await call('ResumeCampaign', {}, { billing: { quoteId: 'unknown' } }))).toEqual(EXPIRED);
  expect(sent()).toBe(0);
});

test('4.1: a quote is bound to its operation', async () => {
  const { quote, resume, send } = await setUpPaid();
  expect(refusal(await send(message, await quote('ResumeCampaign', message)))).toEqual(EXPIRED);
  const quoteId = await quote('messages/send', message);
  expect(refusal(await resume(message, quoteId))).toEqual(EXPIRED);
  expect((await send(message, quoteId)).status, 'a wrong use does not spend it').toBe(200);
});

test('4.1: a quote is bound to its request', async () => {
  const { quote, send } = await setUpPaid();
  const quoteId = await quote('messages/send', message);
  expect(refusal(await send({ ...message, body: 'ho' }, quoteId))).toEqual(EXPIRED);
  expect((await send({ body: 'hi', to: '15550101' }, quoteId)).status, 'the order of fields means nothing').toBe(200);
});

test('7.3: a quote is used once', async () => {
  const { quote, send, sent } = await setUpPaid();
  const quoteId = await quote('messages/send', message);
  expect((await send(message, quoteId)).headers.get('x-invented')).toBe('true');
  expect(refusal(await send(message, quoteId))).toEqual(EXPIRED);
  expect(sent()).toBe(1);
});

test('7.4: after five minutes the simulator refuses a quote with BILLING_QUOTE_EXPIRED', async () => {
  const { clock, quote, resume } = await setUpPaid();
  const [early, late] = [await quote('ResumeCampaign', {}), await quote('ResumeCampaign', {})];
  clock.at += 300_000 - 1;
  expect((await resume({}, early)).body).toEqual({ ok: true });
  clock.at += 1;
  expect(refusal(await resume({}, late))).toEqual(EXPIRED);
});

test('7.2: a paid call without balance gets 402 PAYMENT_REQUIRED, and its quote stays', async () => {
  const { quote, send, sent, service } = await setUpPaid();
  service.billing.balance(1);
  expect((await send(message, await quote('messages/send', message))).status).toBe(200);
  const quoteId = await quote('messages/send', message);
  expect(refusal(await send(message, quoteId))).toEqual([402, 'PAYMENT_REQUIRED']);
  expect(sent()).toBe(1);
  service.billing.balance(1);
  expect((await send(message, quoteId)).status).toBe(200);
});

test.each([
  ['uncertain-sent', 503, 'OUTCOME_UNCERTAIN', 1],
  ['uncertain-unsent', 503, 'OUTCOME_UNCERTAIN', 0],
  ['504', 504, 'RPC_DEADLINE_EXCEEDED', 1],
  ['deadline-unsent', 504, 'RPC_DEADLINE_EXCEEDED', 0],
] as const)(
  '7.3: with the fault %s a send gets %i %s, sends %i messages, and uses its quote',
  async (name, status, reason, count) => {
    const { call, chaos, quote, send, sent } = await setUpPaid();
    const quoteId = await quote('messages/send', message);
    chaos.next(name);
    expect(refusal(await send(message, quoteId))).toEqual([status, 'UNAVAILABLE', reason]);
    expect(refusal(await send(message, quoteId))).toEqual(EXPIRED);
    expect(sent()).toBe(count);
    expect((await call('ListMessages', {})).body['messages']).toHaveLength(count);
  },
);

test('7.2: a call that is refused with 429 is not carried out, and its quote stays', async () => {
  const { chaos, quote, send, sent } = await setUpPaid();
  const quoteId = await quote('messages/send', message);
  chaos.next('429');
  expect(refusal(await send(message, quoteId))).toEqual([429, 'RATE_LIMITED', 'RATE_LIMITED']);
  expect(sent()).toBe(0);
  expect((await send(message, quoteId)).status).toBe(200);
});

test.each([
  { operation: 'ListMessages', request: {} },
  { operation: 'Unknown', request: {} },
  { operation: 'messages/send' },
  { request: {} },
])('4.1: the simulator makes no quote for %j', async (body) => {
  const { ask } = await setUpPaid();
  const answered = await ask('POST', '/v1/billing/quotes', { body: JSON.stringify(body) });
  expect(refusal(answered)).toEqual([400, 'VALIDATION_FAILED', 'REQUEST_INVALID']);
});

test.each(['[]', '{}', '{"request":"text"}', '{"request":{"sessionId":"1"}}'])(
  '4.3, 7.4: the simulator refuses a send with the body %s before it is paid',
  async (body) => {
    const { ask, sent } = await setUpPaid();
    expect((await ask('POST', '/v1/messages/send', { body })).status).toBe(400);
    expect(sent()).toBe(0);
  },
);
