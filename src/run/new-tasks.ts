// Makes the tasks of an event: one for each handler that wants its type, in the lane that the handler names. The
// handler's `order` decides how long a task is held.
import { placeOf } from '../store/birth.ts';
import type { NewTask, StoredEvent, PendingEvents } from '../store/work.ts';
import { isBehind, type Cursor } from '../wire/cursor.ts';
import { conversationOf, factsOf, laneNamed } from '../wire/event.ts';
import { asReplayed, rawOf, toKitEvent } from './handler-event.ts';
import type { Loaded } from './load-handlers.ts';

/** A lane function returned another value than a string. The message does not quote it: it may be a sender's text. */
export class NoLane extends TypeError {
  constructor(returned: unknown) {
    const what = returned === undefined || returned === null ? String(returned) : `a value of type ${typeof returned}`;
    super(`lane function returned ${what}, not a string`);
  }
}

export interface TaskOptions {
  handlers: Map<number, Loaded>;
  windowMs: number;
  now: number;
  /** Called if a `lane` function threw or returned no string. The session is then the lane. */
  onLaneFault: (handler: Loaded, error: unknown) => void;
  /** Corrects a time of receipt for later steps of the clock. */
  received?: ((at: number) => number) | undefined;
  /** The number of the rerun that gives the event again. 0: the event is new. */
  rerun?: number;
  /** True: it is decided that the event is not history, that is, not older than the store. */
  decided?: boolean;
}

export function tasksOf(
  stored: StoredEvent,
  { watermark, birth }: Pick<PendingEvents, 'watermark' | 'birth'>,
  options: TaskOptions,
): NewTask[] {
  const { handlers, windowMs, now, received = (at) => at, rerun = 0, decided = rerun > 0 } = options;
  // The event was erased before it became a task.
  if (stored.text === null) return [];
  // Only handlers with `history: true` get tasks for history. An undecided event comes here again once it is decided.
  const fresh = decided || placeOf(stored, birth) === 'new';
  const { cursor } = stored;
  const receivedAt = received(stored.receivedAt);
  const tasks: NewTask[] = [];
  for (const [id, handler] of handlers) {
    if (!wants(handler, stored.type) || (!fresh && !handler.history)) continue;
    tasks.push({
      event: stored.seq,
      handler: id,
      lane: laneOf(handler, stored, options.onLaneFault, rerun),
      cursor,
      ...(handler.order === 'strict' && cursor !== null && { strict: true }),
      ...(rerun > 0 && { rerun }),
      releaseAt: releaseAt({ cursor, receivedAt }, handler, watermark, windowMs, now),
    });
  }
  return tasks;
}

/** '*' means every event of the service. The kit's own events must be named. */
export function wants(handler: Loaded, type: string): boolean {
  return handler.on === '*' ? !type.startsWith('kit.') : handler.on.has(type);
}

/**
 * When a task is released, Unix milliseconds. An event at or below the watermark does not wait. A strict task waits for
 * the watermark and not for a time, so it gets the time of receipt.
 */
export function releaseAt(
  { cursor, receivedAt }: Pick<StoredEvent, 'cursor' | 'receivedAt'>,
  { order }: Pick<Loaded, 'order'>,
  watermark: Cursor | null,
  windowMs: number,
  now: number,
): number {
  // A time of receipt is later than now only if the clock was set back since.
  const arrivedAt = Math.min(receivedAt, now);
  if (order === 'strict' && cursor !== null) return arrivedAt;
  return order === 'arrival' || !isBehind(watermark, cursor) ? now : arrivedAt + windowMs;
}

/** Whether the task is strict and waits for the watermark. */
export function isUnproven({ strict, cursor }: NewTask, { watermark }: Pick<PendingEvents, 'watermark'>): boolean {
  return strict === true && isBehind(watermark, cursor);
}

function laneOf(
  handler: Loaded,
  stored: StoredEvent,
  onLaneFault: TaskOptions['onLaneFault'],
  rerun: number,
): string | null {
  const { lane, order } = handler;
  // With lane 'none', each event of a strict handler or of a rerun gets a lane of its own. Its task waits for the
  // watermark, or until the rerun reaches it, but for no other task of the handler.
  if (lane === 'none') return order === 'strict' || rerun > 0 ? stored.key : null;
  // Webhook and replay may name different sessions, and then a strict lane would split. So only `data` decides.
  const sessionId = order === 'strict' ? factsOf(stored.type, rawOf(stored)).sessionId : stored.sessionId;
  if (lane === 'session') return sessionId ?? '';
  if (lane === 'conversation') return conversationOf(stored.type, sessionId, rawOf(stored));
  try {
    const name: unknown = lane(order === 'strict' ? asReplayed(stored) : toKitEvent(stored));
    if (typeof name !== 'string') throw new NoLane(name);
    return laneNamed(name);
  } catch (error) {
    onLaneFault(handler, error);
    return sessionId ?? '';
  }
}
