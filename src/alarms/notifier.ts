// The one way by which people are told: a POST of `{ "text": … }` to ALERT_URL. It never throws, follows no redirect and
// gives up after 10 s; after a post that was not taken it pauses, longer each time.
import type { Clock } from '../base/clock.ts';
import { loggable } from '../base/errors.ts';
import type { Logger } from '../base/log.ts';

const POST_MS = 10_000;
/** After a post that was not taken; it doubles. */
const PAUSE_MS = { first: 1_000, most: 300_000 };

export interface Notifier {
  /** Whether people were told. False at once during a pause; the caller tries again. */
  post(text: string): Promise<boolean>;
  /** Undefined: nobody is to be told, and every post counts as taken. */
  useUrl(url: string | undefined): void;
}

export function createNotifier({
  url,
  clock,
  log,
  signal,
}: {
  url: string | undefined;
  clock: Clock;
  log: Logger;
  /** Ends the post that is under way. */
  signal?: AbortSignal | undefined;
}): Notifier {
  let failures = 0;
  let pausedUntil = -Infinity;

  async function send(to: string, text: string): Promise<boolean> {
    const response = await fetch(to, {
      method: 'POST',
      redirect: 'error',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ text }),
      signal: AbortSignal.any([AbortSignal.timeout(POST_MS), ...(signal ? [signal] : [])]),
    });
    await response.body?.cancel();
    if (!response.ok) log.warn({ status: response.status }, 'ALERT_URL did not take an alarm; tried again');
    return response.ok;
  }

  return {
    async post(text) {
      if (!url) return true;
      if (clock.monotonic() < pausedUntil) return false;
      const taken = await send(url, text).catch((error: unknown) => {
        if (!signal?.aborted) log.warn(loggable(error), 'ALERT_URL cannot be reached; tried again');
        return false;
      });
      failures = taken ? 0 : failures + 1;
      if (!taken) pausedUntil = clock.monotonic() + Math.min(PAUSE_MS.most, PAUSE_MS.first * 2 ** failures);
      return taken;
    },
    useUrl(next) {
      if (next === url) return;
      url = next;
      failures = 0;
      pausedUntil = -Infinity;
    },
  };
}
