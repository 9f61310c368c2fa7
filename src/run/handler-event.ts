// An event as handlers get it: plain JSON, frozen, with its data parsed by the schema in src/events.ts. It is parsed
// once for all handlers.
import { iso } from '../base/clock.ts';
import { describe } from '../base/errors.ts';
import type { KitEvent } from '../kit.ts';
import type { StoredEvent } from '../store/work.ts';
import { dataOfText, factsOf } from '../wire/event.ts';
import { typeOf } from '../wire/event-map.ts';
import type { JsonObject } from '../wire/json.ts';

/** Both are properties of the stored event, because thousands of WeakMap entries would make garbage collection slow. */
const READ = Symbol('as handlers see it');
const RAW = Symbol('its data as they came');

interface Read {
  event: KitEvent;
  mismatch: string | undefined;
}

interface Known extends StoredEvent {
  /** The data before src/events.ts parses them. Then `text` is empty, so that a waiting task keeps no second copy. */
  [RAW]?: JsonObject;
  [READ]?: Read;
}

/** Throws if the body was purged. */
export function toKitEvent(stored: StoredEvent): KitEvent {
  return read(stored).event;
}

/**
 * Describes where the data does not fit its type in src/events.ts. Undefined: it fits. Data that does not fit stays
 * unparsed.
 */
export function mismatchOf(stored: StoredEvent): string | undefined {
  return read(stored).mismatch;
}

/**
 * The event as replay shows it, even if a webhook brought it: without an id, and with session and time from `data`
 * alone.
 */
export function asReplayed(stored: StoredEvent): KitEvent {
  const { sessionId, createdAt } = factsOf(stored.type, rawOf(stored));
  return Object.freeze({ ...toKitEvent(stored), id: null, origin: 'replay', sessionId, createdAt: iso(createdAt) });
}

/** The data before src/events.ts parses it. Throws if the body was purged. */
export function rawOf(stored: Known): JsonObject {
  if (stored.text === null) throw new Error('its body was purged after PAYLOAD_RETENTION_DAYS');
  const data = (stored[RAW] ??= dataOfText(stored.origin, stored.type, stored.text));
  stored.text = '';
  return data;
}

function read(stored: Known): Read {
  return (stored[READ] ??= readOnce(stored));
}

function readOnce(stored: Known): Read {
  const { data, mismatch } = parse(stored.type, rawOf(stored));
  const event = Object.freeze({
    key: stored.key,
    id: stored.id,
    type: stored.type,
    cursor: stored.cursor,
    sessionId: stored.sessionId,
    createdAt: iso(stored.createdAt),
    receivedAt: iso(stored.receivedAt) ?? '',
    origin: stored.origin,
    data: freeze(data),
  });
  return { event, mismatch };
}

/** Schemas in src/events.ts are the user's code. If one throws, only this event counts as a mismatch. */
function parse(type: string, data: JsonObject): { data: Record<string, unknown>; mismatch: string | undefined } {
  const where = `data does not fit ${type} in src/events.ts: `;
  try {
    const parsed = typeOf(type)?.data.safeParse(data);
    if (!parsed) return { data, mismatch: undefined };
    if (parsed.success) return { data: keepProto(data, parsed.data as Record<string, unknown>), mismatch: undefined };
    const [issue] = parsed.error.issues;
    return { data, mismatch: `${where}${issue?.path.join('.')}: ${issue?.message}` };
  } catch (error) {
    return { data, mismatch: `${where}${describe(error).message}` };
  }
}

/** Restores a field named `__proto__`, which zod removes to protect prototypes. */
function keepProto(from: JsonObject, to: Record<string, unknown>): Record<string, unknown> {
  const field = Object.getOwnPropertyDescriptor(from, '__proto__');
  return field ? Object.defineProperty(to, '__proto__', field) : to;
}

function freeze<Value>(value: Value): Value {
  if (typeof value === 'object' && value !== null) {
    for (const inner of Object.values(value)) freeze(inner);
    Object.freeze(value);
  }
  return value;
}
