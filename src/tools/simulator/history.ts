// The events of the simulated service, in cursor order, and which of them can still be read.
import { randomUUID } from 'node:crypto';
import { iso, type Clock } from '../../base/clock.ts';
import { Refusal } from './refusal.ts';

export interface SimulatedEvent {
  id: string;
  /** Null: the event is not in the history, like the test event, `webhook.ping` (contract 6.3). */
  cursor: string | null;
  type: string;
  /** ISO 8601, UTC. */
  createdAt: string;
  sessionId: string | null;
  data: Record<string, unknown>;
}

export type History = ReturnType<typeof createHistory>;

/** Just below a power of ten and above Number.MAX_SAFE_INTEGER, so that comparing cursors as text or as numbers fails. */
export const FIRST_CURSOR = 9_999_999_999_999_900n;
const SESSIONS = ['00000000-0000-4000-8000-000000000001', '00000000-0000-4000-8000-000000000002'];
const PEOPLE = 3;

/** `earlier`: replay also accepts cursors below the first, as those of older events. They expire with the first event. */
export function createHistory(clock: Clock, firstCursor: bigint, earlier = false) {
  const events: SimulatedEvent[] = [];
  const positions = new Map<string, number>();
  let next = firstCursor;
  /** The position of the oldest event that has not expired. */
  let oldest = 0;

  /** An event without a cursor, which the history does not keep, like the test event. */
  function make(type: string, data: Record<string, unknown>): SimulatedEvent {
    const { session_id: session } = data;
    const sessionId = typeof session === 'string' ? session : null;
    return { id: randomUUID(), cursor: null, type, createdAt: iso(clock.now()) ?? '', sessionId, data };
  }

  return {
    make,
    /** `given` replaces generated fields of the data; with `whole` it is all of the data. */
    add(type = 'MessageReceived', given: Record<string, unknown> = {}, whole = false): SimulatedEvent {
      if (type === 'webhook.ping') return make(type, { message: 'a test', ...given });
      const n = events.length;
      const data = { ...(!whole && fieldsOf(type, n, clock.now())), ...given };
      const event = { ...make(type, data), cursor: String(next) };
      positions.set(event.cursor, events.push(event) - 1);
      // An account's cursors are not consecutive.
      next += BigInt(1 + ((n * 7) % 5));
      return event;
    },
    /** The events after a cursor. Null: from the oldest on. Throws Refusal if no event has the cursor (contract 6.1). */
    after(cursor: string | null, limit: number) {
      const isEarlier = earlier && cursor !== null && /^\d+$/.test(cursor) && BigInt(cursor) < firstCursor;
      const position = cursor === null ? oldest - 1 : isEarlier ? -1 : positions.get(cursor);
      if (position === undefined) throw new Refusal(400, 'EVENT_CURSOR_INVALID');
      if (cursor !== null && Math.max(position, 0) < oldest) return { events: [], hasMore: false, isExpired: true };
      const end = position + 1 + limit;
      return { events: events.slice(position + 1, end), hasMore: end < events.length, isExpired: false };
    },
    /** From now on, replay no longer shows the events so far, and their cursors have expired. */
    expire: (): void => void (oldest = events.length),
    all: (): readonly SimulatedEvent[] => events,
  };
}

/** Contract 6.4 shows only the fields of MessageReceived. */
function fieldsOf(type: string, n: number, now: number) {
  const common = { session_id: SESSIONS[n % SESSIONS.length], message_id: randomUUID(), timestamp_unix_ms: now };
  if (type === 'MessageStatusUpdated') return { ...common, status: 'delivered' };
  if (type !== 'MessageReceived') return common;
  const person = n % PEOPLE;
  const said = { body: `message ${n + 1}`, is_group: false, message_type: 'text', push_name: `Person ${person}` };
  return { ...common, from: `1555010${person}`, ...said };
}
