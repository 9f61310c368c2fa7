// What the contract says to a client of errors, limits and versions (7, 8, 9), against a scripted service or the simulator.
import type { ServerResponse } from 'node:http';
import { expect, onTestFinished } from 'vitest';
import { ConfigError, loadConfig } from '../../src/config.ts';
import { ServiceError } from '../../src/service/errors.ts';
import { createService, type Service } from '../../src/service/service.ts';
import { createSimulatedService } from '../../src/tools/simulator/service.ts';
import { holds } from './holds.ts';
import { REASONS } from './reasons.ts';
import { cut, errorOf, html, ok, refusal, sse, startClient, startService } from './scripted.ts';
import { clientOf, ENV, QUOTE, ROUTES } from './calls.ts';

const MIB = 1024 * 1024;

// 7.1

holds('7.1', 'an error of the client has the code, reason, requestId and status of the answer', async () => {
  const { service } = await startClient(refusal(409, 'CONFLICT', 'BILLING_QUOTE_EXPIRED'));
  expect(await errorOf(service.call('DeleteCrmList', {}))).toMatchObject({
    code: 'CONFLICT',
    reason: 'BILLING_QUOTE_EXPIRED',
    requestId: 'r-1',
    status: 409,
  });
});

holds('7.1', 'an answer without a reason becomes an error whose reason is null', async () => {
  const { service } = await startClient(refusal(404, 'NOT_FOUND'));
  expect(await errorOf(service.call('GetSession', {}))).toMatchObject({ code: 'NOT_FOUND', reason: null });
});

holds('7.1', 'an error of the client takes its requestId from x-request-id if the body has none', async () => {
  const { service } = await startClient({ status: 500, headers: { 'x-request-id': 'r-2' }, body: 'no envelope' });
  expect(await errorOf(service.call('DeleteCrmList', {}))).toMatchObject({ requestId: 'r-2' });
});

holds('7.1', 'the client decides by the code of an error, also if the status is another', async () => {
  const { service, calls } = await startClient([refusal(418, 'UNAVAILABLE'), ok()]);
  await service.call('GetSession', {});
  expect(calls).toHaveLength(2);
});

holds('7.1', 'the client neither compares nor shows the message of an error, because it may change', async () => {
  const errors = ['Chave revogada', 'RATE_LIMITED: tente de novo'].map(async (message) => {
    const body = { error: { code: 'FORBIDDEN', message, requestId: 'r-1' } };
    const { service, calls } = await startClient({ status: 403, body });
    const { code, retryable, uncertain, message: words } = await errorOf(service.call('GetSession', {}));
    return { code, retryable, uncertain, words, calls: calls.length };
  });
  const [one, other] = await Promise.all(errors);
  expect(one).toEqual(other);
  expect(one?.words).not.toContain('revogada');
});

// 7.2

/** HTTP statuses of a category, and whether a call that only reads is made again after it. */
const CATEGORIES: [code: string, statuses: number[], repeated: boolean, reaction: string][] = [
  ['UNAUTHENTICATED', [401], false, 'is not repeated'],
  ['FORBIDDEN', [403], false, 'is not repeated'],
  ['NOT_FOUND', [404], false, 'is not repeated: check the identifier'],
  ['VALIDATION_FAILED', [400, 413], false, 'is not repeated: fix the request'],
  ['CONFLICT', [409], false, 'is not repeated: the caller reads the state again'],
  ['PAYMENT_REQUIRED', [402, 428], false, 'is not repeated: the caller makes a quote or pays'],
  ['RATE_LIMITED', [429], true, 'is repeated with back-off'],
  ['UNAVAILABLE', [503, 504], true, 'is repeated with back-off'],
  ['INTERNAL', [500], true, 'is repeated later'],
];
for (const [code, statuses, repeated, reaction] of CATEGORIES)
  for (const status of statuses) {
    holds('7.2', `a read that gets ${status} ${code} ${reaction}`, async () => {
      const { service, calls, waits } = await startClient([refusal(status, code), refusal(status, code), ok()]);
      const outcome = await service.call('GetSession', {}).catch((error: unknown) => error);
      expect(calls).toHaveLength(repeated ? 3 : 1);
      if (repeated) expect(waits[1]).toBeGreaterThan((waits[0] ?? 0) / 2);
      else expect(outcome).toMatchObject({ code, status, retryable: false, uncertain: false });
    });
    holds('7.2', `the client reads ${status} without an error envelope, as from a proxy, as ${code}`, async () => {
      const { service, calls } = await startClient([html(status), ok()]);
      if (repeated) await service.call('GetSession', {});
      else expect(await errorOf(service.call('GetSession', {}))).toMatchObject({ code, status });
      expect(calls).toHaveLength(repeated ? 2 : 1);
    });
  }

