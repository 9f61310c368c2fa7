// Named faults of the API: refusals, broken transport, and false pages of ReplayEvents. A receiver must survive all of
// them. A fault replaces or changes the correct answer. False pages affect only ReplayEvents.
import { Refusal } from './refusal.ts';

export interface Answer {
  status: number;
  headers?: Record<string, string>;
  /** An object is sent as JSON. */
  body: object | string;
  /**
   * How the body is sent. `cut`: half of it, then the connection is reset. `drip`: byte by byte. `flood`, `gzip`: 300
   * MB of blanks instead, plain or compressed. Undefined: whole.
   */
  manner?: 'cut' | 'drip' | 'flood' | 'gzip';
}

interface Item {
  cursor: string;
  json_payload: string;
}
/** The answer of ReplayEvents (contract 4.2). */
interface Page {
  events: Item[];
  next_cursor: string;
  has_more: boolean;
  reset_required: boolean;
}

export interface Fault {
  /** `after` is the cursor in the request. */
  (truth: Answer, after: string | null): Answer | Refusal;
  /** True: the operation is not carried out. */
  undone?: boolean;
}
export type FaultName = keyof typeof FAULTS;

const PAST_LIMIT = 1_001;

export const FAULTS = {
  '429': refuse(429, 'RATE_LIMITED'),
  '500': refuse(500),
  '503': refuse(503),
  '504': refuse(504, 'RPC_DEADLINE_EXCEEDED'),
  // An uncertain outcome (contract 7.3), after the operation was carried out or not. The plain 504 was carried out.
  'uncertain-sent': refuse(503, 'OUTCOME_UNCERTAIN'),
  'uncertain-unsent': refuse(503, 'OUTCOME_UNCERTAIN', true),
  'deadline-unsent': refuse(504, 'RPC_DEADLINE_EXCEEDED', true),
  'cursor-invalid': refuse(400, 'EVENT_CURSOR_INVALID'),
  'not-found': refuse(404),
  'too-large': refuse(413, 'PAYLOAD_TOO_LARGE'),
  redirect: () => ({ status: 302, headers: { location: '/elsewhere' }, body: '' }),
  html: () => html(200),
  // Answers of a proxy, without the error envelope.
  'proxy-500': () => html(500),
  'proxy-502': () => html(502),
  'proxy-503': () => ({ status: 503, headers: { 'content-type': 'text/plain' }, body: '' }),
  empty: () => ({ status: 200, body: '' }),
  array: () => ({ status: 200, body: [] }),
  half: (truth) => ({ ...truth, body: textOf(truth).slice(0, textOf(truth).length / 2) }),
  'page-types': lie((page) => ({ ...page, events: {}, has_more: 'no' })),
  cut: (truth) => ({ ...truth, manner: 'cut' }),
  drip: (truth) => ({ ...truth, manner: 'drip' }),
  flood: () => ({ status: 200, body: '', manner: 'flood' }),
  gzip: () => ({ status: 200, body: '', manner: 'gzip' }),
  'page-stuck': lie((page, after) => ({ ...page, next_cursor: after ?? '', has_more: true })),
  'page-back': lie((page, after) => ({ ...page, next_cursor: moved(after ?? firstOf(page), -1n) })),
  'page-ahead': lie((page, after) => ({ ...page, next_cursor: moved(lastOf(page) ?? after, 1_000n), has_more: true })),
  'page-empty': lie((page, after) => ({ ...page, events: [], next_cursor: after ?? '', has_more: true })),
  'page-end': lie((page, after) => ({ ...page, next_cursor: moved(lastOf(page) ?? after, 1_000n), has_more: false })),
  'page-short': lie((page) => (page.events.length < 2 ? page : shortened(page))),
  'items-reversed': items((events) => events.toReversed()),
  'items-repeated': items((events) => events.flatMap((item) => [item, item])),
  'items-old': items((events, after) =>
    after === null ? events : [...events.slice(0, 1).map((item) => ({ ...item, cursor: after })), ...events],
  ),
  'items-many': items((events) => Array.from({ length: PAST_LIMIT }, (_, i) => events[i % events.length])),
  'items-no-cursor': items(([first, ...rest]) => [{ json_payload: first?.json_payload }, ...rest]),
  'payload-not-json': payload(() => 'not JSON'),
  'payload-no-key': payload(() => '{}'),
  'payload-two-keys': payload((text) => JSON.stringify({ ...(JSON.parse(text) as object), Another: {} })),
} satisfies Record<string, Fault>;

/** A refusal of the request (4xx) is always undone. */
export function refuse(status: number, reason?: string, undone = status < 500): Fault {
  return Object.assign(() => new Refusal(status, reason), { undone });
}

function html(status: number): Answer {
  return { status, headers: { 'content-type': 'text/html' }, body: `<!doctype html><title>${status}</title>` };
}

function textOf({ body }: Answer): string {
  return typeof body === 'string' ? body : JSON.stringify(body);
}

function lie(bend: (page: Page, after: string | null) => object): Fault {
  return (truth, after) => {
    const isPage = truth.status === 200 && typeof truth.body === 'object' && 'has_more' in truth.body;
    return isPage ? { ...truth, body: bend(truth.body as Page, after) } : truth;
  };
}

function items(bend: (events: Item[], after: string | null) => unknown[]): Fault {
  return lie((page, after) => (page.events.length === 0 ? page : { ...page, events: bend(page.events, after) }));
}

/** Changes the payload of the first item of a page. */
function payload(bend: (text: string) => string): Fault {
  return items(([first, ...rest]) => [{ ...first, json_payload: bend(first?.json_payload ?? '{}') }, ...rest]);
}

/** Less than was asked for, as when the service filters a page after the limit. */
function shortened(page: Page): Page {
  const [first] = page.events;
  return { ...page, events: page.events.slice(0, 1), next_cursor: first?.cursor ?? '', has_more: true };
}

const firstOf = ({ events }: Page): string | null => events[0]?.cursor ?? null;
const lastOf = ({ events }: Page): string | null => events.at(-1)?.cursor ?? null;

function moved(cursor: string | null, by: bigint): string {
  return cursor === null ? '' : String(BigInt(cursor) + by);
}
