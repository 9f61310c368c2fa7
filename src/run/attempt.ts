// One run of a handler on a task, from the claim to what is to be settled. Whatever the handler does short of ending
// the process comes out as a settlement; whatever it does after that is fenced off.
import type { AsyncLocalStorage } from 'node:async_hooks';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Clock } from '../base/clock.ts';
import { behind, describe, loggable } from '../base/errors.ts';
import type { Logger } from '../base/log.ts';
import { StoreError } from '../store/store.ts';
import type { Claim, Settlement, WorkStore, Tx } from '../store/work.ts';
import { mismatchOf, toKitEvent } from './assign.ts';
import { backoff } from '../base/backoff.ts';
import type { Loaded } from './load.ts';
import type { Course } from './trace.ts';
import { Dead, RetryAfter, Skip, type Context } from '../kit.ts';

/** RetryAfter puts a task off for this long at the most, all its delays together. */
const DEFERRED_MS = 86_400_000;
const LOCKED_MS = 10;

/** The service's client for one attempt: its calls end with this signal. */
export type ServiceFor = (ends: AbortSignal) => Context['service'];

export interface AttemptOptions {
  store: Pick<WorkStore, 'complete'>;
  serviceFor: ServiceFor;
  clock: Clock;
  log: Logger;
  /** Finds the attempt in whose course something went astray. */
  courses: AsyncLocalStorage<Course>;
}

export interface Attempt {
  /** Resolves to what is to be settled; null where `ctx.complete` has done it. Never rejects. */
  settled: Promise<Settlement | null>;
  /** What the handler threw, fit for a log. */
  thrown: () => object;
  /** The kit stops: tells the handler, and gives the attempt back unless it still succeeds. */
  drain(): void;
  /** Waits no longer for the handler. */
  abandon(): void;
}

export function startAttempt(claim: Claim, handler: Loaded, options: AttemptOptions): Attempt {
  const { clock } = options;
  // What ends the attempt from outside: a timeout, a drain, a rejection that nobody awaited.
  const outside = Promise.withResolvers<never>();
  outside.promise.catch(() => {});
  const context = new AttemptContext(claim, handler, options);
  const course = { handler: handler.name, key: claim.event.key, fail };
  let draining = false;
  let thrown: object = {};

  async function run(): Promise<Settlement | null> {
    const { retry } = handler;
    // Its process died under the last attempt that it had.
    if (claim.attempt > retry.attempts)
      return { claim, state: 'dead', error: claim.error ?? 'no attempts left', spent: false };
    const event = toKitEvent(claim.event);
    const mismatch = mismatchOf(claim.event);
    if (mismatch) return { claim, state: 'dead', error: mismatch };
    const stale = staleness(claim, handler, clock.now());
    if (stale && handler.onStale !== 'run')
      return { claim, state: handler.onStale === 'skip' ? 'skipped' : 'dead', error: stale };

    let timer: NodeJS.Timeout | undefined;
    try {
      const handled = options.courses.run(course, () => handler.handle(event, context));
      if (handled !== undefined) {
        timer = setTimeout(() => outside.reject(new Timeout(handler.timeoutMs)), handler.timeoutMs);
        await Promise.race([handled, outside.promise]);
      }
      return context.completed ? null : { claim, state: 'done', error: null };
    } catch (error) {
      thrown = loggable(error);
      return context.completed ? null : verdictOf(error);
    } finally {
      clearTimeout(timer);
      context.end('the attempt has ended');
      context.over = true;
    }
  }

  function fail(error: unknown): boolean {
    if (context.over) return false;
    outside.reject(error);
    return true;
  }

  function verdictOf(error: unknown): Settlement {
    const { name, message, at } = describe(error);
    if (isA(Skip, error)) return { claim, state: 'skipped', error: message };
    if (isA(Dead, error)) return { claim, state: 'dead', error: message };
    const again = { claim, state: 'ready', holdMs: handler.laneHoldMs } as const;
    if (draining) return { ...again, holdMs: null, error: claim.error, dueAt: clock.now(), spent: false };
    if (isA(RetryAfter, error)) {
      const deferredMs = Math.max(0, Math.min(Math.ceil(error.ms) || 0, DEFERRED_MS - claim.deferredMs));
      if (deferredMs > 0)
        return { ...again, error: message, dueAt: clock.now() + deferredMs, spent: false, deferredMs };
    }
    const text = `${name}: ${message}${behind(at)}`;
    if (claim.attempt >= handler.retry.attempts) return { claim, state: 'dead', error: text };
    return { ...again, error: text, dueAt: clock.now() + backoff(claim.attempt, handler.retry) };
  }

  return {
    settled: run().catch((error: unknown): Settlement => ({ claim, state: 'dead', error: describe(error).message })),
    thrown: () => thrown,
    drain() {
      draining = true;
      context.end('the kit stops');
    },
    abandon: () => outside.reject(new Error('abandoned')),
  };
}

