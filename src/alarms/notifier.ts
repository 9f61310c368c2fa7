// The only way to notify people: a POST of JSON to ALERT_URL. It never throws, follows no redirect, and gives up after
// 10 s.
import type { Clock } from '../base/clock.ts';
import { loggable } from '../base/errors.ts';
import type { Logger } from '../base/log.ts';
import type { Compose, News, Post } from './post.ts';

const CALL_MS = 10_000;
/** The pause after failed posts: twice `first` after one failure, doubled by each further failure, at most `most`. */
const PAUSE_MS = { first: 1_000, most: 300_000 };

export type Notifier = ReturnType<typeof createNotifier>;

interface NotifierOptions {
  url: string | undefined;
  compose: Compose;
  clock: Clock;
  log: Logger;
  /** Aborts the post in progress. */
  signal?: AbortSignal | undefined;
}

/** Resolves to the answer, without its body. Rejects if there is none, or if it is a redirect. */
export async function call(url: string, request: RequestInit, signal?: AbortSignal): Promise<Response> {
  const limit = AbortSignal.any([AbortSignal.timeout(CALL_MS), ...(signal ? [signal] : [])]);
  const response = await fetch(url, { ...request, redirect: 'error', signal: limit });
  await response.body?.cancel();
  return response;
}

export function send(url: string, post: Post, signal?: AbortSignal): Promise<Response> {
  const headers = { 'content-type': 'application/json' };
  return call(url, { method: 'POST', headers, body: JSON.stringify(post) }, signal);
}

/** Why a call failed. The message of the error may hold the address, which is a secret. */
export function reasonOf(error: unknown): string {
  const { name, cause } = error as Error;
  const { code, message } = (cause ?? {}) as { code?: string; message?: string };
  return code ?? (message === 'unexpected redirect' ? 'a redirect' : name);
}

export function createNotifier({ url, compose, clock, log, signal }: NotifierOptions) {
  let failures = 0;
  let pausedUntil = -Infinity;

  async function isTaken(to: string, news: News): Promise<boolean> {
    const { ok, status } = await send(to, compose(news), signal);
    if (!ok) log.warn({ status }, 'ALERT_URL did not take an alarm; retrying');
    return ok;
  }

  return {
    /** Resolves to whether the post was accepted. During a pause it resolves to false at once; the caller retries. */
    async post(news: News): Promise<boolean> {
      if (!url) return true;
      if (clock.monotonic() < pausedUntil) return false;
      const taken = await isTaken(url, news).catch((error: unknown) => {
        if (!signal?.aborted) log.warn(loggable(error), 'ALERT_URL cannot be reached; retrying');
        return false;
      });
      failures = taken ? 0 : failures + 1;
      if (!taken) pausedUntil = clock.monotonic() + Math.min(PAUSE_MS.most, PAUSE_MS.first * 2 ** failures);
      return taken;
    },
    /** Sets the address for later posts. Undefined: nobody is notified, and every post counts as accepted. */
    use(next: string | undefined, nextCompose: Compose): void {
      compose = nextCompose;
      if (next === url) return;
      url = next;
      failures = 0;
      pausedUntil = -Infinity;
    },
  };
}
