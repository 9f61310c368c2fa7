// A service over HTTP with scripted answers, and the client as handlers get it. The client's waits take no real time:
// they advance its clock.
import { once } from 'node:events';
import { createServer, type IncomingHttpHeaders, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { expect, onTestFinished } from 'vitest';
import { ServiceError } from '../../src/service/errors.ts';
import { createPace } from '../../src/service/pace.ts';
import { createService } from '../../src/service/service.ts';
import { createClock } from '../store-file.ts';

export const API_KEY = 'svc_test_of_the_scripted_service';

export interface Call {
  method: string | undefined;
  path: string | undefined;
  headers: IncomingHttpHeaders;
  body: { request?: Record<string, unknown>; billing?: unknown; deadlineMs?: unknown };
}

interface Told {
  status?: number;
  headers?: Record<string, string>;
  /** An object is sent as JSON. */
  body: object | string;
}
/** A function writes the answer itself. */
export type Answer = Told | ((response: ServerResponse) => unknown);

export const ok = (body: object = {}): Answer => ({ body });
export const cut: Answer = (response) => response.destroy();
/** An answer without the error envelope, as of a proxy. */
export const html = (status: number): Answer => ({ status, body: '<html>no</html>' });
export type Message = [event: string, data: object, id?: string];
export const textOf = (messages: Message[]): string =>
  messages
    .map(([event, data, id]) => `${id ? `id: ${id}\n` : ''}event: ${event}\ndata: ${JSON.stringify(data)}\n\n`)
    .join('');
const SSE = { 'content-type': 'text/event-stream' };
/** An event stream that closes after these messages. */
export const sse = (...messages: Message[]): Answer => ({ headers: SSE, body: textOf(messages) });
/** An event stream that stays open after these messages. */
export const stay =
  (...messages: Message[]): Answer =>
  (response) =>
    response.writeHead(200, SSE).write(`:\n\n${textOf(messages)}`);

export function errorBody(code: string, reason?: string): object {
  return { error: { code, message: 'texto que pode mudar', requestId: 'r-1', ...(reason && { reason }) } };
}

/** An error as in contract 7.1. */
export function refusal(status: number, code: string, reason?: string): Answer {
  return { status, headers: { 'x-request-id': 'r-1' }, body: errorBody(code, reason) };
}

/** Gives these answers in turn, then always the last. */
export async function startService(...answers: Answer[]): Promise<{ url: string; calls: Call[] }> {
  const calls: Call[] = [];
  const server = createServer((request, response) => {
    void request.toArray().then((chunks: Buffer[]) => {
      const { method, url: path, headers } = request;
      const text = Buffer.concat(chunks).toString();
      const answer = answers[Math.min(calls.length, answers.length - 1)] ?? ok();
      calls.push({ method, path, headers, body: JSON.parse(text || '{}') as Call['body'] });
      if (typeof answer === 'function') return answer(response);
      const { status = 200, headers: own, body } = answer;
      return response.writeHead(status, own).end(typeof body === 'string' ? body : JSON.stringify(body));
    });
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(() => {
    server.close();
    server.closeAllConnections();
  });
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`, calls };
}

/** The client, with `callsPerMinute` for its operations. `waits`: its pauses in milliseconds. */
export async function startClient(answers: Answer | Answer[], { paid = true, callsPerMinute = 120 } = {}) {
  const { url, calls } = await startService(...[answers].flat());
  const clock = createClock();
  const waits: number[] = [];
  const pause = (ms: number): Promise<void> => {
    waits.push(ms);
    clock.time += ms;
    return Promise.resolve();
  };
  const odd: { operation: string; field: string }[] = [];
  const service = createService({
    baseUrl: url,
    apiKey: API_KEY,
    paid,
    pace: createPace({ callsPerMinute, clock, pause }),
    onOdd: (one) => void odd.push(one),
  });
  return { service, calls, clock, waits, odd, url };
}

/** The error of a call. The test fails if the call succeeds. */
export async function errorOf(calling: Promise<unknown>): Promise<ServiceError> {
  const error = await calling.then(
    () => undefined,
    (thrown: unknown) => thrown,
  );
  expect(error).toBeInstanceOf(ServiceError);
  return error as ServiceError;
}
