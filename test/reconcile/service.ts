// A service with a history that a test sets, over real HTTP. It tells the truth, unless it is given lies.
import type { ServerResponse } from 'node:http';
import { json } from 'node:stream/consumers';
import { createRead } from '../../src/reconcile/page.ts';
import { readAgain, runPass } from '../../src/reconcile/pass.ts';
import { createExchange } from '../../src/service/exchange.ts';
import { createLog } from '../../src/base/log.ts';
import type { Cursor } from '../../src/wire/cursor.ts';
import { serve } from '../serve.ts';
import { WINDOW, type World } from '../store/fixture.ts';

export const OVERLAP = 10_000;

export interface History {
  /** Visible events. */
  cursors: number[];
  page?: number;
  /** The lowest cursor that may be asked after. */
  oldest?: number;
  /** It refuses cursors that were never events. */
  knows?: number[];
  /** It refuses a call without a cursor. */
  wantsCursor?: boolean;
}

export type Lie = (response: ServerResponse) => unknown;

export const item = (cursor: unknown): object => ({ cursor, json_payload: '{"A":{"session_id":"s"}}' });
export const page = (...cursors: unknown[]) => ({ events: cursors.map(item), has_more: false, next_cursor: null });
export const says = (body: unknown, status = 200, headers = {}): Lie => {
  const text = typeof body === 'string' ? body : JSON.stringify(body);
  return (response) => response.writeHead(status, headers).end(text);
};
export const refuses = (status: number, reason: string): Lie => says({ error: { code: 'FAILED', reason } }, status);

export async function startService(history: History, lies: Lie[] = []) {
  const asked: (string | null)[] = [];
  const { url } = await serve((request, response) => {
    void json(request).then((body) => {
      const { after_cursor: after = null, limit } = (body as { request: { after_cursor?: string; limit: number } })
        .request;
      asked.push(after);
      const lie = lies.shift();
      if (lie) return lie(response);
      const from = after === null ? -Infinity : Number(after);
      if (history.wantsCursor && after === null) return refuses(400, 'INVALID')(response);
      if (history.knows && after !== null && !history.knows.includes(from))
        return refuses(400, 'EVENT_CURSOR_INVALID')(response);
      if (after !== null && from < (history.oldest ?? -Infinity))
        return says({ ...page(), reset_required: true })(response);
      const left = history.cursors.filter((cursor) => cursor > from).toSorted((a, b) => a - b);
      const shown = left.slice(0, Math.min(limit, history.page ?? 1_000)).map(String);
      const answer = { ...page(...shown), next_cursor: shown.at(-1) ?? null, has_more: shown.length < left.length };
      return says(answer)(response);
    });
  });
  const access = { baseUrl: `${url}v1`, apiKey: 'svc_live_0123456789abcdef' };

  return {
    asked,
    access,
    read: createRead(createExchange(access), { take: () => 0 }, new AbortController().signal),
    /** Reads the history as `keep` does. */
    reader(world: World, from?: Cursor | null) {
      const fixed = { log: createLog('test', 'silent'), windowMs: WINDOW, overlapMs: OVERLAP, onPage: () => {} };
      const { ingest } = world.store;
      const options = { db: world.people, ingest, read: this.read, clock: world.clock, from, ...fixed };
      return {
        pass: (overlap = false) => runPass(options, overlap),
        again: (cursor: number) => readAgain(options, String(cursor) as Cursor),
      };
    },
  };
}

export const watermark = (world: World): string | null =>
  world.value("select value ->> '$' from state where name = 'watermark'") as string | null;
export const stored = (world: World): number[] =>
  (world.rows('select cursor from events where cursor is not null order by cursor') as { cursor: number }[]).map(
    ({ cursor }) => cursor,
  );
export const gaps = (world: World): unknown[] =>
  world.rows('select after, up_to as upTo, closed_at is not null as closed from gaps');
