// The client of the service that handlers and the kit call (contract 4): operations, their lists, quotes and sends, media,
// reconnecting a number. What costs money is refused unless it is allowed, and never repeated.
import { createParser } from 'eventsource-parser';
import { errorOf, parseJson, ServiceError, unreadable } from './errors.ts';
import { bytesOf, createExchange, readBytes, readText, type Ask, type Exchange, type Fetch } from './exchange.ts';
import { operationOf, type ItemOf, type OperationName, type Plain, type ResponseOf } from './operations.ts';
import { once, type Pace, type Pacing } from './pace.ts';
import type { SessionProgress } from './shapes.ts';

/** Every method throws ServiceError. */
export interface Service {
  /**
   * POST /rpc/<operation> (4.1). Resolves to the answer as it came: any field may be missing. List…, Get… and ReplayEvents are
   * repeated where that helps; others only where you say `idempotent`, what is paid never.
   */
  call<const Name extends OperationName>(
    operation: Name,
    request: Plain,
    options?: CallOptions,
  ): Promise<ResponseOf<Name>>;
  /** The pages of a list (4.5), of 200 items unless the request says otherwise; begins at `cursor` or `pagination.page`. */
  pages<const Name extends OperationName>(
    operation: Name,
    request: Plain,
    options?: CallOptions,
  ): AsyncGenerator<ResponseOf<Name>, void, void>;
  /** The items of all those pages. Where the contract does not name their field, it is the answer's only array. */
  items<const Name extends OperationName>(
    operation: Name,
    request: Plain,
    options?: CallOptions,
  ): AsyncGenerator<ItemOf<Name>, void, void>;
  /**
   * A price for an operation with exactly this request. The contract shows neither body nor answer of POST
   * /billing/quotes (4.1, 4.3): we send `{ operation, request }`, and take `quoteId`, `quote_id` or `id`, also of a `quote`
   * in the answer.
   */
  quote(operation: OperationName, request: Plain, options?: WaitOptions): Promise<{ quoteId: string; answer: Plain }>;
  /**
   * POST /messages/send: costs money. The contract shows neither the fields of a message nor of the answer (4.3): we send
   * the envelope of 4.1. An error that is `uncertain` may have sent it (7.3): look with ListMessages before you send again.
   */
  send(message: Plain, options: CallOptions & { quoteId: string }): Promise<Plain>;
  /** GET /media/{id}: up to 64 MiB and 5 minutes. Reading `body` throws ServiceError, too; cancel what you leave unread. */
  media(id: string, options?: WaitOptions): Promise<Media>;
  /** POST /sessions/resume: reconnects a paired number, and tells how it goes until it ends (2.14); at most 5 minutes. */
  resume(sessionId: string, options?: WaitOptions): AsyncGenerator<SessionProgress, void, void>;
}

export interface WaitOptions {
  /** Ends the call, and waiting for its turn. Give it `ctx.signal`. */
  signal?: AbortSignal;
  /** Milliseconds for waiting, calling and repeating together. Default: 24 000, or `deadlineMs`, if that is more. */
  withinMs?: number;
}

export interface CallOptions extends WaitOptions {
  /** Milliseconds, 1 to 30000 (4.1): how long the service may work on it. Default: what `withinMs` leaves of 30000. */
  deadlineMs?: number;
  /** Paid operations: the quote, made for the same operation and the same request. */
  quoteId?: string;
  /** Doing it twice is as good as once: it may be repeated. What is paid is not. */
  idempotent?: boolean;
  /** Reads the answer, so many bytes at the most, instead of JSON.parse. Undefined: it is no JSON object. */
  reader?: { mostBytes: number; read: (text: Buffer) => Plain | undefined };
}

export interface Media {
  body: ReadableStream<Uint8Array>;
  /** The Content-Type. */
  mime: string | null;
  /** How many there are, where the service says so beforehand. */
  bytes: number | null;
}

export interface ServiceOptions {
  baseUrl: string;
  apiKey: string;
  /** May spend money. */
  paid: boolean;
  /** Default: the network. */
  fetch?: Fetch;
  /** Default: calls are made once, and at once. */
  pace?: Pace;
  /** An answer did not fit its shape, and was handed over all the same; told once for each field. */
  onOdd?: (odd: { operation: string; field: string }) => void;
}

/** Ends, slack included, before a handler's default timeoutMs does. */
const WITHIN_MS = 24_000;
const DEADLINE_MS = 30_000;
/** What the network may add to the operation's own deadline. */
const SLACK_MS = 5_000;
const MINUTES_5_MS = 300_000;
const MOST_PER_PAGE = 200;

export function createService({ baseUrl, apiKey, fetch, ...rest }: ServiceOptions): Service {
  return serviceOver(createExchange({ baseUrl, apiKey, fetch }), rest);
}