/** What a handler is given. Most use little of it, so that what costs something is made when it is first asked for. */
class AttemptContext implements Context {
  completed = false;
  /** What comes after this has no attempt to belong to: the same claim may be held again by the next. */
  over = false;
  readonly #claim: Claim;
  readonly #handler: Loaded;
  readonly #options: AttemptOptions;
  #abort: AbortController | undefined;
  #log: Logger | undefined;
  #service: Context['service'] | undefined;
  #ended: string | undefined;

  constructor(claim: Claim, handler: Loaded, options: AttemptOptions) {
    this.#claim = claim;
    this.#handler = handler;
    this.#options = options;
  }

  get log(): Logger {
    this.#log ??= this.#options.log.child({ handler: this.#handler.name, key: this.#claim.event.key });
    return this.#log;
  }

  get signal(): AbortSignal {
    this.#abort ??= new AbortController();
    if (this.#ended) this.#abort.abort(new Error(this.#ended));
    return this.#abort.signal;
  }

  get attempt(): number {
    return this.#claim.attempt;
  }

  get late(): boolean {
    return this.#claim.late;
  }

  get unproven(): boolean {
    return this.#claim.unproven;
  }

  get lagMs(): number | null {
    const { createdAt } = this.#claim.event;
    return createdAt === null ? null : Math.max(0, this.#options.clock.now() - createdAt);
  }

  get idempotencyKey(): string {
    return `${this.#handler.name}/${this.#claim.event.key}`;
  }

  get service(): Context['service'] {
    // What an attempt has not sent when it ends is not sent any more.
    this.#service ??= this.#options.serviceFor(this.signal);
    return this.#service;
  }

  async complete(work: (tx: Tx) => void): Promise<void> {
    if (this.over) throw new Error('the claim is gone: this attempt has ended');
    const held = await this.#completed(work);
    if (!held) throw new Error('the claim is gone: this attempt has timed out, or another process was given the task');
    this.completed = true;
  }

  /** A lock held elsewhere is waited for, and costs no attempt, for as long as this one lasts. */
  async #completed(work: (tx: Tx) => void): Promise<boolean> {
    for (;;) {
      try {
        return await this.#options.store.complete(this.#claim, this.#options.clock.now(), work);
      } catch (error) {
        if (!(error instanceof StoreError) || error.code !== 'busy' || this.over) throw error;
        await sleep(LOCKED_MS);
        if (this.over) throw error;
      }
    }
  }

  end(reason: string): void {
    this.#ended ??= reason;
    this.#abort?.abort(new Error(reason));
  }
}

/** What is thrown can be so odd that even asking what it is throws. */
function isA<Kind extends Error>(kind: new (...args: never[]) => Kind, thrown: unknown): thrown is Kind {
  try {
    return thrown instanceof kind;
  } catch {
    return false;
  }
}

class Timeout extends Error {
  constructor(limitMs: number) {
    super(`no result within ${limitMs} ms`);
    this.name = 'Timeout';
  }
}

/** Why it is too old to act on, or undefined. What was recovered, with no age known, counts as old. */
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
