// The client for the service, which handlers and the kit call (contract 4): operations, their lists, quotes, sends,
// media and reconnecting a number. Paid calls are refused unless PAID_OPERATIONS=allow, and never retried.
import type { Clock } from '../base/clock.ts';
import { bytesOf, messagesOf, objectOf, readText, streamOf } from './answers.ts';
import { errorOf, ServiceError, unreadable } from './errors.ts';
import { createExchange, type Access, type Ask, type Exchange } from './exchange.ts';
import { itemsOf, pagesOf } from './lists.ts';
import { operationOf, type ItemOf, type OperationName, type ResponseOf } from './operations.ts';
import { createPace, type Pace, type Pacing, type Pause } from './pace.ts';
import type { Plain, SessionProgress } from './shapes.ts';

type List<Item> = AsyncGenerator<Item, void, void>;

/** Every method throws ServiceError. */
export interface Service {
  /**
   * POST /rpc/<operation> (contract 4.1). Resolves to the unchanged answer: any field may be missing. List…, Get… and
   * ReplayEvents are retried if that helps. Other operations are retried only with `idempotent`, and paid operations
   * never.
   */
  call<const Op extends OperationName>(operation: Op, request: Plain, options?: CallOptions): Promise<ResponseOf<Op>>;
  /**
   * The pages of a list (contract 4.5), by default 200 items each. Begins at `cursor` or `pagination.page`. An operation
   * without pages is called once, with this request alone.
   */
  pages<const Op extends OperationName>(operation: Op, request: Plain, options?: CallOptions): List<ResponseOf<Op>>;
  /** The items of all pages. If the contract does not name their field, the only array in the answer is used. */
  items<const Op extends OperationName>(operation: Op, request: Plain, options?: CallOptions): List<ItemOf<Op>>;
  /**
   * The price of an operation with exactly this request. The contract (4.1, 4.3) does not show the body and the answer
   * of POST /billing/quotes, so the kit guesses both. The body is `{ operation, request }`. The id is `quoteId`,
   * `quote_id` or `id`, in the answer or in its `quote`.
   */
  quote(operation: OperationName, request: Plain, options?: WaitOptions): Promise<{ quoteId: string; answer: Plain }>;
  /**
   * POST /messages/send: costs money. Contract 4.3 does not show the fields of a message or of the answer, so the
   * envelope of contract 4.1 is used. If an error is `uncertain`, the message may have been sent (contract 7.3): look
   * with ListMessages before you send it again.
   */
  send(message: Plain, options: CallOptions & { quoteId: string }): Promise<Plain>;
  /**
   * GET /media/{id}: up to 64 MiB and 5 minutes. Reading `body` may throw ServiceError. Cancel `body` if you do not
   * read it.
   */
  media(id: string, options?: WaitOptions): Promise<Media>;
  /** POST /sessions/resume: reconnects a paired number and yields its progress, for at most 5 minutes. */
  resume(sessionId: string, options?: WaitOptions): List<SessionProgress>;
}

export interface WaitOptions {
  /** Aborts the call, also while it waits for the rate limit. Pass `ctx.signal`. */
  signal?: AbortSignal;
  /** Milliseconds for waiting, calling and retrying together. Default: 24 000, or `deadlineMs` if it is higher. */
  withinMs?: number;
}

export interface CallOptions extends WaitOptions {
  /** The service's own time limit, 1 to 30000 ms (contract 4.1). Default: the rest of `withinMs`, at most 30000. */
  deadlineMs?: number;
  /** For paid operations: the quote for the same operation and the same request. */
  quoteId?: string;
  /** True if the operation may be done twice without harm. It may then be retried, unless it is paid. */
  idempotent?: boolean;
}

export interface Media {
  body: ReadableStream<Uint8Array>;
  mime: string | null;
  /** The size in bytes. Null: the service does not send it. */
  bytes: number | null;
}

export interface ServiceOptions extends Access {
  /** Paid operations are allowed. */
  paid: boolean;
  /** The most calls in any 60 seconds. After an answer 429 they become fewer. */
  callsPerMinute: number;
  clock: Clock;
  /** Default: real time. Tests replace it. */
  pause?: Pause;
}

/** The default of `withinMs`. Together with SLACK_MS it is less than the default `timeoutMs` of a handler. */
const WITHIN_MS = 24_000;
/** The default of `deadlineMs`, and its maximum (contract 4.1). */
const DEADLINE_MS = 30_000;
/** The time that the network may add to the deadline of the operation. */
const SLACK_MS = 5_000;
const MINUTES_5_MS = 300_000;

class Client {
  readonly #exchange: Exchange;
  readonly #pace: Pace;
  readonly #paid: boolean;

  constructor(exchange: Exchange, pace: Pace, paid: boolean) {
    this.#exchange = exchange;
    this.#pace = pace;
    this.#paid = paid;
  }

  async call(operation: string, request: Plain, more: CallOptions = {}): Promise<Plain> {
    const costs = operationOf(operation).paid === true || more.quoteId !== undefined;
    if (costs) this.#refuseUnpaid(operation);
    const safe = !costs && (more.idempotent ?? /^(List|Get)|^ReplayEvents$/.test(operation));
    return this.#post(operation, `/rpc/${encodeURIComponent(operation)}`, 'rpc', { request }, { ...more, safe });
  }

  pages(operation: string, request: Plain, more?: CallOptions): List<Plain> {
    return pagesOf(operation, request, (next) => this.call(operation, next, more));
  }

  async *items(operation: string, request: Plain, more?: CallOptions): List<Plain> {
    for await (const page of this.pages(operation, request, more)) yield* itemsOf(operation, page);
  }

