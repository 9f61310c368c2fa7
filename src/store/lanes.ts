// In which lane a task is, and which tasks of a lane a claim takes.
import { hash } from 'node:crypto';
import type { Cursor } from '../wire/cursor.ts';
import type { Claim, Claimed, NewTask, Room } from './work.ts';

/** `due_at` of a strict task that waits for the watermark. */
export const NEVER = 9_000_000_000_000_000;
export const HIGHEST = '9223372036854775807' as Cursor;
/** The most strict tasks of a handler that one turn releases. */
export const RELEASED = 1_024;
/** The id of every handler is below this. */
const HANDLERS = 4_096;

/** The id of the lane that is made for one task. */
export const ownLane = (handler: number, event: number): number => -(event * HANDLERS + handler);

/**
 * A task without a lane's name or without a cursor has a lane of its own. The ids of all others are 52 bits of a keyed
 * hash, because names hold phone numbers. If two names get the same id, their tasks only wait for each other.
 */
export function laneOf(key: unknown, { handler, event, cursor, lane }: NewTask): number {
  if (lane === null || cursor === null) return ownLane(handler, event);
  return Number.parseInt(hash('sha256', `${String(key)}/${handler}/${lane}`).slice(0, 13), 16);
}

/** When a task of a new event is due. A task without a cursor waits for nothing. */
export function dueAt({ cursor, receivedAt }: NewTask, { order, windowMs }: Room): number {
  if (cursor === null || order === 'arrival') return receivedAt;
  return order === 'window' ? receivedAt + windowMs : NEVER;
}

/** A tuple, because it costs half as much as an object. */
export type Head = [
  lane: number,
  event: number,
  cursor: Cursor,
  late: 0 | 1,
  dueAt: number,
  crashes: number,
  attempts: number,
  failedAt: number | null,
  notes: string | null,
];

export interface Chains {
  claims: Claim[];
  /** The cursor of the last task of each claim. */
  ends: Cursor[];
  tasks: number;
}

/**
 * Takes the tasks of due lanes, which come lane by lane from the head on. A chain ends before a task that is not due at
 * `upTo`, before a suspect, and where the room ends. `first` numbers the claims.
 */
export function chainsOf(
  heads: Iterable<Head>,
  { handler, tasks: most }: Room,
  { boot, first, upTo }: { boot: number; first: () => number; upTo: number },
): Chains {
  const claims: Claim[] = [];
  const ends: Cursor[] = [];
  let tasks = 0;
  let lane: number | undefined;
  let isOpen = false;
  for (const [id, event, cursor, late, due, crashes, attempts, failedAt, notes] of heads) {
    const isHead = id !== lane;
    if (isHead && tasks >= most) break;
    isOpen = due <= upTo && (isHead || (isOpen && crashes === 0 && tasks < most));
    lane = id;
    if (!isOpen) continue;
    if (isHead) claims.push({ lane: id, boot, claim: first(), handler, tasks: [] });
    ends[claims.length - 1] = cursor;
    const noted = notes === null ? {} : (JSON.parse(notes) as Claimed['notes']);
    claims.at(-1)?.tasks.push({ event, late: late === 1, crashes, attempts, failedAt, notes: noted });
    tasks++;
  }
  return { claims, ends, tasks };
}
