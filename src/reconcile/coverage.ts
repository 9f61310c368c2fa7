// What webhooks brought and replay does not show: then the key sees less than the webhook, and proves less than it seems.
// Two complete reads, some time apart, must both have had the chance.
import type { PassContext } from './pass.ts';

/** An event may become visible to replay a moment later than its delivery. */
const APART_MS = 2_000;
const STEP = 5_000;
/** Types that an alarm names. */
const SAMPLE = 10;

/** When a reading began: by the monotonic clock, and which event was the newest then. */
export interface Begun {
  at: number;
  event: number;
}

export interface Coverage {
  /** A reading has gone to its end; a sweep has gone over what arrived up to the event `swept`. */
  readToTheEnd(begun: Begun, swept: number): Promise<void>;
  /** What was read so far proves nothing: the watermark was lowered. */
  forget(): void;
}

export function createCoverage({ store, types, onEvents }: PassContext): Coverage {
  let before: Begun | null = null;

  async function compare(searched: number, swept: number): Promise<void> {
    let after = await store.compared();
    // What came with a cursor behind the watermark is shown by a sweep, and by no reading forward.
    const unseen = new Map<string, number>();
    for (;;) {
      const found = await store.unseen(after, Math.min(searched, swept), STEP);
      for (const { type, events } of found.types) unseen.set(type, (unseen.get(type) ?? 0) + events);
      if (found.next === after) break;
      after = found.next;
    }
    const wanted = [...unseen].filter(([type]) => types.includes('*') || types.includes(type));
    const sum = wanted.reduce((all, [, count]) => all + count, 0);
    const blind = sum > 0 ? { blind: JSON.stringify(wanted.map(([type]) => type).slice(0, SAMPLE)) } : {};
    await store.note({ unseen: sum }, { compared: after, searched, ...blind });
  }

  return {
    async readToTheEnd(begun, swept) {
      before ??= begun;
      if (begun.at - before.at < APART_MS) return;
      await compare(before.event, swept);
      before = begun;
      // What strict handlers wait for may be released now, though nothing has proved it.
      onEvents();
    },
    forget() {
      before = null;
    },
  };
}
