// The client for the service, which handlers call (contract 4): operations, their lists, quotes, sends and media. Paid
// calls are refused unless PAID_OPERATIONS=allow, and never retried.
import type { Clock } from '../base/clock.ts';
import { ServiceError, unfit } from './errors.ts';
import { createExchange, readObject, type Access, type Ask, type Plain, type Read } from './exchange.ts';
import { createPace, type Pacing, type Pause } from './pace.ts';

type List = AsyncGenerator<Plain, void, void>;

/** A call that fails throws ServiceError. Answers come as the service gives them: fields may be missing. */
export interface Service {
  /** POST /rpc/<operation> (contract 4.1). Only List…, Get… and ReplayEvents are retried if that can help. */
  call(operation: string, request: Plain, options?: CallOptions): Promise<Plain>;
  /** The answers of a list (contract 4.5), page after page. An operation without pages is called once. */
  pages(operation: string, request: Plain, options?: CallOptions): List;
  /** The items of all pages. An answer may have only one array, which holds the items. */
  items(operation: string, request: Plain, options?: CallOptions): List;
  /**
   * The price of an operation with exactly this request. The contract shows neither the body of POST /billing/quotes
   * nor its answer: the kit sends `{ operation, request }`, and finds the id as `quoteId`, `quote_id` or `id`, in the
   * answer or in its `quote`.
   */
  quote(operation: string, request: Plain, options?: WaitOptions): Promise<{ quoteId: string; answer: Plain }>;
  /**
   * POST /messages/send, with the envelope of contract 4.1: costs money. If an error is `uncertain`, the message may
   * have been sent (contract 7.3): look with ListMessages before you send it again.
   */
  send(message: Plain, options: CallOptions & { quoteId: string }): Promise<Plain>;
  /**
   * GET /media/{id}: up to 64 MiB. Reading a larger body throws ServiceError. If the connection breaks, and after 5
   * minutes, reading throws the error of `fetch`. Cancel the body if you do not read it.
   */
  media(id: string, options?: WaitOptions): Promise<Response>;
}

export interface WaitOptions {
  /** Aborts the call, also while it waits. `ctx.signal` of the attempt always aborts it too. */
  signal?: AbortSignal;
  /** Milliseconds for waits, calls and retries. The last call may end 5 s later; media have 5 min. Default: 24 000. */
  withinMs?: number;
}

export interface CallOptions extends WaitOptions {
  /** For paid operations: the quote for the same operation and the same request. */
  quoteId?: string;
}

export interface ServiceOptions extends Access {
  /** Paid operations are allowed. */
  paid: boolean;
  /** The most calls in any 60 seconds. */
  callsPerMinute: number;
  clock: Clock;
  /** Default: real time. Tests replace it. */
  pause?: Pause;
}

/** The one operation that counts as paid even without a quote. Any other counts as paid if it has a quote. */
const PAID = 'ResumeCampaign';
const MOST_PER_PAGE = 200;
/** The default of `withinMs`. WITHIN_MS plus SLACK_MS is less than the default `timeoutMs` of a handler (30 s). */
const WITHIN_MS = 24_000;
/** The longest deadline of an operation (contract 4.1). */
const DEADLINE_MS = 30_000;
/** The time that the network may add to a deadline. */
const SLACK_MS = 5_000;
const MINUTES_5_MS = 300_000;

interface Call extends Pick<Ask, 'what' | 'path' | 'safe'>, Pick<Pacing, 'limit'> {
  costs?: boolean;
  body?: (deadlineMs: number) => object;
  /** Default: the deadline of the call plus SLACK_MS. */
  limitMs?: number;
}

type Make = <Result>(call: Call, options: WaitOptions, read: Read<Result>) => Promise<Result>;

class Client implements Service {
  readonly #make: Make;

  constructor(make: Make) {
    this.#make = make;
  }

  call(operation: string, request: Plain, { quoteId, ...options }: CallOptions = {}): Promise<Plain> {
    const costs = operation === PAID || quoteId !== undefined;
    const safe = !costs && /^(List|Get)|^ReplayEvents$/.test(operation);
    const path = `/rpc/${encodeURIComponent(operation)}`;
    const body = (deadlineMs: number): object => ({ request, deadlineMs, billing: quoteId && { quoteId } });
    return this.#make({ what: operation, path, limit: 'rpc', safe, costs, body }, options, readObject);
  }

