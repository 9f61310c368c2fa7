// One run of a handler on a task, from the claim to what is to be settled. Whatever the handler does short of ending
// the process comes out as a settlement; whatever it does after that is fenced off.
import type { AsyncLocalStorage } from 'node:async_hooks';
import type { Clock } from '../clock.ts';
import { describe, loggable } from '../errors.ts';
import { eventTypes } from '../events.ts';
import type { Context, KitEvent } from '../kit.ts';
import type { Logger } from '../log.ts';
import type { Service } from '../service/service.ts';
import type { Claim, Settlement, TaskStore } from '../store/store.ts';
import { toKitEvent } from './assign.ts';
import { backoff } from './backoff.ts';
import type { Loaded } from './load.ts';
import { Dead, RetryAfter, Skip } from './verdicts.ts';

/** RetryAfter puts a task off for this long at the most, all its delays together. */
const DEFERRED_MS = 86_400_000;

export interface AttemptOptions {
  store: Pick<TaskStore, 'complete'>;
  service: Service;
  clock: Clock;
  log: Logger;
  /** Finds the attempt in whose course something went astray. */
  blame: AsyncLocalStorage<(error: unknown) => void>;
}

export interface Attempt {
  /** Resolves to what is to be settled; null where `ctx.complete` has done it. Never rejects. */
  settled: Promise<Settlement | null>;
  /** The kit stops: tells the handler, and gives the attempt back unless it still succeeds. */
  drain(): void;
  /** Waits no longer for the handler. */
  abandon(): void;
}

export function startAttempt(claim: Claim, handler: Loaded, options: AttemptOptions): Attempt {
  const { clock } = options;
  const abort = new AbortController();
  // What ends the attempt from outside: a timeout, a drain, a rejection that nobody awaited.
  const outside = Promise.withResolvers<never>();
  outside.promise.catch(() => {});
  let draining = false;
  let completed = false;

  async function run(): Promise<Settlement | null> {
    const { retry } = handler;
    // Its process died under the last attempt that it had.
    if (claim.attempt > retry.attempts) return { claim, state: 'dead', error: claim.error ?? 'no attempts left' };
    let event: KitEvent;
    try {
      event = toKitEvent(claim.event);
    } catch (error) {
      return { claim, state: 'dead', error: describe(error).message };
    }
    const mismatch = mismatchOf(event);
    if (mismatch) return { claim, state: 'dead', error: mismatch };
    const stale = staleness(claim, handler, clock.now());
    if (stale && handler.onStale !== 'run') return { claim, state: handler.onStale === 'skip' ? 'skipped' : 'dead', error: stale };

    const timer = setTimeout(() => outside.reject(new Timeout(handler.timeoutMs)), handler.timeoutMs);
    try {
      const handled = options.blame.run(outside.reject, () => handler.handle(event, contextOf(event)));
      if (handled !== undefined) await Promise.race([handled, outside.promise]);
      return completed ? null : { claim, state: 'done', error: null };
    } catch (error) {
      if (completed) return null;
      return verdictOf(error);
    } finally {
      clearTimeout(timer);
      if (!abort.signal.aborted) abort.abort(new Error('the attempt has ended'));
    }
  }

  function verdictOf(error: unknown): Settlement {
    const { name, message } = describe(error);
    if (error instanceof Skip) return { claim, state: 'skipped', error: message };
    if (error instanceof Dead) return { claim, state: 'dead', error: message };
    const again = { claim, state: 'ready', holdMs: handler.laneHoldMs } as const;
    if (draining) return { ...again, error: claim.error, dueAt: clock.now(), spent: false };
    if (error instanceof RetryAfter) {
      const deferredMs = Math.max(0, Math.min(Number(error.ms) || 0, DEFERRED_MS - claim.deferredMs));
      if (deferredMs > 0) return { ...again, error: message, dueAt: clock.now() + deferredMs, spent: false, deferredMs };
    }
    const text = `${name}: ${message}`;
    if (claim.attempt >= handler.retry.attempts) return { claim, state: 'dead', error: text };
    return { ...again, error: text, dueAt: clock.now() + backoff(claim.attempt, handler.retry), spent: true };
  }

  function contextOf(event: KitEvent): Context {
    const { createdAt } = claim.event;
    return {
      log: options.log.child({ handler: handler.name, key: event.key }),
      signal: abort.signal,
      attempt: claim.attempt,
      late: claim.late,
      unproven: false,
      lagMs: createdAt === null ? null : Math.max(0, clock.now() - createdAt),
      idempotencyKey: `${handler.name}/${event.key}`,
      service: options.service,
      async complete(work) {
        const held = await options.store.complete(claim, clock.now(), work);
        if (!held) throw new Error('the claim is gone: this attempt has timed out, or another process was given the task');
        completed = true;
      },
    };
  }

  return {
    settled: run().catch((error: unknown) => {
      options.log.error({ handler: handler.name, ...loggable(error) }, 'an attempt could not be judged');
      return verdictOf(error);
    }),
    drain() {
      draining = true;
      abort.abort(new Error('the kit stops'));
    },
    abandon: () => outside.reject(new Error('abandoned')),
  };
}

class Timeout extends Error {
  constructor(limitMs: number) {
    super(`no result within ${limitMs} ms`);
    this.name = 'Timeout';
  }
}

/** The exact place where the data does not fit its type in src/events.ts, or undefined. */
export function mismatchOf(event: KitEvent): string | undefined {
  if (!Object.hasOwn(eventTypes, event.type)) return undefined;
  const parsed = eventTypes[event.type as keyof typeof eventTypes].data.safeParse(event.data);
  if (parsed.success) return undefined;
  const [issue] = parsed.error.issues;
  return `data does not fit ${event.type} in src/events.ts: ${issue?.path.join('.')}: ${issue?.message}`;
}

/** Why it is too old to act on, or undefined. What was recovered, with no age known, counts as old. */
export function staleness({ event }: Claim, { maxAgeMs }: Pick<Loaded, 'maxAgeMs'>, now: number): string | undefined {
  if (maxAgeMs === null) return undefined;
  if (event.createdAt === null) {
    return event.origin === 'replay' || event.origin === 'stream' ? 'stale: recovered, of unknown age' : undefined;
  }
  const age = now - event.createdAt;
  return age > maxAgeMs ? `stale: ${Math.round(age / 1000)} s old, at most ${Math.round(maxAgeMs / 1000)} s wanted` : undefined;
}
