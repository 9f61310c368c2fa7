// What handlers import as '#kit'. Everything here is public: names stay.
import type { EventMap } from './wire/event-types.ts';
import type { SqlValue, Tx } from './store/work.ts';
import type { Origin } from './wire/event.ts';
import type { ItemOf, OperationName, ResponseOf } from './service/operations.ts';
import type { Service } from './service/service.ts';

export { ServiceError } from './service/errors.ts';
export type { EventMap, ItemOf, OperationName, Origin, ResponseOf, Service, SqlValue, Tx };

/** A type that src/events.ts knows. */
export type EventName = keyof EventMap;

/** One of several types is told by `event.type`; of '*' nothing is known beforehand. */
export type KitEvent<Type extends string = string> = Type extends '*'
  ? EventOf<string>
  : Type extends string
    ? EventOf<Type>
    : never;

export interface EventOf<Type extends string> {
  /** The event's identity: `c:<cursor>`, else `i:<id>`. */
  readonly key: string;
  /** The webhook's id; null while only replay has shown the event. */
  readonly id: string | null;
  readonly type: Type;
  /** Position in the service's history: a decimal 64-bit integer. */
  readonly cursor: string | null;
  /** The number (session) that it belongs to; null for account-wide events. */
  readonly sessionId: string | null;
  /** ISO 8601, UTC. */
  readonly createdAt: string | null;
  readonly receivedAt: string;
  readonly origin: Origin;
  readonly data: Type extends EventName ? EventMap[Type] : Record<string, unknown>;
}

export interface Context {
  readonly log: HandlerLog;
  /** Aborted on timeout and when the kit stops. */
  readonly signal: AbortSignal;
  /** From 1. */
  readonly attempt: number;
  /**
   * A later event of the lane was finished before this one. Of an event that was recovered without its session: a later
   * event of this handler.
   */
  readonly late: boolean;
  /** Released though replay, which looked for it twice, does not show it; only with `order: 'strict'`. */
  readonly unproven: boolean;
  /** How long ago it happened, milliseconds; null where that is not known. */
  readonly lagMs: number | null;
  /** The same over retries and re-runs of this handler on this event. */
  readonly idempotencyKey: string;
  /** The service's operations. Throws ServiceError, also where no API key is set. */
  readonly service: Service;
  /**
   * Commits your synchronous writes to the same SQLite file together with the task's completion, or neither. Throws when
   * the claim is gone: after a timeout, or when another process was given the task.
   */
  complete(work: (tx: Tx) => void): Promise<void>;
}

/** Fields first, then the message: `log.info({ messageId }, 'message received')`. `key` and `handler` are there already. */
export interface HandlerLog {
  debug(fields: object, message: string): void;
  info(fields: object, message: string): void;
  warn(fields: object, message: string): void;
  error(fields: object, message: string): void;
}

export interface Handler<Type extends string = string> {
  /** The handler's identity. Default: the file's name. */
  name?: string;
  /** A type, several, or '*' for every event of the service. */
  on: Type | readonly Type[] | '*';
  /**
   * Tasks of one lane run one after another, in cursor order. Default 'conversation': where src/events.ts knows it, else
   * the session. 'none' runs whenever there is room. With `order: 'strict'` the lane follows from `data` alone, as replay
   * shows nothing else: types whose data name no session share one lane for the account, and a function is given no id.
   */
  lane?: 'conversation' | 'session' | 'none' | ((event: KitEvent<Type>) => string);
  /**
   * 'arrival': at once. 'window' (default): after ORDER_WINDOW_MS, in order. 'strict': when replay has proved that nothing
   * before it is missing, which takes a call or more, and an API key; while replay is stopped, it waits.
   */
  order?: 'arrival' | 'window' | 'strict';
  /** Default: 20 attempts, first after 1 s, at most 1 h apart. */
  retry?: { attempts?: number; firstMs?: number; maxMs?: number };
  /** How long a failing task keeps its lane waiting, from its first failure. Default: 2 min; 'strict': until it ends. */
  laneHoldMs?: number;
  /** Default: 30 s. */
  timeoutMs?: number;
  /** What happened longer ago is stale; so is what was recovered with its age unknown. */
  maxAgeMs?: number;
  onStale?: 'run' | 'skip' | 'dead';
  /** Also acts on what happened before this store was there, as REPLAY_FROM fetches it. Default: false. */
  history?: boolean;
  /**
   * At most so many attempts begin in any minute, evenly spread: with 60, one a second. What waits for it stays ready, and
   * other handlers are not held up. Default: no limit.
   */
  rate?: { perMinute: number };
  /** Creates the handler's own tables, once at each start. */
  setup?(tx: Tx): void;
  /** Return: done. Throw: retried. Throw Skip, RetryAfter or Dead: as named. */
  handle(event: KitEvent<Type>, ctx: Context): Promise<void> | void;
}

/** Adds types, and nothing else. A type that it does not know belongs into src/events.ts. */
export function defineHandler<const Type extends EventName | '*'>(handler: Handler<Type>): Handler<Type> {
  return handler;
}

/** The task ends as skipped. */
export class Skip extends Error {
  constructor(reason: string) {
    super(reason);
    this.name = 'Skip';
  }
}

/** The task ends as a dead letter, whatever attempts are left. */
export class Dead extends Error {
  constructor(reason: string) {
    super(reason);
    this.name = 'Dead';
  }
}

/** The task runs again after this time, without spending an attempt; at most 24 h in all. */
export class RetryAfter extends Error {
  readonly ms: number;
  constructor(ms: number, reason: string) {
    super(reason);
    this.name = 'RetryAfter';
    this.ms = ms;
  }
}
