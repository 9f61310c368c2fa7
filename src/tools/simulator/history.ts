// What happened at the simulated service, in cursor order: makes events by a seed, keeps them, and forgets the oldest
// when it is told to.
import { systemClock, type Clock } from '../../base/clock.ts';
import { createRandom } from '../../base/random.ts';

export interface SimulatedEvent {
  id: string;
  /** Null for the test event only. */
  cursor: string | null;
  type: string;
  /** ISO 8601, UTC. */
  createdAt: string;
  sessionId: string | null;
  /** The fields of the type, without its name around them. */
  data: Record<string, unknown>;
}

export interface HistoryOptions {
  seed: number;
  firstCursor?: bigint;
  /** How many numbers the account has, and how many people write to each. */
  sessions?: number;
  conversations?: number;
  clock?: Clock;
}

/** What belongs to a number, and what to the whole account (contract 6.3). 6.4 names the first three; the names of the
 * others, campaigns and warm-up, are ours. */
export const EVENT_TYPES: Record<string, 'number' | 'account'> = {
  MessageReceived: 'number',
  MessageSent: 'number',
  MessageStatusUpdated: 'number',
  CampaignUpdated: 'account',
  WarmupUpdated: 'account',
};

/** What is set is used as it is; fields of `data` replace those that were made. */
export type Overrides = Partial<Pick<SimulatedEvent, 'id' | 'createdAt' | 'sessionId' | 'data'>>;

export interface History {
  /** The account's session ids. */
  numbers: string[];
  /** Lets something happen. A webhook.ping has no cursor, and is no part of the history (contract 6.3). */
  next(type?: string, overrides?: Overrides): SimulatedEvent;
  /** The events behind a cursor, null for the oldest kept; all, or those that `seen` lets pass. A cursor must be an
   * earlier event's (contract 6.1). */
  after(
    cursor: string | null,
    limit: number,
    seen?: (event: SimulatedEvent) => boolean,
  ): { events: SimulatedEvent[]; hasMore: boolean } | 'unknown' | 'expired';
  /** From now on, types other than MessageReceived name neither session nor time in their data (contract 6.4). */
  bare(on: boolean): void;
  /** Everything that ever happened, expired or not. */
  all(): SimulatedEvent[];
  /** Forgets the event with this cursor and all before it: none of their cursors can be read from any more. */
  expireUpTo(cursor: string): void;
}

/** Past what a Number can tell apart, and a few events before one more digit: rounding or comparing as text shows. */
const FIRST_CURSOR = 9_999_999_999_999_900n;
/** The cursors of one account are not consecutive. */
const WIDEST_STEP = 5;

export function createHistory(options: HistoryOptions): History {
  const { seed, firstCursor = FIRST_CURSOR, sessions = 2, conversations = 3, clock = systemClock } = options;
  const random = createRandom(seed);
  const numbers = Array.from({ length: sessions }, () => random.uuid());
  const events: SimulatedEvent[] = [];
  const positions = new Map<string, number>();
  let cursor = firstCursor;
  let oldest = 0;
  let isBare = false;

  function next(type = 'MessageReceived', overrides: Overrides = {}): SimulatedEvent {
    const ping = type === 'webhook.ping';
    const now = clock.now();
    const accountWide = ping || EVENT_TYPES[type] === 'account';
    const sessionId = accountWide ? null : (numbers[random.below(sessions)] ?? null);
    const made = {
      id: random.uuid(),
      cursor: null,
      type,
      createdAt: new Date(now).toISOString(),
      sessionId,
      ...overrides,
    };
    const data = { ...(ping ? { message: 'a test' } : fieldsOf(type, made.sessionId, now)), ...overrides.data };
    if (ping) return { ...made, data };
    const event = { ...made, cursor: String(cursor), data };
    positions.set(event.cursor, events.length);
    events.push(event);
    cursor += BigInt(1 + random.below(WIDEST_STEP));
    return event;
  }

  /** Contract 6.4. The fields of the other types are not shown there: they get what every type is read by. */
  function fieldsOf(type: string, sessionId: string | null, now: number): Record<string, unknown> {
    if (isBare && type !== 'MessageReceived') return { message_id: random.uuid() };
    if (EVENT_TYPES[type] === 'account') return { name: 'a campaign', timestamp_unix_ms: now };
    const common = { session_id: sessionId, message_id: random.uuid(), timestamp_unix_ms: now };
    if (type !== 'MessageReceived') return common;
    const person = random.below(conversations) + 1;
    return {
      ...common,
      from: `1555010${person}`,
      body: `message ${events.length + 1}`,
      is_group: false,
      message_type: 'text',
      push_name: `Person ${person}`,
    };
  }

  return {
    numbers,
    next,
    after(from, limit, seen = () => true) {
      const position = from === null ? oldest - 1 : positions.get(from);
      if (position === undefined) return 'unknown';
      if (from !== null && position < oldest) return 'expired';
      const page: SimulatedEvent[] = [];
      for (let at = position + 1; at < events.length; at++) {
        const event = events[at];
        if (!event || !seen(event)) continue;
        if (page.length === limit) return { events: page, hasMore: true };
        page.push(event);
      }
      return { events: page, hasMore: false };
    },
    bare: (on) => void (isBare = on),
    all: () => [...events],
    expireUpTo(last) {
      oldest = Math.max(oldest, (positions.get(last) ?? -1) + 1);
    },
  };
}
