// Tasks whose process died under them, one at a time: when this process dies too, it is known which one did it.
import { AsyncLocalStorage } from 'node:async_hooks';
import { patiently } from '../store/patiently.ts';
import { startAttempt, type Blame } from './attempt.ts';
import { logEnd, traceStray, type RunnerOptions } from './runner.ts';

/** For the handler to end after it was told to. */
const GRACE_MS = 3_000;

/** Resolves when there is none left, or when it is told to stop; the attempt at work is given back then. */
export async function startSolo(options: RunnerOptions, stop: AbortSignal): Promise<void> {
  const { store, clock, log, service, boot } = options;
  const ids = await patiently(() => store.register(options.handlers.map(({ name }) => name)));
  const handlers = new Map(options.handlers.map((handler) => [ids.get(handler.name) ?? 0, handler]));
  const blame = new AsyncLocalStorage<Blame>();
  traceStray((error) => blame.getStore()?.(error) ?? false, log, clock);
  while (!stop.aborted) {
    const claim = await patiently(() => store.claimSuspect(clock.now(), boot, [...handlers.keys()]));
    const handler = claim && handlers.get(claim.handler);
    if (!handler) return;
    const attempt = startAttempt(claim, handler, { store, service, clock, log, blame });
    const giveBack = (): void => {
      attempt.drain();
      setTimeout(() => attempt.abandon(), GRACE_MS);
    };
    stop.addEventListener('abort', giveBack, { once: true });
    const settlement = await attempt.settled;
    stop.removeEventListener('abort', giveBack);
    const settle = settlement ? [settlement] : [];
    await patiently(() => store.turn({ now: clock.now(), boot, settle, assign: null, room: 0, handlers: [] }));
    logEnd(options, { claim, handler, settlement, attempt, ms: clock.now() - claim.startedAt }, 'alone: ');
  }
}
