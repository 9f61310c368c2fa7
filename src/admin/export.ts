// Exports events as lines of JSON, page by page, so that an export of any size neither fills the memory nor blocks the
// store.
import type { Store } from '../store/store.ts';
import { Readable } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import { iso } from '../base/clock.ts';
import type { EventFilter, ShownEvent } from '../store/read.ts';

const PAGE = 500;
/** Lines are written in chunks of about this many characters, because a write for each line would be slow. */
const CHUNK = 65_536;
const utf8 = new TextDecoder();

/** Replaces Unix milliseconds with ISO 8601. */
export function shown(event: ShownEvent) {
  return { ...event, createdAt: iso(event.createdAt), receivedAt: iso(event.receivedAt) };
}

/** Yields matching events as JSON lines, newest first. With `bodies`, `body` is the received text; null: purged. */
export async function* linesOf(
  store: Pick<Store, 'read'>,
  filter: Omit<EventFilter, 'limit'>,
  { now, bodies }: { now: number; bodies: boolean },
): AsyncGenerator<string> {
  for (let before = filter.before; ;) {
    const begun = performance.now();
    const { events, next } = await store.read.events({ ...filter, before, limit: PAGE }, now);
    let lines = '';
    for (const event of events) {
      const body = bodies ? await store.read.body(event.key) : null;
      const line = bodies ? { ...shown(event), body: body && utf8.decode(body) } : shown(event);
      lines += `${JSON.stringify(line)}\n`;
      if (lines.length < CHUNK) continue;
      yield lines;
      lines = '';
    }
    if (lines !== '') yield lines;
    if (next === null) return;
    before = next;
    // Sleeps as long as this page took, so that other work of the process is not delayed.
    await sleep(performance.now() - begun);
  }
}

export function streamOf(...given: Parameters<typeof linesOf>): Readable {
  return Readable.from(linesOf(...given));
}