  async quote(operation: string, request: Plain, more: WaitOptions = {}): Promise<{ quoteId: string; answer: Plain }> {
    const what = 'POST /billing/quotes';
    // Safe: a second request for a price costs nothing.
    const answer = await this.#post(what, '/billing/quotes', 'quotes', { operation, request }, { ...more, safe: true });
    const within = (answer['quote'] ?? {}) as Plain;
    const ids = [answer, within].flatMap(({ quoteId, quote_id, id }) => [quoteId, quote_id, id]);
    const quoteId = ids.find((id) => typeof id === 'string' && id !== '');
    if (typeof quoteId === 'string') return { quoteId, answer };
    throw new ServiceError({ code: 'unreadable', status: 200, message: `${what}: no quote id in the answer` });
  }

  async send(message: Plain, more: CallOptions & { quoteId: string }): Promise<Plain> {
    const what = 'POST /messages/send';
    this.#refuseUnpaid(what);
    return this.#post(what, '/messages/send', 'rpc', { request: message }, { ...more, safe: false });
  }

  async media(id: string, { signal, withinMs = WITHIN_MS }: WaitOptions = {}): Promise<Media> {
    const what = 'GET /media';
    if (/^\.{0,2}$/.test(id)) throw new ServiceError({ code: 'VALIDATION_FAILED', message: `${what}: it has no id` });
    const ask: Ask = { what, path: `/media/${encodeURIComponent(id)}`, limitMs: MINUTES_5_MS, safe: true, signal };
    return this.#pace({ ...ask, limit: 'media', withinMs }, () =>
      this.#exchange(ask, (response) => {
        const bytes = response.headers.get('content-length');
        const body = streamOf(response, what, signal);
        return { body, mime: response.headers.get('content-type'), bytes: bytes === null ? null : Number(bytes) };
      }),
    );
  }

  async *resume(sessionId: string, { signal, withinMs = WITHIN_MS }: WaitOptions = {}): List<SessionProgress> {
    const what = 'POST /sessions/resume';
    const body = { request: { session_id: sessionId } };
    const limits = { mostBytes: 4 * 1_024, limitMs: MINUTES_5_MS + SLACK_MS };
    const ask: Ask = { what, path: '/sessions/resume', body, ...limits, safe: false, signal };
    const response = await this.#pace({ ...ask, limit: 'sessions', withinMs }, () => this.#exchange(ask, (it) => it));
    for await (const { event = 'message', data } of messagesOf(bytesOf(response, what, signal), what)) {
      if (event === 'end') return;
      if (event === 'error') throw errorOf(what, response, data);
      if (event === 'message') yield objectOf(response, what, data) as unknown as SessionProgress;
    }
    throw unreadable(response, `${what}: the stream was cut off before its end`);
  }

  /** Posts the envelope of contract 4.1, within the time that is left. */
  #post(
    what: string,
    path: string,
    limit: Pacing['limit'],
    body: Plain,
    more: CallOptions & { safe: boolean },
  ): Promise<Plain> {
    const { deadlineMs = DEADLINE_MS, quoteId, signal, safe } = more;
    const withinMs = more.withinMs ?? Math.max(WITHIN_MS, more.deadlineMs ?? 0);
    return this.#pace({ what, limit, safe, withinMs, signal }, (leftMs) => {
      const ms = Math.max(1, Math.floor(Math.min(deadlineMs, DEADLINE_MS, leftMs)));
      // Only operations have a deadline (contract 4.1, 4.3).
      const timed = path.startsWith('/rpc/') && { deadlineMs: ms };
      const own = { ...body, ...timed, ...(quoteId && { billing: { quoteId } }) };
      const ask: Ask = { what, path, body: own, limitMs: ms + SLACK_MS, safe, signal };
      return this.#exchange(ask, async (response) => objectOf(response, what, await readText(response, what)));
    });
  }

  #refuseUnpaid(what: string): void {
    if (this.#paid) return;
    const message = `${what} costs money: set PAID_OPERATIONS=allow`;
    throw new ServiceError({ code: 'PAID_OPERATIONS_REFUSED', message });
  }
}

export function createService({ paid, callsPerMinute, clock, pause, ...access }: ServiceOptions): Service {
  return new Client(createExchange(access), createPace(callsPerMinute, clock, pause), paid) as Service;
}

/** The client without an API key: every method throws an error that names the variables to set. */
export const noService = new Client(
  ({ what }) => {
    const message = `${what} needs the service: set API_BASE_URL and API_KEY`;
    return Promise.reject(new ServiceError({ code: 'NO_API_KEY', message }));
  },
  ({ withinMs }, attempt) => attempt(withinMs),
  true,
) as Service;

/** The same client, but the signal `ends` also aborts its calls. */
export function endingWith(service: Service, ends: AbortSignal): Service {
  const also = <Options extends WaitOptions>(options?: Options): Options =>
    ({ ...options, signal: options?.signal ? AbortSignal.any([ends, options.signal]) : ends }) as Options;
  const bound: Service = {
    call: (operation, request, options) => service.call(operation, request, also(options)),
    pages: (operation, request, options) => service.pages(operation, request, also(options)),
    items: (operation, request, options) => service.items(operation, request, also(options)),
    quote: (operation, request, options) => service.quote(operation, request, also(options)),
    send: (message, options) => service.send(message, also(options)),
    media: (id, options) => service.media(id, also(options)),
    resume: (sessionId, options) => service.resume(sessionId, also(options)),
  };
  return bound;
}
