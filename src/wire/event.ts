// From bytes to an event, or to the reason why they are none. The same for every origin, so that what is known of an
// event does not depend on the way it came (contract 2.13, 6.1, 6.3).
import { typeOf } from './event-types.ts';
import { parseCursor, type Cursor } from './cursor.ts';
import { isObject, parseJson, parseJsonText, sourceOfNumber, type Json, type JsonObject } from './json.ts';

export type Origin = 'webhook' | 'replay' | 'stream' | 'kit';

export interface Incoming {
  origin: Origin;
  id: string | null;
  cursor: Cursor | null;
  type: string;
  sessionId: string | null;
  /** When it happened, Unix milliseconds. */
  createdAt: number | null;
  /** The same by the envelope of a delivery, which only webhooks have. */
  toldAt?: number | null;
  /** As received: a delivery's whole body, else the text of `{ "<EventType>": { … } }`. */
  body: Uint8Array;
  /** What was odd about it, yet readable. */
  flags: Flag[];
  /** Of a delivery: the secret's position, from 1, and how old the signature was on receipt. */
  signed?: { secret: number; skewSeconds: number };
  /** Trigger or doctor sent it, as its signed body says: it has no place in the service's history, and no cursor. */
  sentByKit?: true;
  /** A live stream brought it: it is as old as its arrival. */
  live?: boolean;
}

export interface Unreadable {
  origin: Origin;
  cursor: Cursor | null;
  body: Uint8Array;
  reason: string;
  sentByKit?: true;
}

export type Flag = 'dup_keys' | 'no_cursor' | 'cursor_number' | 'extra_keys' | 'session_shape';

export type Reading = { event: Incoming } | { unreadable: Unreadable };

/** In `sent_by` at the top level of a body: the signature covers it, and no field of the service has this name. */
export const SENT_BY_KIT = 'kit';

const ID = /^[\x21-\x7e]{1,200}$/;
const TYPE = /^[\x21-\x7e]{1,200}$/;
const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

/** Without the mark at its beginning, which JSON.parse refuses. */
const utf8 = new TextDecoder();
const BOM = '\uFEFF';

/** Of a lane's name: an author can make an address as long as a body. */
const LONGEST_LANE = 500;
/** Of a written time. */
const LONGEST_TIME = 64;
/** The longest time that a Date can hold. */
const LATEST_MS = 8.64e15;

/** A webhook body whose signature was right. Only the body is signed, so nothing here looks at headers. */
export function readDelivery(body: Uint8Array): Reading {
  const ours: Pick<Incoming, 'sentByKit'> = {};
  const parsed = parseJson(body);
  if (!parsed.ok) return refuse(parsed.reason);
  const envelope = parsed.value;
  if (!isObject(envelope)) return refuse('not an object');
  const flags: Flag[] = parsed.duplicateKeys ? ['dup_keys'] : [];
  if (envelope['sent_by'] === SENT_BY_KIT) ours.sentByKit = true;

  const cursor = ours.sentByKit ? null : readCursor(envelope['cursor'], body, flags);
  if (cursor === undefined) return refuse('cursor is not a decimal 64-bit integer');
  const { id, type } = envelope;
  if (typeof id !== 'string' || !ID.test(id)) return refuse('id is not 1 to 200 visible ASCII characters', cursor);
  if (typeof type !== 'string' || !TYPE.test(type)) {
    return refuse('type is not 1 to 200 visible ASCII characters', cursor);
  }
  const data = dataOf(envelope['data'], type, flags);
  if (!data) return refuse('data does not hold its type', cursor);
  if (cursor === null && type !== 'webhook.ping' && !ours.sentByKit) flags.push('no_cursor');

  const facts = factsOf(type, data);
  const sessionId = facts.sessionId ?? readSession(envelope['session_id']);
  if (sessionId !== null && !UUID.test(sessionId)) flags.push('session_shape');
  const toldAt = readTime(parseDate(envelope['created_at']));
  const createdAt = facts.createdAt ?? toldAt;
  return { event: { origin: 'webhook', id, cursor, type, sessionId, createdAt, toldAt, body, flags, ...ours } };

  function refuse(reason: string, at: Cursor | null = null): Reading {
    return { unreadable: { origin: 'webhook', cursor: at, body, reason, ...ours } };
  }
}