/** For a kit without an API key: every method says what to set. */
export const noService: Service = serviceOver(
  ({ what }) =>
    Promise.reject(
      new ServiceError({ code: 'NO_API_KEY', message: `${what} needs the service: set API_BASE_URL and API_KEY` }),
    ),
  { paid: true },
);

function serviceOver(exchange: Exchange, options: Pick<ServiceOptions, 'paid' | 'pace' | 'onOdd'>): Service {
  const { paid, pace = once, onOdd } = options;
  const told = new Set<string>();

  /** Posts the envelope of 4.1, within what is left of the time. */
  function post(
    what: string,
    path: string,
    limit: Pacing['limit'],
    body: Plain,
    more: CallOptions & { safe: boolean },
  ): Promise<Plain> {
    const { deadlineMs = DEADLINE_MS, quoteId, signal, safe, reader } = more;
    const withinMs = more.withinMs ?? (pace === once ? deadlineMs : Math.max(WITHIN_MS, more.deadlineMs ?? 0));
    return pace({ what, limit, safe, withinMs, signal }, (leftMs) => {
      const ms = Math.max(1, Math.min(deadlineMs, Math.floor(leftMs)));
      const own = { ...body, ...(limit === 'rpc' && { deadlineMs: ms }), ...(quoteId && { billing: { quoteId } }) };
      const ask: Ask = { what, path, body: own, limitMs: ms + SLACK_MS, safe, signal };
      return exchange(ask, (response) => readObject(what, response, reader));
    });
  }

  function refuseUnpaid(what: string): void {
    if (paid) return;
    const message = `${what} costs money: set PAID_OPERATIONS=allow`;
    throw new ServiceError({ code: 'PAID_OPERATIONS_REFUSED', message });
  }

  function compare(operation: string, path: PropertyKey[] | undefined): void {
    const field = path?.filter((step) => typeof step === 'string').join('.');
    if (field === undefined || told.has(`${operation} ${field}`)) return;
    told.add(`${operation} ${field}`);
    onOdd?.({ operation, field });
  }

  async function call(operation: string, request: Plain, more: CallOptions = {}): Promise<Plain> {
    const known = operationOf(operation);
    const costs = known.paid === true || more.quoteId !== undefined;
    if (costs) refuseUnpaid(operation);
    const safe = !costs && (more.idempotent ?? /^(List|Get)|^ReplayEvents$/.test(operation));
    const path = `/rpc/${encodeURIComponent(operation)}`;
    const answer = await post(operation, path, 'rpc', { request }, { ...more, safe });
    if (onOdd) compare(operation, known.response?.safeParse(answer).error?.issues[0]?.path);
    return answer;
  }

  async function* pages(operation: string, request: Plain, more?: CallOptions): AsyncGenerator<Plain, void, void> {
    const turn = operationOf(operation).pages?.by === 'page' ? nextByPage : nextByCursor;
    const seen = new Set<unknown>();
    for (let next: Next | undefined = turn(request, undefined); next;) {
      // A list that goes round would be read for ever; one that ends early would be taken for whole.
      if (seen.has(next.at))
        throw new ServiceError({ code: 'unreadable', message: `${operation}: its pages go round` });
      seen.add(next.at);
      const page = await call(operation, next.request, more);
      yield page;
      next = turn(next.request, page);
    }
  }

  async function* items(operation: string, request: Plain, more?: CallOptions): AsyncGenerator<Plain, void, void> {
    for await (const page of pages(operation, request, more)) yield* itemsOf(operation, page);
  }

  async function quote(operation: string, request: Plain, more: WaitOptions = {}) {
    const what = 'POST /billing/quotes';
    // Asking for a price twice costs nothing.
    const answer = await post(what, '/billing/quotes', 'quotes', { operation, request }, { ...more, safe: true });
    const within = (answer['quote'] ?? {}) as Plain;
    const quoteId = [answer, within].flatMap(({ quoteId: a, quote_id: b, id }) => [a, b, id]).find(isName);
    if (quoteId) return { quoteId, answer };
    throw new ServiceError({ code: 'unreadable', status: 200, message: `${what}: no quote id in the answer` });
  }

  async function send(message: Plain, more: CallOptions & { quoteId: string }): Promise<Plain> {
    const what = 'POST /messages/send';
    refuseUnpaid(what);
    return post(what, '/messages/send', 'rpc', { request: message }, { ...more, safe: false });
  }

  async function media(id: string, { signal, withinMs = WITHIN_MS }: WaitOptions = {}): Promise<Media> {
    const what = 'GET /media';
    if (/^\.{0,2}$/.test(id)) throw new ServiceError({ code: 'VALIDATION_FAILED', message: `${what}: it has no id` });
    const ask: Ask = { what, path: `/media/${encodeURIComponent(id)}`, limitMs: MINUTES_5_MS, safe: true, signal };
    return pace({ what, limit: 'media', safe: true, withinMs, signal }, () =>
      exchange(ask, (response) => {
        const bytes = response.headers.get('content-length');
        const body = streamOf(bytesOf(response, what, signal), response);
        return { body, mime: response.headers.get('content-type'), bytes: bytes === null ? null : Number(bytes) };
      }),
    );
  }

  async function* resume(sessionId: string, { signal, withinMs = WITHIN_MS }: WaitOptions = {}) {
    const what = 'POST /sessions/resume';
    const body = { request: { session_id: sessionId } };
    const limits = { mostBytes: 4 * 1024, limitMs: MINUTES_5_MS + SLACK_MS };
    const ask: Ask = { what, path: '/sessions/resume', body, ...limits, safe: false, signal };
    const response = await pace({ what, limit: 'sessions', safe: false, withinMs, signal }, () =>
      exchange(ask, (answer) => answer),
    );
    const messages: { event?: string | undefined; data: string }[] = [];
    const parser = createParser({ onEvent: (message) => messages.push(message) });
    const utf8 = new TextDecoder();
    for await (const chunk of bytesOf(response, what, signal)) {
      parser.feed(utf8.decode(chunk, { stream: true }));
      for (const { event = 'message', data } of messages.splice(0)) {
        if (event === 'end') return;
        if (event === 'error') throw errorOf(what, response, data);
        if (event === 'message') yield objectOf(what, response, data) as SessionProgress;
      }
    }
    throw unreadable(response, `${what}: the stream was cut off before its end`);
  }

  return { call, pages, items, quote, send, media, resume } as Service;
}

