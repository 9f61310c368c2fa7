// The pace of all calls, learned from the service, because a key may have a limit that the kit does not know (contract
// 5.6). An answer 429 halves the pace; each hour without one doubles it again. The pace is in the store, because `run`
// and `keep` share the key.
import type { Clock } from '../base/clock.ts';
import type { Logger } from '../base/log.ts';
import { orNone } from '../store/or-none.ts';
import type { Store } from '../store/store.ts';
import type { Fetch } from './exchange.ts';

const DOUBLES_MS = 3_600_000;
/** Until then, calls from before the last change may cause a 429: the service counts 60 s, and answers take time. */
const SETTLES_MS = 90_000;

export type CallLimit = ReturnType<typeof createCallLimit>;

export interface CallLimitOptions {
  /** API_CALLS_PER_MINUTE. */
  all: number;
  store: Pick<Store, 'state'>;
  clock: Clock;
  log: Logger;
}

export function createCallLimit({ all, store, clock, log }: CallLimitOptions) {
  let pace = { calls: all, at: -Infinity };
  /** The `at` that was last read from the store. */
  let readAt = pace.at;
  /** When this process learned of the pace, by the monotonic clock. */
  let knownAt = -Infinity;

  /** A wall clock that was set back does not prolong a low pace. */
  const age = (): number => Math.max(clock.monotonic() - knownAt, clock.now() - pace.at);
  /** The part of its configured calls that each process may make now: above 0, at most 1. */
  const share = (): number => Math.min(1, (pace.calls * 2 ** (age() / DOUBLES_MS)) / all);

  function use(next: typeof pace): void {
    pace = next;
    knownAt = clock.monotonic();
  }

  /** Reads the pace that another process may have set. */
  async function refresh(): Promise<void> {
    const kept = await orNone(() => store.state.get('call_pace'));
    if (!kept || kept.at === readAt || kept.at === pace.at) return;
    readAt = kept.at;
    use(kept);
  }

  async function lower(): Promise<void> {
    await refresh();
    if (age() < SETTLES_MS) return;
    use({ calls: Math.max(1, (all * share()) / 2), at: clock.now() });
    log.warn(
      { callsPerMinute: Math.floor(pace.calls) },
      'the service answered 429, so all calls slow down; if API_KEY has a limit of its own, set API_CALLS_PER_MINUTE to it',
    );
    await orNone(() => store.state.note({}, { call_pace: JSON.stringify(pace) }));
  }

  return {
    share,
    refresh,
    /** Like the global fetch. An answer 429 lowers the pace. */
    fetch: async (...request: Parameters<Fetch>): Promise<Response> => {
      const response = await fetch(...request);
      if (response.status === 429) await lower();
      return response;
    },
  };
}
