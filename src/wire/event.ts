// Turns bytes into an event, or into the reason why they are unreadable. All origins are read alike, so that an event
// does not depend on how it arrived (contract 2.13, 6.1, 6.3). The event's headers are unsigned, so they are not used.
import { LATEST_MS } from '../base/clock.ts';
import { orUndefined } from '../base/errors.ts';
import { parseCursor, type Cursor } from './cursor.ts';
import { typeOf } from './event-types.ts';
import { isObject, parseJson, parseJsonText, type Json, type JsonObject } from './json.ts';

export type Origin = 'webhook' | 'replay' | 'stream' | 'kit';

interface Received {
  origin: Origin;
  cursor: Cursor | null;
  /** The bytes as received: a delivery's whole body, or the text of `{ "<EventType>": { … } }`. */
  body: Buffer;
}

/** A readable event, not yet stored. */
export interface Arrival extends Received {
  id: string | null;
  type: string;
  session: string | null;
  /** When the event happened, Unix milliseconds. */
  createdAt: number | null;
}

export interface Unreadable extends Received {
  reason: string;
}

export type Reading = { event: Arrival } | { unreadable: Unreadable };

/** The shape of an event's id or type. */
const NAME = /^[\x21-\x7e]{1,200}$/;
/** Maximum number of characters of a time that is written as text. */
const LONGEST_TIME = 64;
const OURS = 'its type begins with kit., but only the kit makes such events';
const BOM = '\uFEFF';

/** Reads a delivery whose signature is valid. */
export function readDelivery(body: Buffer): Reading {
  const received: Received = { origin: 'webhook', cursor: null, body };
  const parsed = parseJson(body);
  if (!parsed.ok) return unreadable(received, parsed.reason);
  const envelope = parsed.value;
  if (!isObject(envelope)) return unreadable(received, 'not an object');
  const cursor = readCursor(envelope['cursor']);
  if (cursor === undefined) return unreadable(received, 'cursor is not a decimal 64-bit integer');
  received.cursor = cursor;
  const { id, type } = envelope;
  if (!isName(id)) return unreadable(received, 'id is not 1 to 200 visible ASCII characters');
  if (!isName(type)) return unreadable(received, 'type is not 1 to 200 visible ASCII characters');
  // Only the kit may make an event of the type kit.gap, because handlers of this type trust its data.
  if (type.startsWith('kit.')) return unreadable(received, OURS);
  const data = fieldsOf(envelope['data'], type);
  if (!data) return unreadable(received, 'data holds no object under the name of its type');
  const facts = factsOf(type, data);
  const session = facts.session ?? readSession(envelope['session_id']);
  const createdAt = facts.createdAt ?? readTime(parseDate(envelope['created_at']));
  return { event: { ...received, id, type, session, createdAt } };
}

/** Reads one event of ReplayEvents or of the stream. `payload` is the text of `{ "<EventType>": { … } }`. */
export function readItem(origin: 'replay' | 'stream', cursor: Cursor, payload: string): Reading {
  const received = { origin, cursor, body: Buffer.from(payload) };
  // A lone surrogate has no bytes in UTF-8, so `body` holds another character in its place.
  if (!payload.isWellFormed()) return unreadable(received, 'not UTF-8');
  const parsed = parseJsonText(payload);
  if (!parsed.ok) return unreadable(received, parsed.reason);
  const [type, ...more] = isObject(parsed.value) ? Object.keys(parsed.value) : [];
  if (!isName(type) || more.length > 0) return unreadable(received, 'payload is not an object with one type');
  if (type.startsWith('kit.')) return unreadable(received, OURS);
  const data = fieldsOf(parsed.value, type);
  if (!data) return unreadable(received, 'data holds no object under the name of its type');
  return { event: { ...received, id: null, type, ...factsOf(type, data) } };
}

function unreadable(received: Received, reason: string): Reading {
  return { unreadable: { ...received, reason } };
}

/** The event's own fields from a stored body. Throws only if the bytes have changed since they were first read. */
export function dataOf(origin: Origin, type: string, text: string): JsonObject {
  const parsed = JSON.parse(text.startsWith(BOM) ? text.slice(1) : text) as JsonObject;
  const data = fieldsOf(origin === 'webhook' ? parsed['data'] : parsed, type);
  if (!data) throw new Error(`the stored body of a ${type} event holds no ${type}`);
  return data;
}

/** Session and time in the data, as src/events.ts defines them. Null: missing, unusable, or its function threw. */
export function factsOf(type: string, data: JsonObject): { session: string | null; createdAt: number | null } {
  const known = typeOf(type);
  return {
    session: readSession(orUndefined(() => (known?.session ? known.session(data) : data['session_id']))),
    createdAt: readTime(orUndefined(() => (known?.time ? known.time(data) : data['timestamp_unix_ms']))),
  };
}

/** The fields are in `data` under the name of the type. Only a ping may have them in `data` itself (contract 6.3). */
function fieldsOf(data: Json | undefined, type: string): JsonObject | undefined {
  if (!isObject(data)) return undefined;
  const fields = Object.hasOwn(data, type) ? data[type] : type === 'webhook.ping' ? data : undefined;
  return isObject(fields) ? fields : undefined;
}

function isName(value: unknown): value is string {
  return typeof value === 'string' && NAME.test(value);
}

/** Null: there is no cursor. Undefined: the value is no cursor, or a JSON number that parsing has rounded. */
function readCursor(value: Json | undefined): Cursor | null | undefined {
  if (value === null || value === undefined) return null;
  return parseCursor(typeof value === 'number' && Number.isSafeInteger(value) ? String(value) : value);
}

/** Null unless it has 1 to 200 characters that every store can keep: no NUL and no lone surrogate. */
function readSession(value: unknown): string | null {
  return typeof value === 'string' && /^[^\0]{1,200}$/s.test(value) && value.isWellFormed() ? value : null;
}

function readTime(value: unknown): number | null {
  const ms = typeof value === 'string' && /^\d{1,16}$/.test(value) ? Number(value) : value;
  return typeof ms === 'number' && Number.isSafeInteger(ms) && Math.abs(ms) <= LATEST_MS ? ms : null;
}

function parseDate(value: unknown): number | null {
  return typeof value === 'string' && value.length <= LONGEST_TIME ? Date.parse(value) : null;
}