holds('7.2', 'after 429 an operation that changes something was not done, and the caller may repeat it', async () => {
  const { service, calls } = await startClient(refusal(429, 'RATE_LIMITED', 'RATE_LIMITED'));
  expect(await errorOf(service.call('DeleteCrmList', {}))).toMatchObject({ uncertain: false, retryable: true });
  expect(calls).toHaveLength(1);
});

holds('7.2', 'an error INTERNAL has the requestId to report', async () => {
  const { service } = await startClient(refusal(500, 'INTERNAL'));
  expect(await errorOf(service.call('DeleteCrmList', {}))).toMatchObject({ code: 'INTERNAL', requestId: 'r-1' });
});

// 7.3

const UNCERTAIN: [status: number, reason: string][] = [
  [503, 'OUTCOME_UNCERTAIN'],
  [504, 'RPC_DEADLINE_EXCEEDED'],
];
for (const [status, reason] of UNCERTAIN)
  holds('7.3', `a send that gets ${status} ${reason} is uncertain, and is not repeated`, async () => {
    const { service, calls } = await startClient(refusal(status, 'UNAVAILABLE', reason));
    const sending = service.send({ body: 'hi' }, { ...QUOTE, idempotent: true });
    expect(await errorOf(sending)).toMatchObject({ reason, uncertain: true, retryable: false });
    expect(calls).toHaveLength(1);
  });

for (const status of [503, 504])
  holds('7.3', `a paid operation that failed with ${status} is not retried automatically`, async () => {
    const { service, calls } = await startClient(refusal(status, 'UNAVAILABLE'));
    const paid = service.call('ResumeCampaign', {}, { ...QUOTE, idempotent: true });
    expect(await errorOf(paid)).toMatchObject({ uncertain: true, retryable: false });
    expect(calls).toHaveLength(1);
  });

holds('7.3', 'a send whose answer is lost is uncertain, and is not repeated', async () => {
  const { service, calls } = await startClient(cut);
  expect(await errorOf(service.send({}, QUOTE))).toMatchObject({ uncertain: true, retryable: false });
  expect(calls).toHaveLength(1);
});

/** The simulator, and a client of it that has sent one message whose answer was lost. */
async function sendUncertain() {
  const simulator = createSimulatedService({ seed: 1 });
  const scopes = ['events:read', 'product:inbox', 'messages:send'];
  const { secret: apiKey } = simulator.keys.create({ name: 'contract', scopes, validDays: null });
  const baseUrl = await simulator.listen();
  onTestFinished(() => simulator.close());
  const service = createService({ baseUrl, apiKey, paid: true });
  const { quoteId } = await service.quote('SendMessage', { body: 'hi' });
  simulator.chaos.next('504');
  const error = await errorOf(service.send({ body: 'hi' }, { quoteId }));
  return { simulator, service, quoteId, error };
}

holds('7.3', 'after an uncertain send, ListMessages and the event MessageSent show that it was made', async () => {
  const { simulator, service, error } = await sendUncertain();
  expect(error).toMatchObject({ uncertain: true });
  expect(await Array.fromAsync(service.items('ListMessages', {}))).toMatchObject([{ body: 'hi' }]);
  expect(simulator.history.all().map(({ type }) => type)).toEqual(['MessageSent']);
});

