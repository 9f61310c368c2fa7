// Real events for `npm run dev -- --live`: each that GET /events brings becomes a signed delivery to the kit of this
// machine, as if the service had reached it. Reads only.
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { systemClock as clock } from '../../base/clock.ts';
import type { Config } from '../../config.ts';
import { ServiceError } from '../../service/errors.ts';
import { readStream, type StreamItem, type StreamNews } from '../../service/stream.ts';
import { signedHeaders } from '../../wire/sign.ts';
import { readItem, type Incoming } from '../../wire/event.ts';
import type { Source } from './double.ts';

const AGAIN_MS = 1_000;

export function createLive(
  { API_BASE_URL: baseUrl = '', API_KEY: apiKey = '' }: Config,
  say: (text: string) => void,
  signal: AbortSignal,
): Source {
  async function follow(url: string, secret: string): Promise<void> {
    try {
      for await (const items of readStream({ baseUrl, apiKey, after: null, signal, onNews })) {
        for (const item of items) {
          const reading = readItem('stream', item.cursor, item.payload);
          if ('event' in reading) await deliver(url, secret, item, reading.event);
          else say(`c:${item.cursor} is skipped: ${reading.unreadable.reason}`);
        }
      }
    } catch (error) {
      if (!(error instanceof ServiceError)) throw error;
      say(`${error.message}: fix API_KEY, and start again`);
    }
  }

  /** Until it is taken: the kit may be about to start again. */
  async function deliver(
    url: string,
    secret: string,
    { cursor, payload }: StreamItem,
    { type, sessionId }: Incoming,
  ): Promise<void> {
    const id = `live_${cursor}`;
    const envelope = { id, type, created_at: null, cursor, session_id: sessionId, webhook_id: 'live' };
    // The payload as it came: parsed and written again, large numbers would be others.
    const body = Buffer.from(`${JSON.stringify(envelope).slice(0, -1)},"data":${payload}}`);
    for (let attempt = 1; !signal.aborted; attempt++) {
      const timestampSeconds = Math.floor(clock.now() / 1000);
      const headers = signedHeaders({
        body,
        secrets: [secret],
        type,
        id,
        deliveryId: randomUUID(),
        attempt,
        timestampSeconds,
      });
      const answer = await fetch(url, { method: 'POST', body, headers, signal }).catch(() => undefined);
      await answer?.body?.cancel();
      if (answer?.ok) return;
      if (answer?.status === 413) return say(`c:${cursor} is skipped: it is larger than BODY_LIMIT_BYTES`);
      await sleep(AGAIN_MS, undefined, { signal }).catch(() => {});
    }
  }

  function onNews(news: StreamNews): void {
    if (news.kind === 'open') say('the stream is open: events of your account come as they happen');
    if (news.kind === 'lost') say(`the stream is lost: ${news.reason}; again in ${news.waitMs / 1000} s`);
    if (news.kind === 'refresh') say(`the stream cannot bring all: ${news.reason}`);
    if (news.kind === 'unreadable') say(`skipped: ${news.reason}`);
  }

  return {
    // With the key, since ctx.service needs it; replay only reads, and most calls are left to the real kit.
    env: { API_BASE_URL: baseUrl, API_KEY: apiKey, RECONCILE_CALLS_PER_MINUTE: '4' },
    start: ({ url, secret }) => follow(url, secret),
  };
}
