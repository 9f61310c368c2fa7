// A service of the test's own over real HTTP, and a client whose waits advance the test's clock.
import type { IncomingHttpHeaders, ServerResponse } from 'node:http';
import { expect } from 'vitest';
import { ServiceError } from '../../src/service/errors.ts';
import { createService } from '../../src/service/service.ts';
import { serve } from '../serve.ts';

export const API_KEY = 'svc_live_0123456789abcdef';

type Got = { url: string | undefined; headers: IncomingHttpHeaders; body: Record<string, unknown> };
type Answer = (response: ServerResponse, number: number) => unknown;

/** The service gives this answer to every request. */
export async function setUp(
  answer: Answer,
  { paid = true, callsPerMinute = 100, apiKey = API_KEY, onWait = () => {} } = {},
) {
  const got: Got[] = [];
  const { url, server } = await serve((request, response) => {
    void request.toArray().then((chunks: Buffer[]) => {
      const body = JSON.parse(Buffer.concat(chunks).toString() || '{}') as Got['body'];
      got.push({ url: request.url, headers: request.headers, body });
      return answer(response, got.length);
    });
  });
  const waits: number[] = [];
  const clock = { at: 0, now: () => clock.at, monotonic: () => clock.at };
  function pause(ms: number): Promise<void> {
    waits.push(ms);
    clock.at += ms;
    onWait();
    return Promise.resolve();
  }
  const ends = new AbortController();
  const service = createService({ baseUrl: `${url}v1/`, apiKey, paid, callsPerMinute, clock, pause })(ends.signal);
  return { service, ends, got, waits, clock, server };
}

export function text(body: string, status = 200, headers = {}): Answer {
  return (response) => response.writeHead(status, headers).end(body);
}
export const json = (body: object, status = 200): Answer => text(JSON.stringify(body), status);
/** These statuses in turn, then always an empty object. 0 cuts the connection. */
export function statuses(...all: number[]): Answer {
  return (response, number) => {
    const status = all[number - 1] ?? 200;
    return status === 0 ? response.destroy() : response.writeHead(status).end(status === 200 ? '{}' : '<html>');
  };
}

/** The error of a call. The test fails if the call succeeds. */
export async function errorOf(calling: Promise<unknown>): Promise<ServiceError> {
  const error = await calling.catch((thrown: unknown) => thrown);
  expect(error).toBeInstanceOf(ServiceError);
  return error as ServiceError;
}