holds('7.3', 'a second send with the same quote is refused, and a new quote sends again', async () => {
  const { simulator, service, quoteId } = await sendUncertain();
  expect(await errorOf(service.send({ body: 'hi' }, { quoteId }))).toMatchObject({
    code: 'CONFLICT',
    uncertain: false,
  });
  const again = await service.quote('SendMessage', { body: 'hi' });
  await service.send({ body: 'hi' }, { quoteId: again.quoteId });
  expect(simulator.history.all()).toHaveLength(2);
});

// 7.4

holds('7.4', 'the client sends no body above 12 MiB: the error PAYLOAD_TOO_LARGE names media_asset_id', async () => {
  const { service, calls } = await startClient(ok());
  const error = await errorOf(service.call('UploadMedia', { file: 'x'.repeat(12 * MIB) }));
  expect(error).toMatchObject({ code: 'VALIDATION_FAILED', reason: 'PAYLOAD_TOO_LARGE', uncertain: false });
  expect(error.message).toContain('media_asset_id');
  expect(calls).toEqual([]);
});

/** The first call changes something and is never repeated. The second only reads. */
for (const [reason, status] of REASONS) {
  const [code = '', , repeated] = CATEGORIES.find(([, statuses]) => statuses.includes(status)) ?? [];
  const reaction = repeated ? 'repeats a read' : 'repeats no call';
  holds('7.4', `after ${reason} (${status} ${code}) the client ${reaction}`, async () => {
    const refused = refusal(status, code, reason);
    const { service, calls } = await startClient([refused, refused, ok()]);
    const error = await errorOf(service.call('DeleteCrmList', {}));
    expect(error).toMatchObject({ reason, status, code, uncertain: status >= 500, retryable: status === 429 });
    await service.call('GetSession', {}).catch(() => {});
    expect(calls).toHaveLength(repeated ? 3 : 2);
  });
}

// 8

/** Makes `most` calls, which must all be sent, and one more, which must wait for the next minute. */
async function proveLimit(most: number, call: (service: Service) => Promise<unknown>): Promise<void> {
  const { service, calls, waits, clock } = await startClient({ body: 'event: end\ndata: {}\n\n' });
  const began = clock.time;
  for (let i = 0; i < most; i++) await call(service).catch(() => {});
  expect([calls.length, waits]).toEqual([most, []]);
  expect(await errorOf(call(service))).toMatchObject({ code: 'RATE_LIMITED', status: 0 });
  expect([calls.length, clock.time]).toEqual([most, began]);
}

holds('8', 'the client makes at most 120 operations and sends a minute, with reconciliation’s calls', async () => {
  const { url, calls } = await startService(ok());
  const config = loadConfig({ ...ENV, API_BASE_URL: url, PAID_OPERATIONS: 'allow' });
  const service = clientOf(config);
  for (let i = 0; i < 200; i++) {
    const calling = i % 2 === 0 ? service.call('DeleteCrmList', {}) : service.send({}, QUOTE);
    const error = await calling.then(
      () => undefined,
      (thrown: ServiceError) => thrown.code,
    );
    if (error !== undefined) break;
  }
  expect(calls.length + config.RECONCILE_CALLS_PER_MINUTE).toBe(120);
});

holds('8', 'the client makes at most 60 calls of POST /billing/quotes a minute', () => proveLimit(60, ROUTES.quote));
holds('8', 'the client makes at most 60 calls of GET /media/{id} a minute', () => proveLimit(60, ROUTES.media));
holds('8', 'the client makes at most 10 calls of POST /sessions/resume a minute', () => proveLimit(10, ROUTES.resume));

