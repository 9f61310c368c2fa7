// Tasks whose process died under them, one at a time: when this process dies too, it is known which one did it.
import { AsyncLocalStorage } from 'node:async_hooks';
import { patiently } from '../store/patiently.ts';
import { startAttempt } from './attempt.ts';
import { VERDICTS, type RunnerOptions } from './runner.ts';

export async function startSolo(options: RunnerOptions): Promise<void> {
  const { store, clock, log, service, boot } = options;
  const ids = await store.register(options.handlers.map(({ name }) => name));
  const handlers = new Map(options.handlers.map((handler) => [ids.get(handler.name) ?? 0, handler]));
  const blame = new AsyncLocalStorage<(error: unknown) => void>();
  process.on('unhandledRejection', (error) => blame.getStore()?.(error));
  for (;;) {
    const claim = await patiently(() => store.claimSuspect(clock.now(), boot, [...handlers.keys()]));
    const handler = claim && handlers.get(claim.handler);
    if (!handler) return;
    const attempt = startAttempt(claim, handler, { store, service, clock, log, blame });
    const settlement = await attempt.settled;
    const settle = settlement ? [settlement] : [];
    await patiently(() => store.turn({ now: clock.now(), boot, settle, assign: null, room: 0, handlers: [] }));
    const { verdict, level, words } = VERDICTS[settlement?.state ?? 'done'];
    const { key, type } = claim.event;
    log[level](
      { key, type, handler: handler.name, attempt: claim.attempt, verdict, ...attempt.thrown() },
      `alone: ${words}`,
    );
  }
}
