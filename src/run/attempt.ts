// One attempt: a handler runs on a claimed task until the task is settled. Whatever the handler does becomes a
// settlement, unless it ends the process. After the end of the attempt, its `ctx` commits nothing and sends no calls.
import { setImmediate as immediate, setTimeout as sleep } from 'node:timers/promises';
import { describe, loggable, noteCaller } from '../base/errors.ts';
import type { Logger } from '../base/log.ts';
import type { Context } from '../kit.ts';
import { StoreError } from '../store/store.ts';
import type { Claim, Settlement, SqlRow, SqlValue, Work } from '../store/work.ts';
import { toKitEvent } from './handler-event.ts';
import type { Loaded } from './load-handlers.ts';
import type { AttemptOptions, ServiceOf } from './runner-options.ts';
import { afterThrow, textOf, withoutRun } from './settlement.ts';
import type { Scope } from './stray-errors.ts';

/** Waits before another try, for faults of the store that may pass. */
const RETRY_MS: Partial<Record<StoreError['code'], number>> = { busy: 10, unwritable: 100 };
/** Limits of a note: bytes of its JSON, characters of its name. */
const NOTE = { bytes: 1_024, name: 100 };
const GONE = 'the claim is gone: this attempt has timed out, or another process was given the task';
const COMPLETED = 'ctx.complete has ended this task: call it once, and ctx.note before it';

export type Attempt = ReturnType<typeof startAttempt>;

export function startAttempt(claim: Claim, handler: Loaded, options: AttemptOptions) {
  // Rejects if the attempt is ended from outside: by a timeout, by a drain that ran out of time, or by a stray error.
  const outside = Promise.withResolvers<never>();
  outside.promise.catch(() => {});
  const context = new AttemptContext(claim, handler, options);
  const scope: Scope = { handler: handler.name, key: claim.event.key, home: handler.file, fail };
  let draining = false;
  let ended = false;
  let failure: { error: unknown } | undefined;

  async function run(): Promise<Settlement | null> {
    const unrun = withoutRun(claim, handler, options.clock.now());
    if (unrun) return unrun;
    const event = toKitEvent(claim.event);
    let timer: NodeJS.Timeout | undefined;
    try {
      const handled = options.scopes.run(scope, () => handler.handle(event, context));
      if (handled !== undefined) {
        timer = setTimeout(() => outside.reject(context.obstacle ?? new Timeout(handler.timeoutMs)), handler.timeoutMs);
        await Promise.race([handled, outside.promise]);
      }
    } catch (error) {
      failure = { error };
    }
    clearTimeout(timer);
    context.end('the attempt has ended');
    context.time();
    context.over = true;
    // A commit may still wait for the disk. Node reports a rejection that nobody handles only after all microtasks.
    if (context.completing && !context.completed) {
      await context.completing;
      await Promise.race([immediate(), outside.promise]).catch((error: unknown) => (failure ??= { error }));
    }
    ended = true;
    if (context.completed) return null;
    if (!failure) return { claim, state: 'done', error: null };
    return afterThrow(failure.error, { claim, handler, now: options.clock.now(), draining });
  }

  function fail(error: unknown): boolean {
    if (ended) return false;
    outside.reject(error);
    return true;
  }

  return {
    /** Resolves to the settlement. Null: `ctx.complete` has settled the task. Never rejects. */
    settled: run().catch((error: unknown): Settlement => ({ claim, state: 'dead', error: describe(error).message })),
    /** Log fields of the handler's error, without its message. Empty: it threw none. */
    thrown: () => (failure ? loggable(failure.error, handler.file) : {}),
    /** The handler's error for people. Undefined: it threw none. */
    why: () => failure && textOf(failure.error, handler),
    /** Call it when the kit stops. It aborts the handler's signal. An attempt that fails now does not count. */
    drain() {
      draining = true;
      context.end('the kit stops');
    },
    abandon: () => outside.reject(new Error('abandoned')),
  };
}

/** The handler's `ctx`. Most handlers use little of it, so costly parts are created on first use. */
class AttemptContext implements Context {
  completed = false;
  /** Resolves when every call of `complete` has ended. Undefined: there was none. */
  completing: Promise<unknown> | undefined;
  /** True: the attempt has ended, and the next attempt of the task may already hold its claim. */
  over = false;
  /** The fault of the store that the handler waits for. */
  obstacle: StoreError | undefined;
  readonly #begunAt: number;
  readonly #claim: Claim;
  readonly #handler: Loaded;
  readonly #options: AttemptOptions;
  #abort: AbortController | undefined;
  #log: Logger | undefined;
  #service: ServiceOf<Context> | undefined;
  #ended: string | undefined;
  #notes: Readonly<Record<string, unknown>> | undefined;

