// The read role of the store, for people and programs. Every answer has a bound; no query counts a table.
import type { Origin } from '../wire/event.ts';
import type {
  Arrivals,
  DeadGroup,
  EventFilter,
  Gap,
  HandlerDetail,
  HandlerFigures,
  ListedEvent,
  Offers,
  Quarantined,
  Sample,
  ShownAttempt,
  ShownConflict,
  ShownDelivery,
  ShownEvent,
  ShownTask,
  Status,
  TaskFilter,
  WaitingLane,
} from './shown.ts';

export * from './shown.ts';

export interface ReadStore {
  status(now: number): Promise<Status>;
  /** Newest first. `next` is the `before` of the next page; null at the end. */
  events(filter: EventFilter, now: number): Promise<{ events: ListedEvent[]; next: number | null }>;
  /** Finds one event by key, id or cursor. */
  event(
    name: string,
    now: number,
  ): Promise<
    | {
        event: ShownEvent;
        /** True: `npx kit erase` has removed the body. False: it is there, or it was purged. */
        erased: boolean;
        /** When each further origin first brought the event. */
        sightings: { origin: Origin; at: string }[];
        /** The first delivery, the next seven, and the last one. */
        deliveries: ShownDelivery[];
        aliases: string[];
        /** The oldest conflicts, at most CONFLICTS. */
        conflicts: ShownConflict[];
        tasks: ShownTask[];
        attempts: ShownAttempt[];
      }
    | undefined
  >;
  /**
   * Up to three tasks before and after this one in its lane, by cursor. Only the thousand nearest events on each side
   * are searched.
   */
  neighbours(task: number, now: number): Promise<{ earlier: ShownTask[]; later: ShownTask[] }>;
  /** Groups of dead letters, largest first. `dead`: the number of dead letters in all matching groups. */
  groups(filter: {
    handler?: string | undefined;
    id?: number | undefined;
    limit: number;
  }): Promise<{ dead: number; groups: DeadGroup[] }>;
  /** The bodies that contradicted this event, as received. */
  contradictions(name: string): Promise<{ at: string; body: Uint8Array }[]>;
  /** The bytes of an event as received, by key, id or cursor. Null: unknown, or purged. */
  body(name: string): Promise<Uint8Array | null>;
  tasks(filter: TaskFilter, now: number): Promise<{ tasks: ShownTask[]; next: number | null }>;
  quarantine(limit: number): Promise<Quarantined[]>;
  /** One quarantined row, with its bytes as received. */
  quarantined(id: number): Promise<(Quarantined & { body: Uint8Array }) | undefined>;
  /** The lanes with the most waiting tasks, among the first thousand lanes with any. */
  waitingLanes(limit: number, handler?: string): Promise<WaitingLane[]>;
  gaps(): Promise<Gap[]>;
  /** Newest week first. */
  arrivals(): Promise<Arrivals[]>;
  counters(): Promise<Record<string, number>>;
  /** All handlers that the store knows, by name. */
  handlers(now: number): Promise<HandlerFigures[]>;
  /** Undefined: the store does not know this handler. */
  handler(name: string, now: number): Promise<HandlerDetail | undefined>;
  offers(): Promise<Offers>;
  /** When the oldest stored event was received, and when pruning last looked for events to remove. Unix milliseconds. */
  extent(): Promise<{ oldestAt: number | null; prunedAt: number | null }>;
  /** Stores the present counters, for the charts over time. */
  sample(now: number): Promise<void>;
  /** From oldest to newest, the last sample of each step. */
  samples(from: number, to: number, stepMs: number): Promise<Sample[]>;
}
