// Real events for `npm run dev -- --live`. Each event of the service's stream becomes a signed delivery to the kit on
// this machine, as if the service could reach this machine. This file only reads from the service.
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { iso, systemClock as clock } from '../../base/clock.ts';
import type { Config } from '../../config.ts';
import { ServiceError } from '../../service/errors.ts';
import { createService } from '../../service/service.ts';
import { readStream, type StreamItem, type StreamNews } from '../../service/stream.ts';
import { parseCursor, type Cursor } from '../../wire/cursor.ts';
import { factsOf, readItem, SENT_BY_KIT, type Incoming } from '../../wire/event.ts';
import { deliver, type Endpoint } from './deliver.ts';
import type { Source } from './source.ts';

const AGAIN_MS = 1_000;
const RECENT_MS = 15 * 60_000;
/** Calls of ReplayEvents for the last minutes, a fraction of the account's limit (contract 8). */
const PAGES = 30;

export interface LiveOptions {
  config: Config;
  /** The newest cursor in the store of an earlier session. */
  newest: Cursor | null;
  say: (text: string) => void;
  signal: AbortSignal;
}

export function createLive({ config, newest, say, signal }: LiveOptions): Source {
  const { API_BASE_URL: baseUrl = '', API_KEY: apiKey = '' } = config;
  let to: Endpoint | undefined;

  async function follow(): Promise<void> {
    try {
      for await (const items of readStream({ baseUrl, apiKey, after: null, signal, onNews }))
        for (const item of items) await take(item);
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

  /** Delivers the item if it is not older than `since`. */
  async function take(item: StreamItem, since = -Infinity): Promise<boolean> {
    const reading = readItem('stream', item.cursor, item.payload);
    if ('unreadable' in reading) say(`c:${item.cursor} is skipped: ${reading.unreadable.reason}`);
    else if (to && (reading.event.createdAt ?? -Infinity) >= since) {
      await deliverItem(to, item, reading.event, { say, signal });
      return true;
    }
    return false;
  }

  return {
    // Handlers need the key for `ctx.service`, and the key also turns reconciliation on. Reconciliation only reads, and
    // fetches what the stream missed. 4 calls a minute leave most of the account's limit to the real kit.
    env: { API_BASE_URL: baseUrl, API_KEY: apiKey, RECONCILE_CALLS_PER_MINUTE: '4' },
    start(endpoint) {
      to = endpoint;
      return follow();
    },
    /** The account does not know this event, so it has no cursor. */
    next(type, data) {
      const id = `dev_${randomUUID()}`;
      const { sessionId } = factsOf(type, data);
      const moment = { created_at: iso(clock.now()), cursor: null, session_id: sessionId, webhook_id: 'dev' };
      const held = type === 'webhook.ping' ? data : { [type]: data };
      return { key: `i:${id}`, id, body: JSON.stringify({ id, type, ...moment, sent_by: SENT_BY_KIT, data: held }) };
    },
    recent: () => readRecent(config, newest, (item, since) => take(item, since)),
  };
}

/** Retries until the kit accepts the delivery, because the kit may be restarting. */
async function deliverItem(
  endpoint: Endpoint,
  { cursor, payload }: StreamItem,
  { type, sessionId }: Incoming,
  { say, signal }: Pick<LiveOptions, 'say' | 'signal'>,
): Promise<void> {
  const id = `live_${cursor}`;
  const envelope = { id, type, created_at: null, cursor, session_id: sessionId, webhook_id: 'live' };
  // The payload is copied as text, because parsing and writing it again would change large numbers.
  const body = Buffer.from(`${JSON.stringify(envelope).slice(0, -1)},"data":${payload.toString()}}`);
  for (let attempt = 1; !signal.aborted; attempt++) {
    const status = await deliver(endpoint, { id, type, body, attempt, signal });
    if (status !== undefined && status < 300) return;
    if (status === 413) return say(`c:${cursor} is skipped: it is larger than BODY_LIMIT_BYTES`);
    await sleep(AGAIN_MS, undefined, { signal }).catch(() => {});
  }
}

/** Reads replay on from the cursor, and hands over the items. Resolves to what it did, in words. */
async function readRecent(
  { API_BASE_URL: baseUrl = '', API_KEY: apiKey = '' }: Config,
  newest: Cursor | null,
  take: (item: StreamItem, since: number) => Promise<boolean>,
): Promise<string> {
  const service = createService({ baseUrl, apiKey, paid: false });
  const since = clock.now() - RECENT_MS;
  let after = newest;
  let found = 0;
  try {
    for (let page = 0; page < PAGES; page++) {
      const answer = await service.call('ReplayEvents', { ...(after && { after_cursor: after }), limit: 1_000 });
      for (const { cursor, json_payload: payload } of answer.events ?? []) {
        const known = parseCursor(cursor);
        if (known && typeof payload === 'string' && (await take({ cursor: known, payload }, since))) found++;
      }
      if (!answer.has_more) return `${found} events of the last 15 minutes were delivered`;
      after = parseCursor(answer.next_cursor) ?? after;
    }
    return `${found} events were delivered; the history is longer than ${PAGES} pages: use npx kit reconcile --from`;
  } catch (error) {
    if (error instanceof ServiceError) return `the history cannot be read: ${error.message}`;
    throw error;
  }
}