holds('8', 'the client sends at most 12 MiB to /rpc, /messages/send and /billing/quotes', async () => {
  const { service, calls } = await startClient(ok(QUOTE));
  const large = { file: 'x'.repeat(12 * MIB) };
  const fits = { file: 'x'.repeat(12 * MIB - 200) };
  for (const call of [
    () => service.call('UploadMedia', large),
    () => service.send(large, QUOTE),
    () => service.quote('SendMessage', large),
  ])
    expect(await errorOf(call())).toMatchObject({ reason: 'PAYLOAD_TOO_LARGE', status: 0 });
  expect(calls).toEqual([]);
  await service.call('UploadMedia', fits);
  expect(calls).toHaveLength(1);
});

holds('8', 'the client sends at most 4 KiB to /sessions/resume', async () => {
  const { service, calls } = await startClient(sse(['end', {}]));
  expect(await errorOf(Array.fromAsync(service.resume('x'.repeat(4_096))))).toMatchObject({
    reason: 'PAYLOAD_TOO_LARGE',
  });
  expect(calls).toEqual([]);
});

holds('8', 'the client reads at most 64 MiB of a media download', async () => {
  const sized = (bytes: number) => async (response: ServerResponse) => {
    for (let sent = 0; sent < bytes && !response.destroyed; sent += MIB)
      await new Promise((done) => response.write(Buffer.alloc(Math.min(MIB, bytes - sent)), done));
    response.end();
  };
  const { service } = await startClient([sized(64 * MIB), sized(65 * MIB)]);
  const read = async (): Promise<number> => {
    let bytes = 0;
    for await (const chunk of (await service.media('a')).body) bytes += chunk.length;
    return bytes;
  };
  expect(await read()).toBe(64 * MIB);
  expect(await errorOf(read())).toMatchObject({ code: 'unreadable' });
});

holds(
  '8',
  'after a 429 without Retry-After the client waits 1, 2, 4, 8 … s up to 60 s, with random variation',
  async () => {
    const { service, waits } = await startClient(refusal(429, 'RATE_LIMITED', 'RATE_LIMITED'));
    await errorOf(service.call('GetSession', {}, { withinMs: 900_000 }));
    expect(waits.length).toBeGreaterThan(10);
    for (const [i, ms] of waits.entries()) {
      const most = Math.min(60_000, 1_000 * 2 ** i);
      expect(ms).toBeGreaterThanOrEqual(most / 2);
      expect(ms).toBeLessThanOrEqual(most);
    }
    expect(new Set(waits.slice(6)).size, 'random').toBeGreaterThan(1);
  },
);

holds('8', 'after a 429 the client makes fewer calls: half as many a minute', async () => {
  const { url, calls } = await startService(refusal(429, 'RATE_LIMITED', 'RATE_LIMITED'), ok());
  const config = loadConfig({ ...ENV, API_BASE_URL: url });
  const service = clientOf(config);
  for (let i = 0; i < 120; i++) await service.call('DeleteCrmList', {}, { withinMs: 1 }).catch(() => {});
  expect(calls.length).toBeGreaterThan(1);
  expect(calls.length).toBeLessThanOrEqual((120 - config.RECONCILE_CALLS_PER_MINUTE) / 2);
});

// 9

holds('9', 'the client calls every route below the base address', async () => {
  for (const call of Object.values(ROUTES)) {
    const { service, calls } = await startClient({ body: 'event: end\ndata: {}\n\n' });
    await call(service).catch(() => {});
    expect(calls.map(({ path }) => path)).toEqual([expect.stringMatching(/^\/v1\/[a-z]/)]);
  }
});

holds('9', 'API_BASE_URL may end in /v1, also with a slash behind it', () => {
  for (const API_BASE_URL of ['https://api.example/v1', 'https://api.example/some/where/v1/'])
    expect(loadConfig({ ...ENV, API_BASE_URL })).toMatchObject({ API_BASE_URL });
});

holds('9', 'an API_BASE_URL that does not end in /v1 is an error at the start', () => {
  for (const API_BASE_URL of ['https://api.example', 'https://api.example/v2', 'https://api.example/v1/rpc'])
    expect(() => loadConfig({ ...ENV, API_BASE_URL })).toThrow(ConfigError);
});
