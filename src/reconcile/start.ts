// Puts together what fetches events: replay, and the stream where it is wanted; or says that recovery is off.
import type { Clock } from '../base/clock.ts';
import type { Config } from '../config.ts';
import type { Logger } from '../base/log.ts';
import { startLoop } from '../base/loop.ts';
import { createBudget } from '../service/budget.ts';
import { createService } from '../service/service.ts';
import { retryWhileBusy } from '../store/retry-while-busy.ts';
import type { KeepStore } from '../store/keep.ts';
import { createReconciler } from './reconciler.ts';
import { createFollower } from './stream.ts';

export interface RecoveryOptions {
  config: Config;
  store: KeepStore;
  clock: Clock;
  log: Logger;
  /** Milliseconds until the next try after an error of the store. */
  recover: (error: unknown) => number;
  onEvents: () => void;
  /** Webhooks are silent. */
  silent: () => boolean;
}

export interface Recovery {
  /** Something arrived that waits for proof. */
  prove(): void;
  /** Reads forward at once. */
  now(): void;
  stop(): Promise<void>;
}

/** Undefined where no key is set. */
export async function startRecovery(options: RecoveryOptions): Promise<Recovery | undefined> {
  const { config, store, clock, log, recover, onEvents, silent } = options;
  const { API_BASE_URL: baseUrl, API_KEY: apiKey, EVENT_TYPES: types } = config;
  const none = { state: 'off', since: null, reason: null };
  if (!baseUrl || !apiKey) {
    const off = { ...none, lastAt: null, reason: 'API_BASE_URL and API_KEY are not set', progress: null };
    await retryWhileBusy(() => store.note({}, { replay: JSON.stringify(off), stream: JSON.stringify(none) }));
    log.warn('recovery is off: without API_BASE_URL and API_KEY, what webhooks miss stays missing');
    return undefined;
  }
  // A start without a key may have left that recovery is off; and a new store says nothing yet.
  const said = await retryWhileBusy(() => store.replayState());
  if (said === null || said.state === 'off') {
    const on = { ...none, state: 'idle', lastAt: null, progress: null };
    await retryWhileBusy(() => store.note({}, { replay: JSON.stringify(on) }));
  }
  const stopping = new AbortController();
  const common = { store, clock, log, types, onEvents };
  const reconciler = createReconciler({
    ...common,
    service: createService({ baseUrl, apiKey, paid: false }),
    budget: createBudget(config.RECONCILE_CALLS_PER_MINUTE, clock, {
      earlier: (await retryWhileBusy(() => store.calls())) ?? [],
      onTake: (calls) => void retryWhileBusy(() => store.note({}, { calls: JSON.stringify(calls) })),
    }),
    signal: stopping.signal,
    from: config.REPLAY_FROM,
    intervalMs: config.RECONCILE_INTERVAL_SECONDS * 1_000,
    overlapMs: config.RECONCILE_OVERLAP_SECONDS * 1_000,
    silent,
    streaming: () => follower.proves(),
    onAsked: () => void follow(),
  });
  const replay = startLoop(() => reconciler.step(), recover);
  const now = (): void => {
    reconciler.now();
    replay.wake();
  };
  const follower = createFollower({
    ...common,
    baseUrl,
    apiKey,
    onHole: now,
    fresh: () => reconciler.fresh(),
    ended: () => reconciler.ended(),
  });
  let following: Promise<void> | undefined;

  /** Also again, where the service has refused it and somebody asks. */
  async function follow(): Promise<void> {
    if (config.STREAM === 'off' || following) return;
    following = follower.follow(stopping.signal);
    await following;
    following = undefined;
  }

  if (config.STREAM === 'off') await retryWhileBusy(() => store.note({}, { stream: JSON.stringify(none) }));
  void follow();
  return {
    prove() {
      reconciler.prove();
      replay.wake();
    },
    now,
    async stop() {
      stopping.abort();
      await Promise.all([replay.stop(), following]);
    },
  };
}