/** The same client, whose every call ends with this signal as well. */
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

interface Next {
  /** Where the page begins. */
  at: unknown;
  request: Plain;
}

/** Contract 4.5, cursor mode: an empty next_cursor means the end. */
function nextByCursor(request: Plain, page: Plain | undefined): Next | undefined {
  if (!page) return { at: request['cursor'] ?? '', request: { limit: MOST_PER_PAGE, ...request } };
  const at = page['next_cursor'] ?? '';
  // Taken for the end, what is no text would be a silent loss.
  if (typeof at !== 'string')
    throw new ServiceError({ code: 'unreadable', status: 200, message: 'next_cursor is not text' });
  return isName(at) ? { at, request: { ...request, cursor: at } } : undefined;
}

/** Contract 4.5, page mode, and 2.7. */
function nextByPage(request: Plain, page: Plain | undefined): Next | undefined {
  const asked = (request['pagination'] ?? {}) as { page?: number };
  const { has_next_page: more, page: shown, total_pages: of } = (page?.['page'] ?? {}) as Plain;
  const last = more === undefined ? !(Number(of) > Number(shown)) : more !== true;
  if (page && last) return undefined;
  // The page that was shown counts: a service that takes no notice of what was asked for shows the same one again.
  const at = page ? (typeof shown === 'number' ? shown : (asked.page ?? 1)) + 1 : (asked.page ?? 1);
  return { at, request: { ...request, pagination: { page_size: MOST_PER_PAGE, ...asked, page: at } } };
}

/** Also lets go of the connection where nothing was read of it. */
function streamOf(bytes: AsyncGenerator<Uint8Array>, response: Response): ReadableStream<Uint8Array> {
  let begun = false;
  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        begun = true;
        const { done, value } = await bytes.next();
        if (done) controller.close();
        else controller.enqueue(value);
      },
      async cancel() {
        await (begun ? bytes.return(undefined) : response.body?.cancel());
      },
    },
    { highWaterMark: 0 },
  );
}

function itemsOf(operation: string, page: Plain): Plain[] {
  const field = operationOf(operation).pages?.items;
  const [list = [], ...others] = field ? [page[field] ?? []] : Object.values(page).filter(Array.isArray);
  if (Array.isArray(list) && others.length === 0) return list as Plain[];
  const message = `${operation}: it is not clear where its items are: name their field in src/service/operations.ts`;
  throw new ServiceError({ code: 'unreadable', status: 200, message });
}

async function readObject(what: string, response: Response, reader: CallOptions['reader']): Promise<Plain> {
  if (!reader) return objectOf(what, response, await readText(response, what));
  const bytes = await readBytes(response, what, reader.mostBytes);
  return reader.read(bytes) ?? refuse(what, response, bytes.length === 0);
}

function objectOf(what: string, response: Response, text: string): Plain {
  const value = parseJson(text);
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value as Plain;
  return refuse(what, response, text === '');
}

function refuse(what: string, response: Response, empty: boolean): never {
  const got = empty ? 'nothing' : (response.headers.get('content-type')?.slice(0, 50) ?? 'no content-type');
  throw unreadable(response, `${what} was answered with something other than a JSON object (${got})`);
}

function isName(value: unknown): value is string {
  return typeof value === 'string' && value !== '';
}
