// Tasks whose process died under them, one at a time: when this process dies too, it is known which one did it.
import { AsyncLocalStorage } from 'node:async_hooks';
import { retryWhileBusy } from '../store/retry-while-busy.ts';
import { logEnd } from './attempt-log.ts';
import { startAttempt } from './attempt.ts';
import type { RunnerOptions } from './runner.ts';
import type { Course } from './trace.ts';

/** For the handler to end after it was told to. */
const GRACE_MS = 3_000;

/** Resolves when there is none left, or when it is told to stop; the attempt at work is given back then. */
export async function startSolo(options: RunnerOptions, stop: AbortSignal): Promise<void> {
  const { store, clock, log, serviceFor, boot, courses = new AsyncLocalStorage<Course>() } = options;
  // Which handlers are loaded, and which wait, is for `run` to say.
  const ids = await retryWhileBusy(() => store.idsOf(options.handlers.map(({ name }) => name)));
  const handlers = new Map(
    options.handlers.flatMap((handler) => {
      const id = ids.get(handler.name);
      return id === undefined ? [] : [[id, handler] as const];
    }),
  );
  while (!stop.aborted) {
    const claim = await retryWhileBusy(() => store.claimIsolated(clock.now(), boot, [...handlers.keys()]));
    const handler = claim && handlers.get(claim.handler);
    if (!handler) return;
    const attempt = startAttempt(claim, handler, { store, serviceFor, clock, log, courses });
    const giveBack = (): void => {
      attempt.drain();
      setTimeout(() => attempt.abandon(), GRACE_MS);
    };
    stop.addEventListener('abort', giveBack, { once: true });
    const startedAt = clock.monotonic();
    const settlement = await attempt.settled;
    stop.removeEventListener('abort', giveBack);
    const settle = settlement ? [settlement] : [];
    await retryWhileBusy(() => store.turn({ now: clock.now(), boot, settle, assign: null, room: 0, handlers: [] }));
    logEnd(options, { claim, handler, settlement, attempt, ms: Math.round(clock.monotonic() - startedAt) }, 'alone: ');
  }
}