  constructor(claim: Claim, handler: Loaded, options: AttemptOptions) {
    this.#claim = claim;
    this.#handler = handler;
    this.#options = options;
    this.#begunAt = options.clock.monotonic();
  }

  time(): void {
    this.#claim.tookMs = this.#options.clock.monotonic() - this.#begunAt;
  }

  get log(): Logger {
    return (this.#log ??= this.#options.log.child({ handler: this.#handler.name, key: this.#claim.event.key }));
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

  get service(): ServiceOf<Context> {
    // The signal aborts the calls of `ctx.service` when the attempt ends.
    return (this.#service ??= this.#options.serviceFor(this.signal));
  }

  get notes(): Readonly<Record<string, unknown>> {
    return (this.#notes ??= Object.freeze(
      Object.fromEntries(Object.entries(this.#claim.notes).map(([name, text]) => [name, JSON.parse(text) as unknown])),
    ));
  }

  async note(name: string, value: unknown): Promise<void> {
    const text = noteOf(name, value);
    if (this.completed) throw new Error(COMPLETED);
    if (this.over) throw new Error(GONE);
    const held = await this.#persist(() =>
      this.#options.store.noteTask(this.#claim, name, text, this.#options.clock.now()),
    );
    if (!held) throw new Error(GONE);
    this.#notes = Object.freeze({ ...this.notes, [name]: JSON.parse(text) as unknown });
  }

  read(sql: string, ...values: SqlValue[]): Promise<SqlRow[]> {
    return this.#persist(() => this.#options.store.read(sql, values));
  }

  async complete(work: Work): Promise<void> {
    const ended = Promise.withResolvers<void>();
    this.completing = Promise.all([this.completing, ended.promise]);
    // Not the promise of `#complete` itself: then nobody would notice a forgotten `await`, nor know the handler's line.
    try {
      await this.#complete(work);
    } finally {
      ended.resolve();
    }
  }

  async #complete(work: Work): Promise<void> {
    if (this.completed) throw new Error(COMPLETED);
    if (this.over) throw new Error('the claim is gone: this attempt has ended');
    this.time();
    const held = await this.#persist(() => this.#options.store.complete(this.#claim, this.#options.clock.now(), work));
    if (!held) throw new Error(GONE);
    this.completed = true;
  }

  /** Retries until the attempt ends if the store is locked or away: the handler is not to blame. */
  async #persist<Result>(call: () => Promise<Result>): Promise<Result> {
    for (;;) {
      try {
        return await call().finally(() => (this.obstacle = undefined));
      } catch (error) {
        const waitMs = error instanceof StoreError ? RETRY_MS[error.code] : undefined;
        if (waitMs === undefined) noteCaller(error, new Error('called here').stack);
        if (waitMs === undefined || this.over) throw error;
        this.obstacle = error as StoreError;
        await sleep(waitMs);
        if (this.over) throw error;
      }
    }
  }

  end(reason: string): void {
    this.#ended ??= reason;
    this.#abort?.abort(new Error(reason));
  }
}

/** The JSON of a note's value. Throws if the note exceeds its limits. */
function noteOf(name: string, value: unknown): string {
  if (typeof name !== 'string' || name === '' || name.length > NOTE.name || !/^[^\0\p{Cs}]*$/u.test(name))
    throw new Error(`ctx.note: the name must be a string of 1 to ${NOTE.name} characters of Unicode, without NUL`);
  const text = JSON.stringify(value) as string | undefined;
  if (text === undefined) throw new Error(`ctx.note: the value of ${JSON.stringify(name)} has no JSON`);
  if (Buffer.byteLength(text) > NOTE.bytes)
    throw new Error(`ctx.note: the value of ${JSON.stringify(name)} exceeds ${NOTE.bytes} bytes of JSON`);
  return text;
}

export class Timeout extends Error {
  constructor(limitMs: number) {
    super(`no result within ${limitMs} ms`);
    this.name = 'Timeout';
  }
}
