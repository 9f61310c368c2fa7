// Everything that handlers import as '#kit'. All of it is public, so its names must not change.
import type { SqlRow, SqlValue, Tx } from './store/work.ts';
import type { EventMap } from './wire/event-types.ts';
import type { Origin } from './wire/event.ts';
import type { Service } from './service/service.ts';

export { ServiceError } from './service/errors.ts';
export type { EventMap, Origin, Service, SqlRow, SqlValue, Tx };

/** The name of a type that src/events.ts or the kit defines. */
export type EventName = keyof EventMap;

/** If `on` names several types, check `event.type` to narrow `event.data`. With '*', `event.data` is a plain object. */
export type KitEvent<Type extends string = string> = Type extends '*'
  ? EventOf<string>
  : Type extends string
    ? EventOf<Type>
    : never;

export interface EventOf<Type extends string> {
  /** The event's identity: `c:<cursor>` if it has a cursor, else `i:<id>`. */
  readonly key: string;
  /** The id in the webhook, or the kit's id for a `kit.gap`. Null while only replay or the stream has shown it. */
  readonly id: string | null;
  readonly type: Type;
  /** The event's place in the service's history: a decimal 64-bit integer. Null: it has none. */
  readonly cursor: string | null;
  /** The session (phone number) that the event belongs to. Null: the event names none, or belongs to the account. */
  readonly sessionId: string | null;
  /** When the event happened: ISO 8601, UTC. Null: unknown. */
  readonly createdAt: string | null;
  readonly receivedAt: string;
  /** How the event first arrived. */
  readonly origin: Origin;
  readonly data: Type extends EventName ? EventMap[Type] : Record<string, unknown>;
}

export interface Context {
  readonly log: HandlerLog;
  /** Aborted when the attempt ends or times out, or when the kit stops. */
  readonly signal: AbortSignal;
  /** The number of this attempt, from 1. An attempt that ended by RetryAfter or at a stop of the kit does not count. */
  readonly attempt: number;
  /** True: a later event of the lane was handled first, or the task gave up its lane (`laneHoldMs`). Not in a rerun. */
  readonly late: boolean;
  /** Milliseconds since the event happened. Null: unknown. */
  readonly lagMs: number | null;
  /** A text that is the same in every retry and rerun of this handler on this event. */
  readonly idempotencyKey: string;
  /** The service's operations. They throw ServiceError, also if no API key is set. */
  readonly service: Service;
  /** The notes of all attempts of this task, also from before a crash or a rerun. Read-only. */
  readonly notes: Readonly<Record<string, unknown>>;
  /** Commits a fact at once, like "sending": at most 32 names, 1 KiB of JSON each. Throws if the claim is gone. */
  note(name: string, value: unknown): Promise<void>;
  /** The rows of one `select` on the handler's own tables. A statement that writes fails. */
  read(sql: string, ...values: SqlValue[]): Promise<SqlRow[]>;
  /**
   * Commits both your writes to the kit's store and the task's completion, or neither. `work` may await only its `tx`,
   * and has one second. Throws if the claim is gone: the attempt is over, or another process was given the task.
   */
  complete(work: (tx: Tx) => unknown): Promise<void>;
}

/** Fields first, then the message: `log.info({ messageId }, 'message received')`. `key` and `handler` are added. */
export type HandlerLog = Record<'debug' | 'info' | 'warn' | 'error', (fields: object, message: string) => void>;

type SetupFunction = (tx: Tx) => void | Promise<void>;

export interface Handler<Type extends string = string> {
  /** The handler's identity. Default: the file's name without its extension. */
  name?: string;
  /** A type, several types, or '*' for every event of the service. */
  on: Type | readonly Type[] | '*';
  /**
   * Tasks of one lane run one after another, in cursor order. 'none': a task runs as soon as there is room. Default:
   * 'conversation', as src/events.ts defines it; an event without a conversation is in the lane of its session. Events
   * without either share one lane.
   */
  lane?: 'conversation' | 'session' | 'none' | ((event: KitEvent<Type>) => string);
  /**
   * When a task runs. 'arrival': at once. 'window' (default): after ORDER_WINDOW_MS, so that earlier events can arrive.
   * 'strict': when replay has shown that no earlier event is missing. Replay needs an API key, and makes one or
   * more calls. While replay fails, the task waits.
   */
  order?: 'arrival' | 'window' | 'strict';
  /** Default: 20 attempts; the first retry after about 1 s, later ones at most 1 h apart. */
  retry?: { attempts?: number; firstMs?: number; maxMs?: number };
  /** How long a failing task holds up its lane, from its first failure. Default: 2 min. */
  laneHoldMs?: number;
  /** Default: 30 s. */
  timeoutMs?: number;
  /** Milliseconds. Older events are stale; so are those of unknown age from replay or the stream. Default: no limit. */
  maxAgeMs?: number;
  /** The outcome for a stale event. Default: 'run', as if it were not stale. */
  onStale?: 'run' | 'skip' | 'dead';
  /** The most attempts that one process begins in a minute, spread evenly: 60 is one per second. Default: no limit. */
  rate?: { perMinute: number };
  /**
   * Creates and changes the handler's own tables. A list: each step runs once, in order. To change a table, add a new
   * last step and keep the others. A single function runs at each start and reload. Functions may await only `tx`.
   */
  setup?: SetupFunction | readonly (string | SetupFunction)[];
  /** Returning ends the task as done. Throwing retries it while attempts are left; see Skip, Dead and RetryAfter. */
  handle(event: KitEvent<Type>, ctx: Context): Promise<void> | void;
}

/** Returns the handler unchanged, but typed. Without it, `on` may also name types that are not in src/events.ts. */
export function defineHandler<const Type extends EventName | '*'>(handler: Handler<Type>): Handler<Type> {
  return handler;
}

/** Throw it: the task ends as skipped. */
export class Skip extends Error {
  override readonly name = 'Skip';
}

/** Throw it: the task ends as a dead letter, even if attempts are left. */
export class Dead extends Error {
  override readonly name = 'Dead';
}

/** Throw it: the task runs again after `ms` (more than 0, at most 24 h). No attempt is spent. */
export class RetryAfter extends Error {
  override readonly name = 'RetryAfter';
  readonly ms: number;
  constructor(ms: number, reason: string) {
    super(reason);
    this.ms = ms;
  }
}
