// Which tasks an event becomes: one for each handler that wants its type, in the lane that the handler names, held for
// as long as the handler's order asks.
import { iso } from '../base/clock.ts';
import { describe } from '../base/errors.ts';
import type { KitEvent } from '../kit.ts';
import { placeOf } from '../store/birth.ts';
import type { NewTask, StoredEvent, Unassigned } from '../store/work.ts';
import { compareCursors, type Cursor } from '../wire/cursor.ts';
import { conversationOf, dataOfText, factsOf, sessionOf } from '../wire/event.ts';
import { typeOf } from '../wire/event-types.ts';
import type { JsonObject } from '../wire/json.ts';
import type { Loaded } from './load.ts';

export interface AssignOptions {
  handlers: Map<number, Loaded>;
  windowMs: number;
  now: number;
  /** A `lane` function threw; the session's lane stood in. */
  onLaneFault: (handler: Loaded, error: unknown) => void;
  /** When an event was received, by the clock as it is set now. */
  received?: (at: number) => number;
  /** The event comes again for it; 0: it has just come. */
  rerun?: number;
  /** It is known to be no history. */
  decided?: boolean;
}

export function tasksOf(
  stored: StoredEvent,
  { watermark, birth }: Pick<Unassigned, 'watermark' | 'birth'>,
  options: AssignOptions,
): NewTask[] {
  const { handlers, windowMs, now, received = (at) => at, rerun = 0, decided = rerun > 0 } = options;
  // Erased before it came to that.
  if (stored.text === null) return [];
  const fresh = decided || placeOf(stored, birth) === 'new';
  const { cursor } = stored;
  const receivedAt = received(stored.receivedAt);
  const tasks: NewTask[] = [];
  for (const [id, handler] of handlers) {
    if (!wants(handler, stored.type) || (!fresh && !handler.history)) continue;
    const lane = laneOf(handler, stored, options.onLaneFault, rerun);
    tasks.push({
      event: stored.seq,
      handler: id,
      lane,
      cursor: stored.cursor,
      ...(handler.order === 'strict' && stored.cursor !== null && { strict: true }),
      ...(rerun > 0 && { rerun }),
      releaseAt: releaseAt({ cursor, receivedAt }, handler, watermark, windowMs, now),
    });
  }
  return tasks;
}

/** '*' means every event of the service; the kit's own are asked for by name. */
export function wants(handler: Loaded, type: string): boolean {
  return handler.on === '*' ? !type.startsWith('kit.') : handler.on.has(type);
}

/** Unix milliseconds; what replay has gone past has nothing to wait for. Strict: what its proof goes by. */
export function releaseAt(
  { cursor, receivedAt }: Pick<StoredEvent, 'cursor' | 'receivedAt'>,
  { order }: Pick<Loaded, 'order'>,
  watermark: Cursor | null,
  windowMs: number,
  now: number,
): number {
  // Later than now only where the clock was set back since.
  const arrivedAt = Math.min(receivedAt, now);
  if (order === 'strict' && cursor !== null) return arrivedAt;
  const proven = cursor === null || (watermark !== null && compareCursors(cursor, watermark) <= 0);
  return order === 'arrival' || proven ? now : arrivedAt + windowMs;
}

/** It waits for the watermark. */
export function isUnproven({ strict, cursor }: NewTask, { watermark }: Pick<Unassigned, 'watermark'>): boolean {
  return strict === true && cursor !== null && (watermark === null || compareCursors(cursor, watermark) > 0);
}

/** On the event itself: thousands of entries of a WeakMap would make each collection of garbage a long pause. */
const READ = Symbol('as handlers see it');
const RAW = Symbol('its data as they came');

interface Read {
  event: KitEvent;
  mismatch: string | undefined;
}

/** The data as they came; a waiting task keeps no second copy of them. */
interface Known extends StoredEvent {
  [RAW]?: JsonObject | undefined;
  [READ]?: Read;
}

/** As handlers see it: plain JSON, frozen, as src/events.ts reads it. Throws where the body was purged. */
export function toKitEvent(stored: StoredEvent): KitEvent {
  return read(stored).event;
}

/** The exact place where the data does not fit its type in src/events.ts, or undefined; such data stay as they came. */
export function mismatchOf(stored: StoredEvent): string | undefined {
  return read(stored).mismatch;
}

/** For the functions of src/events.ts. */
function rawOf(stored: Known): JsonObject {
  if (stored.text === null) throw new Error('its body was purged after PAYLOAD_RETENTION_DAYS');
  return (stored[RAW] ??= dataOfText(stored.origin, stored.type, stored.text));
}

/** Once for all handlers. */
function read(stored: Known): Read {
  if (stored[READ]) return stored[READ];
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
  stored[RAW] = undefined;
  return (stored[READ] = { event, mismatch });
}

/** src/events.ts is the user's: whatever it throws is a mismatch of this event, and stops no other. */
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

/** zod leaves out a field of this name, for fear of prototypes. */
function keepProto(from: JsonObject, to: Record<string, unknown>): Record<string, unknown> {
  const field = Object.getOwnPropertyDescriptor(from, '__proto__');
  return field ? Object.defineProperty(to, '__proto__', field) : to;
}

function laneOf(
  handler: Loaded,
  stored: StoredEvent,
  onLaneFault: AssignOptions['onLaneFault'],
  rerun: number,
): string | null {
  const { lane, order } = handler;
  // What waits for its proof or behind events that have just come, and for no other, is in a lane of its own.
  if (lane === 'none') return order === 'strict' || rerun > 0 ? stored.key : null;
  // In another lane by webhook than by replay, strict order would break between the two.
  const sessionId = order === 'strict' ? factsOf(stored.type, rawOf(stored)).sessionId : stored.sessionId;
  if (lane === 'session') return sessionOf(sessionId);
  if (lane === 'conversation') return conversationOf(stored.type, sessionId, rawOf(stored));
  try {
    const name: unknown = lane(order === 'strict' ? asReplayed(stored) : toKitEvent(stored));
    if (typeof name !== 'string') throw new TypeError('lane must return a string');
    return name.slice(0, 500);
  } catch (error) {
    onLaneFault(handler, error);
    return sessionOf(sessionId);
  }
}

/** As replay shows it, however it came: without an id, its session and its time from `data` alone. */
function asReplayed(stored: StoredEvent): KitEvent {
  const { sessionId, createdAt } = factsOf(stored.type, rawOf(stored));
  return Object.freeze({ ...toKitEvent(stored), id: null, origin: 'replay', sessionId, createdAt: iso(createdAt) });
}

function freeze<Value>(value: Value): Value {
  if (typeof value === 'object' && value !== null) {
    for (const inner of Object.values(value)) freeze(inner);
    Object.freeze(value);
  }
  return value;
}
