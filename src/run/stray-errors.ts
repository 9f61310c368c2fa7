// Traces an uncaught error, an unhandled rejection or an exit to its scope: the attempt or the handler file that
// started it.
import type { AsyncLocalStorage } from 'node:async_hooks';
import { describe, EXIT, handlersLine, noteCaller } from '../base/errors.ts';
import type { ExitCause } from '../processes/channel.ts';

/** The owner of asynchronous work: an attempt, or the loading or setup of a file. */
export interface Scope {
  handler?: string;
  key?: string;
  file?: string;
  /** The file of the handler at work, for an error without a line of it. */
  home?: string | null;
  /** Makes the scope fail with this error. False: the scope has already ended, so nothing fails. */
  fail(error: unknown): boolean;
}

export interface TraceOptions {
  scopes: AsyncLocalStorage<Scope>;
  /** Called for a rejection without a scope, or of a scope that has ended. The process goes on. */
  onStray: (scope: Partial<ExitCause>, error: unknown, home: string | null) => void;
  /** Called synchronously before this process ends, unless the kit itself ends it. */
  onEnd: (cause: ExitCause, error?: unknown) => void;
}

export function traceErrors({ scopes, onStray, onEnd }: TraceOptions): void {
  let ending = false;
  process.on('unhandledRejection', (error) => {
    const scope = scopes.getStore();
    if (!scope?.fail(error)) onStray(namesOf(scope), error, scope?.home ?? null);
  });
  process.on('uncaughtException', (error) => {
    const scope = scopes.getStore();
    if (scope?.fail(error)) return;
    ending = true;
    const { at } = describe(error, scope?.home);
    onEnd({ ...namesOf(scope), code: EXIT.failed, at, how: 'threw' }, error);
    process.exit(EXIT.failed);
  });
  process.on('exit', (code) => {
    const scope = scopes.getStore();
    const at = handlersLine(new Error('exit').stack);
    const byKit = !scope && !at;
    if (!ending && !byKit) onEnd({ ...namesOf(scope), code, at: at ?? scope?.home ?? null, how: 'exited' });
  });
}

/** Errors of `fetch` have no stack, so the line of the call is noted. */
export function traceFetch(): void {
  const { fetch } = globalThis;
  globalThis.fetch = (...request) => {
    const called = new Error('called here');
    return fetch(...request).catch((error: unknown) => {
      noteCaller(error, called.stack);
      throw error;
    });
  };
}

function namesOf(scope: Scope | undefined): Partial<ExitCause> {
  const { handler, key, file } = scope ?? {};
  return { ...(handler && { handler }), ...(key && { key }), ...(file && { file }) };
}
