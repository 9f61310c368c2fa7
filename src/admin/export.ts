// Events as lines of JSON, page by page: however many there are, neither memory nor the store is held by them.
import { Readable } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import { iso } from '../base/clock.ts';
import type { EventFilter, ShownEvent, ReadStore } from '../store/read.ts';

const PAGE = 500;
/** So many characters go out at once: a write for each line would take longer than the lines. */
const CHUNK = 65_536;
const utf8 = new TextDecoder();

/** Times as people and programs read them. */
export function shown(event: ShownEvent): Record<string, unknown> {
  return { ...event, createdAt: iso(event.createdAt), receivedAt: iso(event.receivedAt) };
}

/** Newest first, down to the last that matches; a body as the text that was received, null once purged. */
export async function* linesOf(
  store: Pick<ReadStore, 'events' | 'body'>,
  filter: Omit<EventFilter, 'limit'>,
  { now, bodies }: { now: number; bodies: boolean },
): AsyncGenerator<string> {
  for (let before = filter.before; ;) {
    const begun = performance.now();
    const { events, next } = await store.events({ ...filter, before, limit: PAGE }, now);
    let lines = '';
    for (const event of events) {
      const body = bodies ? await store.body(event.key) : null;
      const line = bodies ? { ...shown(event), body: body && utf8.decode(body) } : shown(event);
      lines += `${JSON.stringify(line)}\n`;
      if (lines.length < CHUNK) continue;
      yield lines;
      lines = '';
    }
    if (lines !== '') yield lines;
    if (next === null) return;
    before = next;
    // A page takes several turns of the loop: it shall not wait for a stretch at each of them.
    await sleep(performance.now() - begun);
  }
}

export function streamOf(...given: Parameters<typeof linesOf>): Readable {
  return Readable.from(linesOf(...given));
}
