// Parses bytes into an event, or into the reason why they are unreadable. Every origin is parsed alike, so that an
// event does not depend on how it arrived (contract 2.13, 6.1, 6.3).
import { LATEST_MS } from '../base/clock.ts';
import { orUndefined } from '../base/errors.ts';
import { typeOf } from './event-map.ts';
import { parseCursor, type Cursor } from './cursor.ts';
import { isObject, parseJson, parseJsonText, sourceOfNumber, type Json, type JsonObject } from './json.ts';

export type Origin = 'webhook' | 'replay' | 'stream' | 'kit';

interface Received {
  origin: Origin;
  cursor: Cursor | null;
  /** The bytes as received: a delivery's whole body, or the text of `{ "<EventType>": { … } }`. */
  body: Uint8Array;
  /**
   * True: `trigger` or `doctor` sent the event, as its signed body says. It has no cursor, and no place in the
   * service's history.
   */
  sentByKit?: true;
}

export interface Incoming extends Received {
  id: string | null;
  type: string;
  sessionId: string | null;
  /** When the event happened, Unix milliseconds. */
  createdAt: number | null;
  /** When the event happened, as the envelope of a delivery says. Only webhooks have an envelope. */
  toldAt?: number | null;
  /** The oddities of an event that is readable nevertheless. */
  flags: Flag[];
  /** For a delivery: the position of the secret that signed it, from 1, and the age of the signature on receipt. */
  signed?: { secret: number; skewSeconds: number };
  /** True: a live stream brought the event, so its time of receipt tells its age. */
  live?: boolean;
}

export interface Unreadable extends Received {
  reason: string;
}

export type Flag = 'dup_keys' | 'no_cursor' | 'cursor_number' | 'extra_keys' | 'session_shape';

export type Reading = { event: Incoming } | { unreadable: Unreadable };

/**
 * Marks deliveries of the kit itself: the value of `sent_by` at the top level of their body. The signature covers it,
 * and no field of the service has this name.
 */
export const SENT_BY_KIT = 'kit';
/** How the ids of these deliveries begin. No id of the service does. */
export const IDS_OF_KIT = /^(?:doctor|trigger)_/;

/** The shape of an id or of a type. */
const NAME = /^[\x21-\x7e]{1,200}$/;
const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

const OURS = 'its type begins with kit., as only the events of the kit itself do';

/** TextDecoder drops the byte order mark, which JSON.parse refuses. */
const utf8 = new TextDecoder();
const BOM = '\uFEFF';

/** Maximum number of characters of a time that is written as text. */
const LONGEST_TIME = 64;

/** Reads a webhook body whose signature is valid. Only the body is signed, so headers are ignored. */
export function readDelivery(body: Uint8Array): Reading {
  const received: Received = { origin: 'webhook', cursor: null, body };
  const parsed = parseJson(body);
  if (!parsed.ok) return unreadable(received, parsed.reason);
  const envelope = parsed.value;
  if (!isObject(envelope)) return unreadable(received, 'not an object');
  const flags: Flag[] = parsed.duplicateKeys ? ['dup_keys'] : [];
  if (envelope['sent_by'] === SENT_BY_KIT) received.sentByKit = true;

  const cursor = received.sentByKit ? null : readCursor(envelope['cursor'], body, flags);
  if (cursor === undefined) return unreadable(received, 'cursor is not a decimal 64-bit integer');
  received.cursor = cursor;
  const { id, type } = envelope;
  if (!isName(id)) return unreadable(received, 'id is not 1 to 200 visible ASCII characters');
  if (!isName(type)) return unreadable(received, 'type is not 1 to 200 visible ASCII characters');
  if (isOurs(type) && !received.sentByKit) return unreadable(received, OURS);
  const data = dataOf(envelope['data'], type, flags);
  if (!data) return unreadable(received, 'data does not hold its type');
  if (cursor === null && type !== 'webhook.ping' && !received.sentByKit) flags.push('no_cursor');

  const facts = factsOf(type, data);
  const sessionId = facts.sessionId ?? readSession(envelope['session_id']);
  if (sessionId !== null && !UUID.test(sessionId)) flags.push('session_shape');
  const toldAt = readTime(parseDate(envelope['created_at']));
  return { event: { ...received, id, type, sessionId, createdAt: facts.createdAt ?? toldAt, toldAt, flags } };
}

