// Real events for `npm run dev -- --live`. Each event of the service's stream becomes a signed delivery to the kit on
// this machine, as if the service could reach this machine. This file only reads from the service.
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { systemClock as clock } from '../../base/clock.ts';
import type { Config } from '../../config.ts';
import { ServiceError } from '../../service/errors.ts';
import { readStream, type StreamItem, type StreamNews } from '../../service/stream.ts';
import { signedHeaders } from '../../wire/sign.ts';
import { readItem, type Incoming } from '../../wire/event.ts';
import type { Source } from './simulated.ts';

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
          if ('event' in reading) await deliver(item, reading.event, { url, secret, say, signal });
          else say(`c:${item.cursor} is skipped: ${reading.unreadable.reason}`);
        }
      }
    } catch (error) {
      if (!(error instanceof ServiceError)) throw error;
      say(`${error.message}: fix API_KEY, then start npm run dev again`);
    }
  }

  function onNews(news: StreamNews): void {
    if (news.kind === 'open') say('the stream is open: events of your account come as they happen');
    if (news.kind === 'lost') say(`the stream is lost: ${news.reason}; again in ${news.waitMs / 1000} s`);
    if (news.kind === 'refresh') say(`the stream cannot bring all: ${news.reason}`);
    if (news.kind === 'unreadable') say(`skipped: ${news.reason}`);
  }

  return {
    // Handlers need the key for `ctx.service`, and the key also turns reconciliation on. Reconciliation only reads, and
    // fetches what the stream missed. 4 calls a minute leave most of the account's limit to the real kit.
    env: { API_BASE_URL: baseUrl, API_KEY: apiKey, RECONCILE_CALLS_PER_MINUTE: '4' },
    start: ({ url, secret }) => follow(url, secret),
  };
}

/** Retries until the kit accepts the delivery, because the kit may be restarting. */
async function deliver(
  { cursor, payload }: StreamItem,
  { type, sessionId }: Incoming,
  { url, secret, say, signal }: { url: string; secret: string; say: (text: string) => void; signal: AbortSignal },
): Promise<void> {
  const id = `live_${cursor}`;
  const envelope = { id, type, created_at: null, cursor, session_id: sessionId, webhook_id: 'live' };
  // The payload is copied as text, because parsing and writing it again would change large numbers.
  const body = Buffer.from(`${JSON.stringify(envelope).slice(0, -1)},"data":${payload.toString()}}`);
  for (let attempt = 1; !signal.aborted; attempt++) {
    const timestampSeconds = Math.floor(clock.now() / 1000);
    const signing = { secrets: [secret], type, id, deliveryId: randomUUID(), attempt, timestampSeconds };
    const headers = signedHeaders({ body, ...signing });
    const answer = await fetch(url, { method: 'POST', body, headers, signal }).catch(() => undefined);
    await answer?.body?.cancel();
    if (answer?.ok) return;
    if (answer?.status === 413) return say(`c:${cursor} is skipped: it is larger than BODY_LIMIT_BYTES`);
    await sleep(AGAIN_MS, undefined, { signal }).catch(() => {});
  }
}
