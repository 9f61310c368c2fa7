// Decides the outcome of an attempt: by the event, by what the handler threw, and by the attempts that are left.
import { behind, describe, orUndefined } from '../base/errors.ts';
import { Dead, RetryAfter, Skip } from '../kit.ts';
import type { Claimed, Outcome } from '../store/work.ts';
import type { ReadEvent } from './event.ts';
import type { Loaded } from './load.ts';

const LONGEST_DELAY_MS = 86_400_000;

/** The number of the attempt, from 1. Deaths spend no attempts, but after the first death the number is one higher. */
export const attemptOf = ({ attempts, crashes }: Claimed): number => attempts + 1 + (crashes > 0 ? 1 : 0);

/** Milliseconds: exponential, with jitter so that tasks that failed together spread out. `random` is from 0 to 1. */
export function backoff(attempt: number, { firstMs, maxMs }: Loaded['retry'], random = Math.random()): number {
  const ceiling = Math.min(maxMs, firstMs * 2 ** Math.min(attempt - 1, 40));
  return Math.round(Math.max(Math.min(firstMs, ceiling) / 2, ceiling * random));
}

/** The outcome of a task whose handler must not run. Null: it runs. */
export function beforeRun({ event }: Claimed, handler: Loaded, read: ReadEvent, now: number): Outcome | null {
  if (read.event === null) return { event, as: 'skipped', error: 'the event was erased' };
  if (read.mismatch !== null) return { event, as: 'dead', error: read.mismatch };
  const stale = handler.onStale === 'run' ? null : staleness(read, handler.maxAgeMs, now);
  return stale === null ? null : { event, as: handler.onStale === 'skip' ? 'skipped' : 'dead', error: stale };
}

/** Why the event is stale. Null: it is not. */
function staleness({ origin, createdAt, receivedAt }: ReadEvent, maxAgeMs: number | null, now: number): string | null {
  if (maxAgeMs === null) return null;
  const isRecovered = origin === 'replay' || origin === 'stream';
  // The age of an event without a time counts from its receipt, unless it came by replay or the stream.
  if (createdAt === null && isRecovered) return 'stale: of unknown age, from replay or the stream';
  const age = now - (createdAt ?? receivedAt);
  const seconds = (ms: number): string => `${Math.round(ms / 1_000)} s`;
  return age > maxAgeMs ? `stale: ${seconds(age)} old, but maxAgeMs allows ${seconds(maxAgeMs)}` : null;
}

export type Thrown = { task: Claimed; handler: Loaded; now: number; draining: boolean };

/** The outcome after the handler threw. Null: the task waits again, and the attempt does not count. */
export function afterThrow(error: unknown, { task, handler, now, draining }: Thrown): Outcome | null {
  const { event, attempts, failedAt } = task;
  const { message } = describe(error);
  if (isA(Skip, error)) return { event, as: 'skipped', error: message };
  if (isA(Dead, error)) return { event, as: 'dead', error: message };
  if (draining) return null;
  const again = (dueAt: number, spent: boolean, text: string): Outcome => {
    return { event, as: 'again', dueAt, spent, aside: dueAt > (failedAt ?? now) + handler.laneHoldMs, error: text };
  };
  const delayMs = isA(RetryAfter, error) ? Math.min(Math.ceil(error.ms) || 0, LONGEST_DELAY_MS) : 0;
  if (delayMs > 0) return again(now + delayMs, false, message);
  const text = textOf(error, handler.file);
  if (attempts + 1 >= handler.retry.attempts) return { event, as: 'dead', error: text };
  return again(now + backoff(attempts + 1, handler.retry), true, text);
}

/** The error for people: its name, its message and the handler's line. */
export function textOf(error: unknown, file: string): string {
  const { name, message, at } = describe(error, file);
  return `${name}: ${message}${behind(at)}`;
}

/** If the thrown value is a revoked proxy, even `instanceof` throws. */
function isA<Kind extends Error>(kind: new (...args: never[]) => Kind, thrown: unknown): thrown is Kind {
  return orUndefined(() => thrown instanceof kind) === true;
}
