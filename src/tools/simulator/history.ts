// The events of the simulated service, in cursor order. They are made from a seed and stored, and a test can expire
// the oldest.
import { systemClock, type Clock } from '../../base/clock.ts';
import { createRandom } from '../random.ts';

export interface SimulatedEvent {
  id: string;
  /** Null only for the test event, `webhook.ping`. */
  cursor: string | null;
  type: string;
  /** ISO 8601, UTC. */
  createdAt: string;
  sessionId: string | null;
  /** `on`: the data has no session and no time. `all`: nor has the envelope of a webhook a session. */
  bare: 'on' | 'all' | 'off';
  /** The fields of the event. A delivery wraps them in an object that has the event's type as its only key. */
  data: Record<string, unknown>;
}

export interface HistoryOptions {
  seed: number;
  firstCursor?: bigint;
  /** How many phone numbers the account has, and how many people write to each number. */
  sessions?: number;
  conversations?: number;
  /** The account's numbers. Default: drawn from the seed. */
  numbers?: string[];
  /** What happened before, in cursor order. Each has a cursor. */
  past?: SimulatedEvent[];
  clock?: Clock;
}

/**
 * Whether events of a type belong to one phone number or to the whole account (contract 6.3). Section 6.4 names the
 * first three types. The last two names are made up, because the contract has none for campaigns and warm-up.
 */
export const EVENT_TYPES: Record<string, 'number' | 'account'> = {
  MessageReceived: 'number',
  MessageSent: 'number',
  MessageStatusUpdated: 'number',
  CampaignUpdated: 'account',
  WarmupUpdated: 'account',
};

/** Values that replace the generated ones. Fields of `data` are replaced one by one. */
export type Overrides = Partial<Pick<SimulatedEvent, 'id' | 'createdAt' | 'sessionId' | 'data' | 'bare'>>;

export interface History {
  /** The account's session ids. */
  numbers: string[];
  /** Makes an event. A webhook.ping has no cursor and is not part of the history (contract 6.3). */
  next(type?: string, overrides?: Overrides): SimulatedEvent;
  /**
   * The first `limit` events after the cursor, without those that `seen` rejects. A null cursor: from the oldest event
   * that has not expired. `unknown`: no event has this cursor (contract 6.1).
   */
  after(
    cursor: string | null,
    limit: number,
    seen?: (event: SimulatedEvent) => boolean,
  ): { events: SimulatedEvent[]; hasMore: boolean } | 'unknown' | 'expired';
  /**
   * Types other than MessageReceived have no session and no time in their data (contract 6.4). `all`: the envelope of
   * their webhooks has no session either.
   */
  bare(how: 'on' | 'all' | 'off'): void;
  /** All events, expired or not. */
  all(): SimulatedEvent[];
  /** Expires the event with this cursor and all earlier ones. Their cursors are refused from then on. */
  expireUpTo(cursor: string): void;
}

/**
 * Just below a power of ten and above Number.MAX_SAFE_INTEGER, so that comparing cursors as text or as numbers fails.
 */
const FIRST_CURSOR = 9_999_999_999_999_900n;
/** The contract does not show the values of a status. */
const STATUSES = ['sent', 'delivered', 'read'];
/** The largest step from one cursor to the next, because an account's cursors are not consecutive. */
const WIDEST_STEP = 5;

// oxlint-disable-next-line max-lines-per-function -- making, reading and expiring share the list of events
export function createHistory(options: HistoryOptions): History {
  const { seed, firstCursor = FIRST_CURSOR, sessions = 2, conversations = 3, clock = systemClock } = options;
  const random = createRandom(seed);
  const numbers = options.numbers ?? Array.from({ length: sessions }, () => random.uuid());
  const events: SimulatedEvent[] = [...(options.past ?? [])];
  const positions = new Map(events.map((event, n) => [event.cursor ?? '', n]));
  const afterPast = BigInt(events.at(-1)?.cursor ?? -1) + 1n;
  let cursor = afterPast > firstCursor ? afterPast : firstCursor;
  let oldest = 0;
  let bare: SimulatedEvent['bare'] = 'off';

  function next(type = 'MessageReceived', overrides: Overrides = {}): SimulatedEvent {
    const ping = type === 'webhook.ping';
    const now = clock.now();
    const accountWide = ping || EVENT_TYPES[type] === 'account';
    const sessionId = accountWide ? null : (numbers[random.below(numbers.length)] ?? null);
    const made: SimulatedEvent = {
      id: random.uuid(),
      cursor: null,
      type,
      createdAt: new Date(now).toISOString(),
      sessionId,
      bare: type === 'MessageReceived' ? 'off' : bare,
      data: {},
      ...overrides,
    };
    const fields = ping ? { message: 'a test' } : fieldsOf(made, now);
    const data = { ...fields, ...overrides.data };
    if (ping) return { ...made, data };
    const event = { ...made, cursor: String(cursor), data };
    positions.set(event.cursor, events.length);
    events.push(event);
    cursor += BigInt(1 + random.below(WIDEST_STEP));
    return event;
  }

  /** Contract 6.4 shows the fields of MessageReceived, and a few fields that all types share. */
  function fieldsOf({ type, sessionId, bare: how }: SimulatedEvent, now: number): Record<string, unknown> {
    if (how !== 'off' && type !== 'MessageReceived') return { message_id: random.uuid() };
    if (EVENT_TYPES[type] === 'account') return { name: 'a campaign', timestamp_unix_ms: now };
    const common = { session_id: sessionId, message_id: random.uuid(), timestamp_unix_ms: now };
    if (type === 'MessageStatusUpdated') return { ...common, status: STATUSES[events.length % STATUSES.length] };
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
    bare: (how) => void (bare = how),
    all: () => [...events],
    expireUpTo(last) {
      oldest = Math.max(oldest, (positions.get(last) ?? -1) + 1);
    },
  };
}
