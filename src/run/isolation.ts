// Runs isolated tasks. Their process crashed while they ran, and it is unknown which of them crashed it. They run one
// at a time, so that the next crash shows the task.
import { AsyncLocalStorage } from 'node:async_hooks';
import { retryWhileBusy } from '../store/retry-while-busy.ts';
import { logEnd } from './attempt-log.ts';
import { startAttempt } from './attempt.ts';
import type { RunOptions } from './runner-options.ts';
import type { Scope } from './stray-errors.ts';

/** How long a handler may take to end after its signal is aborted. */
const GRACE_MS = 3_000;

/** Resolves when no isolated task is left, or after `stop` is aborted. An attempt that it cuts off does not count. */
export async function runIsolated(options: RunOptions, stop: AbortSignal): Promise<void> {
  const { store, clock, log, serviceFor, boot, scopes = new AsyncLocalStorage<Scope>() } = options;
  // This process does not register its handlers: only `run` may mark handlers as loaded or waiting.
  const ids = await retryWhileBusy(() => store.idsOf(options.handlers.map(({ name }) => name)));
  const handlers = new Map(options.handlers.map((handler) => [ids.get(handler.name), handler]));
  while (!stop.aborted) {
    const claim = await retryWhileBusy(() => store.claimIsolated(clock.now(), boot, [...ids.values()]));
    const handler = claim && handlers.get(claim.handler);
    if (!handler) return;
    const attempt = startAttempt(claim, handler, { store, serviceFor, clock, log, scopes });
    const giveBack = (): void => {
      attempt.drain();
      setTimeout(() => attempt.abandon(), GRACE_MS);
    };
    stop.addEventListener('abort', giveBack, { once: true });
    const startedAt = clock.monotonic();
    const settlement = await attempt.settled;
    stop.removeEventListener('abort', giveBack);
    const settle = settlement ? [settlement] : [];
    await retryWhileBusy(() => store.turn({ now: clock.now(), boot, settle, fanOut: null, room: 0, handlers: [] }));
    logEnd(options, { claim, handler, settlement, attempt, ms: Math.round(clock.monotonic() - startedAt) }, 'alone: ');
  }
}