  async *pages(operation: string, request: Plain, options?: CallOptions): List {
    const made = new Set<string>();
    for (let next: Plain | undefined = request; next;) {
      const key = JSON.stringify(next);
      // A list whose pages repeat never ends. Stopping without an error would make it look complete.
      if (made.has(key)) throw unfit(operation, 'its pages repeat');
      made.add(key);
      const page = await this.call(operation, next, options);
      yield page;
      next = nextOf(next, page);
    }
  }

  async *items(operation: string, request: Plain, options?: CallOptions): List {
    for await (const page of this.pages(operation, request, options)) {
      const [list = [], ...others] = Object.values(page).filter((value) => Array.isArray(value));
      if (others.length > 0) throw unfit(operation, 'its answer has several arrays: use ctx.service.pages');
      yield* list as Plain[];
    }
  }

  async quote(operation: string, request: Plain, options: WaitOptions = {}) {
    const what = 'POST /billing/quotes';
    // The request may be retried (`safe`), because a second request for a price costs nothing.
    const route = { what, path: '/billing/quotes', limit: 'quotes', safe: true } as const;
    const answer = await this.#make({ ...route, body: () => ({ operation, request }) }, options, readObject);
    const { quoteId, quote_id, id } = { ...answer, ...(answer['quote'] as Plain | undefined) };
    const found = [quoteId, quote_id, id].find((one) => typeof one === 'string' && one !== '');
    if (typeof found === 'string') return { quoteId: found, answer };
    throw unfit(what, 'no quote id in the answer');
  }

  send(request: Plain, { quoteId, ...options }: CallOptions & { quoteId: string }): Promise<Plain> {
    const route = { what: 'POST /messages/send', path: '/messages/send', limit: 'rpc', safe: false } as const;
    return this.#make({ ...route, costs: true, body: () => ({ request, billing: { quoteId } }) }, options, readObject);
  }

  media(id: string, options: WaitOptions = {}): Promise<Response> {
    const route = { what: 'GET /media', path: `/media/${encodeURIComponent(id)}`, limit: 'media', safe: true } as const;
    return this.#make({ ...route, limitMs: MINUTES_5_MS }, options, (answer) => answer);
  }
}

/** The request for the next page (contract 4.5). Undefined: this was the last. */
function nextOf(request: Plain, { next_cursor: cursor, page }: Plain): Plain | undefined {
  // If an answer has both a cursor and a page, the cursor counts. An empty cursor means the end.
  if (cursor !== undefined || request['cursor'] !== undefined)
    return cursor ? { limit: MOST_PER_PAGE, ...request, cursor } : undefined;
  const { page: shown, has_next_page: hasNext } = (page ?? {}) as Plain;
  // The next page follows the page in the answer. If the service ignores the number that was asked for, `pages` throws.
  const pagination = { ...(request['pagination'] as Plain | undefined), page: Number(shown) + 1 };
  return hasNext === true ? { ...request, pagination } : undefined;
}

/** Returns a function that makes the client of an attempt. The signal `ends` aborts the client's calls. */
export function createService(options: ServiceOptions): (ends: AbortSignal) => Service {
  const { paid, callsPerMinute, clock, pause, ...access } = options;
  const exchange = createExchange(access);
  const pace = createPace(callsPerMinute, clock, pause);
  return (ends) =>
    new Client(async ({ costs, limit, body, limitMs, ...ask }, { signal: own, withinMs = WITHIN_MS }, read) => {
      const refused = (code: string, words: string) => new ServiceError({ code, message: `${ask.what} ${words}` });
      if (!access.apiKey) throw refused('NO_API_KEY', 'needs the service: set API_BASE_URL and API_KEY');
      if (costs && !paid) throw refused('PAID_OPERATIONS_REFUSED', 'costs money: set PAID_OPERATIONS=allow');
      const signal = own ? AbortSignal.any([ends, own]) : ends;
      return pace({ ...ask, limit, withinMs, signal }, (leftMs) => {
        const ms = Math.max(1, Math.floor(Math.min(DEADLINE_MS, leftMs)));
        return exchange({ ...ask, body: body?.(ms), limitMs: limitMs ?? ms + SLACK_MS, signal }, read);
      });
    });
}
