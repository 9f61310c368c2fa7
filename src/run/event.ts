// An event as handlers get it, and its lane. The event is frozen, because all handlers share it.
import { iso } from '../base/clock.ts';
import { describe, orUndefined } from '../base/errors.ts';
import type { KitEvent } from '../kit.ts';
import type { StoredEvent } from '../store/work.ts';
import { dataOf, factsOf } from '../wire/event.ts';
import { typeOf } from '../wire/event-types.ts';
import type { JsonObject } from '../wire/json.ts';
import type { Loaded } from './load.ts';

export interface ReadEvent extends Pick<StoredEvent, 'createdAt' | 'receivedAt' | 'origin'> {
  key: string;
  /** Null: the event was erased. */
  event: KitEvent | null;
  /** Why the task must be dead: the data do not fit their type in src/events.ts, or are damaged. Null: they fit. */
  mismatch: string | null;
  /** Session and conversation are read from the data, because only the data are the same in webhook and replay. */
  session: string | null;
  conversation: string | null;
}

/** `events`: how many parsed events are kept at most. `characters`: an event with a longer body is not kept. */
const KEPT = { events: 2_048, characters: 4_096 };

export type EventCache = ReturnType<typeof createEventCache>;

/**
 * Keeps parsed events from fan-out until their attempts, so that each body is read and parsed once. Each `read` allows
 * one `take`. After the last `take` the event is forgotten, because the garbage collector copies all that is kept.
 */
export function createEventCache() {
  // An event's slot is `seq` modulo the number of slots. A map would have to search for its oldest entry.
  const kept: ({ seq: number; event: ReadEvent; takers: number } | undefined)[] = [];
  let erasedBefore = 0;
  return {
    /** `erased`: how many events were ever erased. If the number has grown, all that is kept is forgotten. */
    forget(erased: number): void {
      if (erased > erasedBefore) kept.length = 0;
      erasedBefore = erased;
    },
    take(seq: number): ReadEvent | undefined {
      const known = kept[seq % KEPT.events];
      if (known?.seq !== seq) return undefined;
      if (--known.takers === 0) kept[seq % KEPT.events] = undefined;
      return known.event;
    },
    /** Never throws. */
    read(stored: StoredEvent): ReadEvent {
      const { seq, body } = stored;
      const known = kept[seq % KEPT.events];
      if (known?.seq === seq && body !== null) {
        known.takers++;
        return known.event;
      }
      const event = readEvent(stored);
      if ((body?.length ?? 0) <= KEPT.characters) kept[seq % KEPT.events] = { seq, event, takers: 1 };
      return event;
    },
  };
}

export function readEvent({ body, ...stored }: StoredEvent): ReadEvent {
  const { type, id, cursor, session, createdAt, receivedAt, origin } = stored;
  const about = { key: cursor === null ? `i:${id}` : `c:${cursor}`, createdAt, receivedAt, origin };
  if (body === null) return { ...about, event: null, mismatch: null, session, conversation: null };
  const raw = orUndefined(() => dataOf(origin, type, body));
  const { data, mismatch } = raw ? parse(type, raw) : { data: {}, mismatch: 'its stored body is damaged' };
  const conversation = orUndefined(() => typeOf(type)?.conversation?.(raw ?? {}));
  const event = Object.freeze({
    key: about.key,
    id,
    type,
    cursor,
    sessionId: session,
    createdAt: iso(createdAt),
    receivedAt: iso(receivedAt) ?? '',
    origin,
    data: freeze(data),
  });
  return {
    ...about,
    event,
    mismatch,
    session: factsOf(type, raw ?? {}).session,
    conversation: typeof conversation === 'string' ? conversation : null,
  };
}

/** The lane's name. Null: the task has its own lane. Throws if a lane function throws or returns no string. */
export function laneOf({ lane }: Pick<Loaded, 'lane'>, { event, session, conversation }: ReadEvent): string | null {
  if (lane === 'none') return null;
  if (lane === 'session' || event === null) return session ?? '';
  if (lane === 'conversation') return conversation === null ? (session ?? '') : `${session ?? ''}/${conversation}`;
  const name: unknown = lane(event);
  if (typeof name === 'string') return name;
  // The value is not shown, because it may be a sender's text.
  throw new TypeError(`it returned ${name === null ? 'null' : `a value of type ${typeof name}`}, and not a string`);
}

/** Schemas in src/events.ts are the user's code. If one throws, only this event counts as a mismatch. */
function parse(type: string, data: JsonObject): { data: Record<string, unknown>; mismatch: string | null } {
  const where = `data does not fit ${type} in src/events.ts: `;
  try {
    const parsed = typeOf(type)?.data.safeParse(data);
    if (!parsed) return { data, mismatch: null };
    // It throws if a schema makes a value that cannot be frozen, like a buffer.
    if (parsed.success) return { data: freeze({ ...data, ...(parsed.data as object) }), mismatch: null };
    const [issue] = parsed.error.issues;
    return { data, mismatch: `${where}${issue?.path.join('.')}: ${issue?.message}` };
  } catch (error) {
    return { data, mismatch: `${where}${describe(error).message}` };
  }
}

function freeze<Value>(value: Value): Value {
  if (typeof value === 'object' && value !== null && !Object.isFrozen(value)) {
    for (const inner of Object.values(value)) freeze(inner);
    Object.freeze(value);
  }
  return value;
}
