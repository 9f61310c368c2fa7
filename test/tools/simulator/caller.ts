// A caller of the simulator's API over HTTP, with a key and a simulated clock.
import { onTestFinished } from 'vitest';
import type { KeyAttributes } from '../../../src/tools/simulator/keys.ts';
import { createSimulatedService } from '../../../src/tools/simulator/service.ts';

export interface Answered {
  status: number;
  headers: Headers;
  text: string;
  /** Empty if the answer is no JSON. */
  body: Record<string, unknown>;
}

interface Asking {
  headers?: Record<string, string>;
  body?: string;
}

export async function setUp(attributes: Partial<KeyAttributes> = {}) {
  const clock = { at: Date.UTC(2026, 0, 1), now: () => clock.at, monotonic: () => clock.at };
  const service = createSimulatedService({ seed: 1, clock });
  const { history, api, chaos, keys } = service;
  const all = { name: 'tests', scopes: ['events:read'], validDays: null };
  const { key, secret } = keys.create({ ...all, ...attributes });
  const base = await service.listen();
  onTestFinished(() => service.close());

  async function ask(method: string, path: string, more: Asking = {}): Promise<Answered> {
    const headers = { authorization: `Bearer ${secret}`, 'content-type': 'application/json', ...more.headers };
    const response = await fetch(base.replace(/\/v1$/, path), { method, ...more, headers });
    const text = await response.text();
    const isJson = response.headers.get('content-type') === 'application/json';
    const body = isJson ? (JSON.parse(text) as Answered['body']) : {};
    return { status: response.status, headers: response.headers, text, body };
  }
  const post = (operation: string, body: string, headers: Record<string, string> = {}) =>
    ask('POST', `/v1/rpc/${operation}`, { headers, body });
  const call = (operation: string, request: object, more: object = {}) =>
    post(operation, JSON.stringify({ request, ...more }));
  const replay = (request: object, more: object = {}) => call('ReplayEvents', request, more);
  const quote = async (operation: string, request: object) => {
    const body = JSON.stringify({ operation, request });
    return String((await ask('POST', '/v1/billing/quotes', { body })).body['quoteId']);
  };
  const send = (request: object, quoteId: string) =>
    ask('POST', '/v1/messages/send', { body: JSON.stringify({ request, billing: { quoteId } }) });
  return { clock, service, history, api, chaos, keys, key, secret, base, ask, post, call, replay, quote, send };
}

/** A refusal, without the fields that differ from call to call. */
export function refusal({ status, body }: Answered) {
  const { code, reason } = body['error'] as { code: string; reason?: string };
  return [status, code, ...(reason === undefined ? [] : [reason])];
}
