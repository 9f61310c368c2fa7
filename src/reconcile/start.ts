// Starts replay, and the stream if STREAM=on. Without an API key it notes that recovery is off.
import { startLoop } from '../base/loop.ts';
import type { Keep } from '../keep/module.ts';
import { createBudget } from '../service/budget.ts';
import { createCallLimit } from '../service/call-limit.ts';
import { createService } from '../service/service.ts';
import type { Batch } from '../store/ingest.ts';
import { retryWhileBusy } from '../store/retry-while-busy.ts';
import type { ReconcilerOptions } from './pass.ts';
import { createReconciler } from './reconciler.ts';
import { createFollower } from './stream.ts';

type RecoveryOptions = Pick<Keep, 'config' | 'store' | 'clock' | 'log' | 'recover'> &
  Required<Pick<ReconcilerOptions, 'onEvents' | 'silent'>>;

const NONE = { state: 'off', since: null, reason: null };

// oxlint-disable-next-line max-lines-per-function -- wiring: replay and the stream call each other
export async function startRecovery(options: RecoveryOptions) {
  const { config, store, clock, log, recover, onEvents, silent } = options;
  const { API_BASE_URL: baseUrl, API_KEY: apiKey, EVENT_TYPES: types } = config;
  const note = (state: Batch['state']): Promise<void> => retryWhileBusy(() => store.state.note({}, state));
  if (!baseUrl || !apiKey) {
    const off = { ...NONE, lastAt: null, reason: 'API_BASE_URL and API_KEY are not set', progress: null };
    await note({ replay: JSON.stringify(off), stream: JSON.stringify(NONE) });
    log.warn('recovery is off: without API_BASE_URL and API_KEY, missed events are not fetched');
    return undefined;
  }
  // A new store has no state, and an earlier start without a key has left `off`. Both become `idle`.
  const said = await retryWhileBusy(() => store.state.get('replay'));
  if (said === null || said.state === 'off')
    await note({ replay: JSON.stringify({ ...NONE, state: 'idle', lastAt: null, progress: null }) });
  log.info('recovery is on: missed events are fetched');
  const stopping = new AbortController();
  const common = { store, clock, log, types, onEvents };
  const callLimit = createCallLimit({ all: config.API_CALLS_PER_MINUTE, store, clock, log });
  const access = { baseUrl, apiKey, fetch: callLimit.fetch };
  const reconciler = createReconciler({
    ...common,
    service: createService({ ...access, paid: false }),
    budget: createBudget(config.RECONCILE_CALLS_PER_MINUTE, clock, {
      earlier: (await retryWhileBusy(() => store.state.get('calls'))) ?? [],
      onTake: (calls) => void note({ calls: JSON.stringify(calls) }),
      share: callLimit.share,
    }),
    signal: stopping.signal,
    from: config.REPLAY_FROM,
    intervalMs: config.RECONCILE_INTERVAL_SECONDS * 1_000,
    overlapMs: config.RECONCILE_OVERLAP_SECONDS * 1_000,
    silent,
    streaming: () => follower.proves(),
    onAsked: () => void follow(),
  });
  const replay = startLoop(async () => {
    await callLimit.refresh();
    return reconciler.step();
  }, recover);
  /** Starts a forward pass at once. */
  const now = (): void => {
    reconciler.now();
    replay.wake();
  };
  const { fresh, ended } = reconciler;
  const follower = createFollower({ ...common, ...access, onHole: now, fresh, ended });
  let following: Promise<void> | undefined;

  /** Called again when a person asks for a reconciliation, because the service may have refused the stream before. */
  async function follow(): Promise<void> {
    if (config.STREAM === 'off' || following) return;
    following = follower.follow(stopping.signal);
    await following;
    following = undefined;
  }

  if (config.STREAM === 'off') await note({ stream: JSON.stringify(NONE) });
  void follow();
  return {
    /** Call it when an event arrives above the watermark. */
    prove: (): void => {
      reconciler.prove();
      replay.wake();
    },
    now,
    async stop(): Promise<void> {
      stopping.abort();
      await Promise.all([replay.stop(), following]);
    },
  };
}