/** Reads one event of ReplayEvents or of the stream: its cursor, and text or bytes of `{ "<EventType>": { … } }`. */
export function readItem(origin: 'replay' | 'stream', cursor: Cursor, payload: string | Buffer): Reading {
  const received = { origin, cursor, body: Buffer.from(payload) };
  // A lone surrogate has no bytes in UTF-8, so `body` holds another character in its place.
  if (typeof payload === 'string' && !payload.isWellFormed()) return unreadable(received, 'not UTF-8');
  const parsed = typeof payload === 'string' ? parseJsonText(payload) : parseJson(payload);
  if (!parsed.ok) return unreadable(received, parsed.reason);
  const [type, ...more] = isObject(parsed.value) ? Object.keys(parsed.value) : [];
  if (!isName(type) || more.length > 0) return unreadable(received, 'payload does not hold one type');
  if (isOurs(type)) return unreadable(received, OURS);
  const flags: Flag[] = parsed.duplicateKeys ? ['dup_keys'] : [];
  const data = dataOf(parsed.value, type, flags);
  if (!data) return unreadable(received, 'data does not hold its type');
  return { event: { ...received, id: null, type, ...factsOf(type, data), flags } };
}

/** Handlers of kit.gap trust its data, so no delivery and no replay may bring such an event. */
function isOurs(type: string): boolean {
  return type.startsWith('kit.');
}

function unreadable(received: Received, reason: string): Reading {
  return { unreadable: { ...received, reason } };
}

function isName(value: unknown): value is string {
  return typeof value === 'string' && NAME.test(value);
}

/** The event's own fields from a stored body. Throws only if the bytes have changed since they were first read. */
export function dataOfBody(origin: Origin, type: string, body: Uint8Array): JsonObject {
  return dataOfText(origin, type, utf8.decode(body));
}

/** Like `dataOfBody`, for a body that is already text. A byte order mark is left out. */
export function dataOfText(origin: Origin, type: string, text: string): JsonObject {
  const parsed = JSON.parse(text.startsWith(BOM) ? text.slice(1) : text) as JsonObject;
  const data = dataOf(origin === 'webhook' ? parsed['data'] : parsed, type, []);
  if (!data) throw new Error(`the stored body of a ${type} event holds no ${type}`);
  return data;
}

/** The lane that an event belongs to by default: its conversation if the type has one, else its session. */
export function conversationOf(type: string, sessionId: string | null, data: JsonObject): string {
  const conversation = orUndefined(() => typeOf(type)?.conversation?.(data));
  if (typeof conversation !== 'string') return sessionId ?? '';
  return laneNamed(`${sessionId ?? ''}/${conversation}`);
}

/** Without what a store changes, lone surrogates and NULs; short, because a sender can make an address of any length. */
export const laneNamed = (name: string): string => name.slice(0, 500).toWellFormed().replaceAll('\0', '\uFFFD');

/** Session and time, as src/events.ts reads them from the data. If a function there throws, the value is null. */
export function factsOf(type: string, data: JsonObject): { sessionId: string | null; createdAt: number | null } {
  const known = typeOf(type);
  return {
    sessionId: readSession(orUndefined(() => (known?.session ? known.session(data) : data['session_id']))),
    createdAt: readTime(orUndefined(() => (known?.time ? known.time(data) : data['timestamp_unix_ms']))),
  };
}

/** The fields under the type's own name. The data of a ping have no such wrapper (contract 6.3). */
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
  return typeof value === 'string' && /^.{1,200}$/s.test(value) && laneNamed(value) === value ? value : null;
}

function readTime(value: unknown): number | null {
  const ms = typeof value === 'string' && /^\d{1,16}$/.test(value) ? Number(value) : value;
  return typeof ms === 'number' && Number.isSafeInteger(ms) && Math.abs(ms) <= LATEST_MS ? ms : null;
}

function parseDate(value: unknown): number | null {
  return typeof value === 'string' && value.length <= LONGEST_TIME ? Date.parse(value) : null;
}