/** One event of ReplayEvents or of the stream: its cursor, and the text of `{ "<EventType>": { … } }`. */
export function readItem(origin: 'replay' | 'stream', cursor: Cursor, payload: string): Reading {
  const body = Buffer.from(payload);
  const parsed = parseJsonText(payload);
  if (!parsed.ok) return refuse(parsed.reason);
  const [type, ...more] = isObject(parsed.value) ? Object.keys(parsed.value) : [];
  if (!type || more.length > 0 || !TYPE.test(type)) return refuse('payload does not hold one type');
  const flags: Flag[] = parsed.duplicateKeys ? ['dup_keys'] : [];
  const data = dataOf(parsed.value, type, flags);
  if (!data) return refuse('data does not hold its type');
  return { event: { origin, id: null, cursor, type, ...factsOf(type, data), body, flags } };

  function refuse(reason: string): Reading {
    return { unreadable: { origin, cursor, body, reason } };
  }
}

/** The event's own fields out of a stored body. Throws only where the bytes are no longer those that were read. */
export function dataOfBody(origin: Origin, type: string, body: Uint8Array): JsonObject {
  return dataOfText(origin, type, utf8.decode(body));
}

/** The same, where the bytes have become text already; a byte order mark is left out. */
export function dataOfText(origin: Origin, type: string, text: string): JsonObject {
  const parsed = JSON.parse(text.startsWith(BOM) ? text.slice(1) : text) as JsonObject;
  const data = dataOf(origin === 'webhook' ? parsed['data'] : parsed, type, []);
  if (!data) throw new Error(`the stored body of a ${type} event holds no ${type}`);
  return data;
}

/** The lane that an event belongs to by default: its conversation where the type knows one, else its session. */
export function conversationOf(type: string, sessionId: string | null, data: JsonObject): string {
  const conversation = attempt(() => typeOf(type)?.conversation?.(data));
  if (typeof conversation !== 'string') return sessionOf(sessionId);
  return `${sessionId ?? ''}/${conversation}`.slice(0, LONGEST_LANE);
}

export function sessionOf(sessionId: string | null): string {
  return sessionId ?? '';
}

/** Session and time, as src/events.ts reads them from the data, whatever way they came. */
export function factsOf(type: string, data: JsonObject): { sessionId: string | null; createdAt: number | null } {
  const known = typeOf(type);
  return {
    sessionId: readSession(attempt(() => (known?.session ? known.session(data) : data['session_id']))),
    createdAt: readTime(attempt(() => (known?.time ? known.time(data) : data['timestamp_unix_ms']))),
  };
}

/** events.ts is the user's: a slip in it must not cost a delivery. */
function attempt(read: () => unknown): unknown {
  try {
    return read();
  } catch {
    return null;
  }
}

/** The fields under the type's own name; a ping's lie bare (contract 6.3). */
function dataOf(data: Json | undefined, type: string, flags: Flag[]): JsonObject | undefined {
  if (!isObject(data)) return undefined;
  const fields = Object.hasOwn(data, type) ? data[type] : type === 'webhook.ping' ? data : undefined;
  if (!isObject(fields)) return undefined;
  if (fields !== data && Object.keys(data).length > 1) flags.push('extra_keys');
  return fields;
}

function readCursor(value: Json | undefined, body: Uint8Array, flags: Flag[]): Cursor | null | undefined {
  if (value === null || value === undefined) return null;
  if (typeof value !== 'number') return parseCursor(value);
  flags.push('cursor_number');
  return parseCursor(sourceOfNumber(body, 'cursor'));
}

function readSession(value: unknown): string | null {
  return typeof value === 'string' && value.length > 0 && value.length <= 200 && value.isWellFormed() ? value : null;
}

function readTime(value: unknown): number | null {
  const ms = typeof value === 'string' && /^\d{1,16}$/.test(value) ? Number(value) : value;
  return typeof ms === 'number' && Number.isSafeInteger(ms) && Math.abs(ms) <= LATEST_MS ? ms : null;
}

function parseDate(value: unknown): number | null {
  return typeof value === 'string' && value.length <= LONGEST_TIME ? Date.parse(value) : null;
}
