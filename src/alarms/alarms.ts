// The alarms of `keep`. `step` evaluates the rules, and `notify` posts alarms to ALERT_URL. The facts come from the
// store, so that alarms are also raised while the process `run` is down.
import { evaluate } from './rules/rule.ts';
import { KEEP_RULES } from './rules/index.ts';
import type { Observation } from './rules/observation.ts';
import { explainSilence } from './rules/webhook-silent.ts';
import type { Logger } from '../base/log.ts';
import { MISMATCH_FROM } from '../receive/bad-signatures.ts';
import { orNone } from '../store/or-none.ts';
import type { Alarm } from '../store/read.ts';
import { createNotifier } from './notifier.ts';
import type { Compose } from './post.ts';
import { createObserver, type ObserverOptions } from './observer.ts';
import { createRaised } from './raised.ts';
import { RECENT_MS } from './recent-counters.ts';

/** Minimum interval between reconciliations that are started because of bad signatures. */
const ASK_REPLAY_MS = 20_000;

export interface AlarmsOptions extends ObserverOptions {
  log: Logger;
  alertUrl: string | undefined;
  compose: Compose;
  /** How `npx kit` is typed, so that it finds this store. */
  kit?: string;
  /** Starts a reconciliation at once, because replay shows whether deliveries are missing. */
  reconcileNow?: (() => void) | undefined;
  /** Aborts the post in progress. */
  signal?: AbortSignal | undefined;
}

export type Alarms = ReturnType<typeof createAlarms>;

export function createAlarms(options: AlarmsOptions) {
  const { store, clock, log, alertUrl, compose, reconcileNow, signal } = options;
  const raised = createRaised({ clock, log, notifier: createNotifier({ url: alertUrl, compose, clock, log, signal }) });
  const look = createObserver(options);
  let restored = false;
  let silent = false;
  let askedAfter = -Infinity;

  async function restore(): Promise<void> {
    if (restored) return;
    raised.restore(await store.alarms.raised());
    restored = true;
  }

  function askReplay(seen: Observation): void {
    const wasSilent = silent;
    silent = explainSilence(seen) !== null;
    const doubtful = mayBeTheServices(seen) && clock.monotonic() - askedAfter >= ASK_REPLAY_MS;
    if (doubtful) askedAfter = clock.monotonic();
    if (doubtful || (wasSilent && !silent)) reconcileNow?.();
  }

  async function save(): Promise<void> {
    await orNone(() => raised.save(store));
  }

  return {
    /** Evaluates the rules, also while the store cannot be read or written. */
    step: async (): Promise<void> => {
      await orNone(restore);
      const { seen, read } = await look(raised.up());
      if (read) askReplay(seen);
      raised.update(evaluate(KEEP_RULES, seen, options.kit));
      await save();
    },
    /** Posts new, risen and ended alarms, and daily reminders. Resolves when all posts have succeeded or failed. */
    notify: async (): Promise<void> => {
      await raised.notify();
      await save();
    },
    up: (): Alarm[] => raised.up(),
    /** Whether webhooks were silent at the last step. */
    silent: (): boolean => silent,
  };
}

/**
 * Whether bad signatures may come from the service. Only recent ones count, so that old ones cost no replay calls.
 */
function mayBeTheServices({ now, status: { failures } }: Observation): boolean {
  const { badSignatures, lastBadAt } = failures;
  return badSignatures >= MISMATCH_FROM && lastBadAt !== null && now - Date.parse(lastBadAt) <= RECENT_MS;
}
