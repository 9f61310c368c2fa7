// One call of ReplayEvents (contract 4.2), read strictly: a page that does not fit the contract is refused as a whole, and an
// item that does not is quarantined alone.
import { z } from 'zod';
import { describe, orUndefined } from '../base/errors.ts';
import { compareCursors, isBehind, parseCursor, type Cursor } from '../wire/cursor.ts';
import { readItem, type Reading } from '../wire/event.ts';

export const LIMIT = 1_000;
const DEADLINE_MS = 30_000;
/** Bytes of an answer. A thousand events of the longest kind would not fit; then fewer are asked for. */
const MOST = 64 * 2 ** 20;

/** `final`: a person must act. `cursor`: the service does not accept it. `large`: ask for fewer. Others may pass. */
export class ReplayFault extends Error {
  readonly kind: 'final' | 'cursor' | 'large' | 'passing';
  constructor(kind: ReplayFault['kind'], message: string) {
    super(message);
    this.kind = kind;
  }
}

export interface Page {
  /** In cursor order, each above the cursor that was asked after. */
  readings: Reading[];
  cursors: Cursor[];
  /** Where the service says to go on. */
  next: Cursor | null;
  hasMore: boolean;
  reset: boolean;
}

export interface Access {
  baseUrl: string;
  apiKey: string;
}

const shape = z.object({
  events: z.array(z.unknown()),
  next_cursor: z.string().nullish(),
  has_more: z.boolean(),
  reset_required: z.boolean().default(false),
});
const errorShape = z.object({ error: z.object({ code: z.string(), reason: z.string().optional() }) });

/** Throws ReplayFault. `after` null: from the beginning of what the service has. */
export async function readReplay(
  { baseUrl, apiKey }: Access,
  after: Cursor | null,
  limit: number,
  signal: AbortSignal,
): Promise<Page> {
  const request = { ...(after !== null && { after_cursor: after }), limit };
  let response: Response;
  let text: string;
  try {
    response = await fetch(`${baseUrl.replace(/\/$/, '')}/rpc/ReplayEvents`, {
      method: 'POST',
      redirect: 'error',
      headers: { authorization: `Bearer ${apiKey}`, 'content-type': 'application/json', 'accept-encoding': 'identity' },
      body: JSON.stringify({ request, deadlineMs: DEADLINE_MS }),
      signal: AbortSignal.any([signal, AbortSignal.timeout(DEADLINE_MS)]),
    });
    text = await readText(response);
  } catch (error) {
    if (error instanceof ReplayFault) throw error;
    const { message } = describe((error as Error).cause ?? error);
    throw new ReplayFault('passing', `no whole answer from API_BASE_URL: ${message}`);
  }
  if (!response.ok) throw faultOf(response.status, text);
  return pageOf(text, after, limit);
}

/** An answer may be endless. */
async function readText(response: Response): Promise<string> {
  const parts: Uint8Array[] = [];
  let bytes = 0;
  for await (const part of response.body ?? []) {
    parts.push(part);
    bytes += part.length;
    if (bytes > MOST) throw new ReplayFault('large', `the answer of ReplayEvents is above ${MOST} bytes`);
  }
  return Buffer.concat(parts).toString();
}

/** By category and reason (contract 7.2, 7.4). */
function faultOf(status: number, text: string): ReplayFault {
  const { code = '', reason = '' } =
    errorShape.safeParse(orUndefined(() => JSON.parse(text) as unknown)).data?.error ?? {};
  const words =
    `ReplayEvents: ${status} ${/^\w{1,60}$/.test(reason) ? reason : /^\w{1,60}$/.test(code) ? code : ''}`.trim();
  if (reason === 'EVENT_CURSOR_INVALID') return new ReplayFault('cursor', words);
  const isFinal = status === 401 || status === 403;
  return new ReplayFault(
    isFinal ? 'final' : 'passing',
    isFinal ? `${words}: see API_KEY, which needs events:read` : words,
  );
}

function pageOf(text: string, after: Cursor | null, limit: number): Page {
  const parsed = shape.safeParse(orUndefined(() => JSON.parse(text) as unknown));
  if (!parsed.success)
    throw new ReplayFault(
      'passing',
      'the answer of ReplayEvents does not fit the contract, and was refused as a whole',
    );
  const { events, next_cursor, has_more, reset_required } = parsed.data;
  const items = new Map<Cursor, unknown>();
  const aside: Reading[] = [];
  for (const item of events) {
    const cursor = parseCursor((item as { cursor?: unknown } | null)?.cursor);
    if (cursor === undefined) aside.push(unreadable(item, null, 'the replay item has no readable cursor'));
    else if (after === null || isBehind(after, cursor)) items.set(cursor, item);
  }
  // Never more than was asked for: what comes after is read again.
  const cursors = [...items.keys()].toSorted(compareCursors).slice(0, limit);
  const readings = cursors.map((cursor) => readOne(items.get(cursor), cursor));
  const hasMore = has_more || items.size > limit;
  return {
    readings: [...readings, ...aside.slice(0, 10)],
    cursors,
    next: parseCursor(next_cursor) ?? null,
    hasMore,
    reset: reset_required,
  };
}

function readOne(item: unknown, cursor: Cursor): Reading {
  const { json_payload: payload } = item as { json_payload?: unknown };
  if (typeof payload === 'string') return readItem('replay', cursor, payload);
  return unreadable(item, cursor, 'the replay item has no json_payload');
}

function unreadable(item: unknown, cursor: Cursor | null, reason: string): Reading {
  return { unreadable: { origin: 'replay', cursor, body: Buffer.from(JSON.stringify(item) ?? ''), reason } };
}
