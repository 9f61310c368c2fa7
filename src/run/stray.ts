// Scopes: an unawaited error, or a call that would end the process, fails only the attempt or file that it comes from.
import type { AsyncLocalStorage } from 'node:async_hooks';
import { syncBuiltinESMExports } from 'node:module';
import { setImmediate as immediate } from 'node:timers/promises';
import { systemClock } from '../base/clock.ts';
import { EXIT, loggable } from '../base/errors.ts';
import { StoreError } from '../store/store.ts';
import { createThrottle, type Logger } from '../base/log.ts';
import { ConfigError } from '../config.ts';

/** One attempt, the loading or setup of a file, or the calls of a lane function. It may fail until it is closed. */
export class Scope {
  /** The handler's file: the place of an error that has no line of the handler. */
  readonly file: string;
  /** For the log. */
  readonly about: { handler?: string; key?: string };
  /** The first failure. */
  failure: { error: unknown } | undefined;
  #isClosed = false;
  #failed: PromiseWithResolvers<void> | undefined;

  constructor(file: string, about: Scope['about'] = {}) {
    this.file = file;
    this.about = about;
  }

  /** False: the scope is closed, so it does not fail. */
  fail(error: unknown): boolean {
    if (this.#isClosed) return false;
    this.failure ??= { error };
    this.#failed?.resolve();
    return true;
  }

  /** Waits until the work ends, its time is over, or the scope fails. Throws what the work throws. */
  async wait(work: unknown, limitMs: number): Promise<void> {
    this.#failed = Promise.withResolvers<void>();
    if (this.failure) this.#failed.resolve();
    const timer = setTimeout(() => this.fail(new Timeout(limitMs)), limitMs);
    try {
      await Promise.race([work, this.#failed.promise]);
    } finally {
      clearTimeout(timer);
    }
  }

  /** Throws the scope's failure. Waits first, because Node reports unawaited rejections only after all microtasks. */
  async check(): Promise<void> {
    await immediate();
    if (this.failure) throw this.failure.error;
  }

  close(): void {
    this.#isClosed = true;
  }
}

class Timeout extends Error {
  constructor(limitMs: number) {
    super(`no result within ${limitMs} ms`);
    this.name = 'Timeout';
  }
}

/** Changes `process` for good: call it once. */
export function traceErrors({ scopes, log }: { scopes: AsyncLocalStorage<Scope>; log: Logger }): void {
  const throttle = createThrottle(systemClock);

  /** Gives the error to its scope. If that is closed or missing, the error is only logged. */
  function give(error: unknown, scope: Scope | undefined): void {
    if (scope?.fail(error)) return;
    const words = scope
      ? 'work that a handler left behind has failed: await every promise, clear every timer'
      : 'a rejection is unhandled: await every promise';
    if (throttle(scope?.about.handler ?? '')) log.error({ ...scope?.about, ...loggable(error, scope?.file) }, words);
  }

  process.on('unhandledRejection', (error) => give(error, scopes.getStore()));
  process.on('uncaughtException', (error) => {
    const scope = scopes.getStore();
    if (scope) return give(error, scope);
    const isForPeople = error instanceof ConfigError || error instanceof StoreError;
    log.fatal(loggable(error), isForPeople ? error.message : 'an uncaught error ends this process');
    process.exit(error instanceof StoreError ? EXIT.unreachable : EXIT.failed);
  });

  for (const name of ['exit', 'abort', 'reallyExit'] as const) {
    const original = Reflect.get(process, name) as (...args: unknown[]) => unknown;
    Reflect.set(process, name, (...args: unknown[]): unknown => {
      const scope = scopes.getStore();
      if (!scope) return original.apply(process, args);
      const error = new Error(`called process.${name}, which would end all handlers: throw an error instead`);
      give(error, scope);
      throw error;
    });
  }
  // With this, `import { exit } from 'node:process'` gets the guarded function too.
  syncBuiltinESMExports();
  // A handler that replaced a method of these would change the kit and every other handler.
  for (const shared of [JSON, Date, Math, Promise, Object, Array, Map, Set, Number, String, Buffer, process.hrtime])
    Object.freeze(shared);
}
