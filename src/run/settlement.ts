// How an attempt settles its task: by the handler's outcome, the attempts that are left, and the event's age.
import { describe, behind, orUndefined } from '../base/errors.ts';
import { backoff } from '../base/retry-policy.ts';
import { Dead, RetryAfter, Skip } from '../kit.ts';
import type { Claim, Settlement } from '../store/work.ts';
import { mismatchOf } from './handler-event.ts';
import type { Loaded } from './load-handlers.ts';

/** Maximum delay of a task by RetryAfter, over all its attempts. */
const DEFERRED_MS = 86_400_000;

/** The settlement of a task whose handler must not run. Undefined: it may run. Throws if the body was purged. */
export function withoutRun(claim: Claim, handler: Loaded, now: number): Settlement | undefined {
  // No attempts are left, because the process crashed during the last one.
  if (claim.attempt > handler.retry.attempts)
    return { claim, state: 'dead', error: claim.error ?? 'no attempts left', spent: false };
  const mismatch = mismatchOf(claim.event);
  if (mismatch) return { claim, state: 'dead', error: mismatch };
  const stale = staleness(claim, handler, now);
  if (!stale || handler.onStale === 'run') return undefined;
  return { claim, state: handler.onStale === 'skip' ? 'skipped' : 'dead', error: stale };
}

/** Why the event is too old to act on, or undefined. A recovered event of unknown age counts as too old. */
export function staleness({ event }: Claim, { maxAgeMs }: Pick<Loaded, 'maxAgeMs'>, now: number): string | undefined {
  if (maxAgeMs === null) return undefined;
  const recovered = event.origin === 'replay' || event.origin === 'stream';
  const happenedAt = event.createdAt ?? (event.live ? event.receivedAt : null);
  if (happenedAt === null) return recovered ? 'stale: recovered, of unknown age' : undefined;
  const age = now - happenedAt;
  return age > maxAgeMs
    ? `stale: ${Math.round(age / 1000)} s old, at most ${Math.round(maxAgeMs / 1000)} s wanted`
    : undefined;
}

/** The settlement after the handler threw. While the kit stops, a failed attempt does not count. */
export function afterThrow(
  error: unknown,
  { claim, handler, now, draining }: { claim: Claim; handler: Loaded; now: number; draining: boolean },
): Settlement {
  const { message } = describe(error);
  if (isA(Skip, error)) return { claim, state: 'skipped', error: message };
  if (isA(Dead, error)) return { claim, state: 'dead', error: message };
  if (draining) return giveBack(claim, now);
  const again = { claim, state: 'ready', holdMs: handler.laneHoldMs } as const;
  if (isA(RetryAfter, error)) {
    const deferredMs = Math.max(0, Math.min(Math.ceil(error.ms) || 0, DEFERRED_MS - claim.deferredMs));
    if (deferredMs > 0) return { ...again, error: message, dueAt: now + deferredMs, spent: false, deferredMs };
  }
  const text = textOf(error, handler);
  if (claim.attempt >= handler.retry.attempts) return { claim, state: 'dead', error: text };
  return { ...again, error: text, dueAt: now + backoff(claim.attempt, handler.retry) };
}

/** The error for people: its message and the handler's line. */
export function textOf(error: unknown, { file }: Pick<Loaded, 'file'>): string {
  const { name, message, at } = describe(error, file);
  return `${name}: ${message}${behind(at)}`;
}

/** Makes the task ready again, without counting the attempt. */
export function giveBack(claim: Claim, now: number): Settlement {
  return { claim, state: 'ready', error: claim.error, dueAt: now, holdMs: null, spent: false };
}

/** For a revoked proxy even `instanceof` throws. */
function isA<Kind extends Error>(kind: new (...args: never[]) => Kind, thrown: unknown): thrown is Kind {
  return orUndefined(() => thrown instanceof kind) === true;
}
