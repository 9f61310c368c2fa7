// A scripted service: the handler uses its normal client, but answers come from the test, and each call is recorded.
import type { Fetch } from '../../service/exchange.ts';
import { ERRORS, Refusal } from '../simulator/refusal.ts';

/** `name`: the operation; for other routes `send`, `quote`, or the method and path. `quoteId`: the quote of a paid call. */
export type Call = { name: string; request: Record<string, unknown>; quoteId: string | null };
/** JSON, a response, a refusal made by `serviceError`, or the error of a broken connection. */
export type Answer = Record<string, unknown> | Response | Error;
/** Answers by the call's name. A function may choose the answer, or carry the call out and then return an error. */
export type Answers = Record<string, Answer | ((request: Call['request'], call: Call) => Answer | Promise<Answer>)>;

export type Recorder = { calls: Call[]; fetch: Fetch };

/** An answer that kills the process after the service has received the call. Works only in `deliver`. */
export const crash: Answer = Response.error();

/** The client throws it as ServiceError. A code that contract 7.2 lacks, like `unreachable`, stands for no answer. */
export function serviceError(code: string, reason = ''): Answer {
  const known = Object.entries(ERRORS).filter(([, [name]]) => name === code);
  const [status] = known.find(([, [, why]]) => why === reason) ?? known[0] ?? [];
  return status === undefined ? new TypeError('fetch failed') : new Refusal(Number(status), reason);
}

const NAMES: Record<string, string> = { 'POST /messages/send': 'send', 'POST /billing/quotes': 'quote' };

export function recorder(answers: Answers = {}): Recorder {
  const calls: Call[] = [];
  return {
    calls,
    async fetch(url, { method = 'GET', body = null }) {
      const route = `${method} ${new URL(url).pathname.replace(/^\/v1/, '')}`;
      const name = /^POST \/rpc\/(\w+)$/.exec(route)?.[1] ?? NAMES[route] ?? route;
      const sent = (typeof body === 'string' ? JSON.parse(body) : {}) as Record<string, never>;
      const call: Call = { name, request: sent['request'] ?? sent, quoteId: sent['billing']?.['quoteId'] ?? null };
      calls.push(call);
      const scripted = answers[name] ?? serviceError('NOT_FOUND', 'NO_ANSWER_IN_RECORDER');
      const answer = typeof scripted === 'function' ? await scripted(call.request, call) : scripted;
      if (answer instanceof Refusal) return new Response(answer.envelope('request-1'), { status: answer.status });
      if (answer instanceof Error) throw answer;
      return answer instanceof Response ? answer : Response.json(answer);
    },
  };
}
