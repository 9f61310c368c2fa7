// Coverage: finds events that webhooks brought and replay does not show, because the API key sees less than the
// webhook. An event counts as not shown after two complete forward passes that began at least 2 s apart, both after its
// arrival. Its strict tasks then run, although replay has not shown it.
import { wants } from './page.ts';
import type { PassContext } from './pass.ts';
import type { Begun } from './schedule.ts';

/** Two forward passes, begun this far apart, look for an event: replay may show it only a moment after its delivery. */
const APART_MS = 2_000;
const STEP = 5_000;
/** The alarm about events that replay does not show names at most this many types. */
const SAMPLE = 10;

export function createCoverage({ store, types, onEvents }: PassContext) {
  let before: Begun | null = null;

  async function compare(searched: number, covered: number): Promise<void> {
    let after = await store.state.get('compared');
    // Only the overlap pass can show an event whose cursor was below the watermark when it arrived.
    const upTo = Math.min(searched, covered);
    const unseen = new Map<string, number>();
    for (;;) {
      const found = await store.replay.unseen(after, upTo, STEP);
      for (const { type, events } of found.types) unseen.set(type, (unseen.get(type) ?? 0) + events);
      if (found.next === after) break;
      after = found.next;
    }
    const wanted = [...unseen].filter(([type]) => wants(types, type));
    const sum = wanted.reduce((all, [, count]) => all + count, 0);
    const blind = sum > 0 ? { blind: JSON.stringify(wanted.map(([type]) => type).slice(0, SAMPLE)) } : {};
    await store.state.note({ unseen: sum }, { compared: after, searched, ...blind });
  }

  return {
    /** Call it when a forward pass ends. `covered`: overlap passes have looked for all events up to this number. */
    async caughtUp(begun: Begun, covered: number): Promise<void> {
      before ??= begun;
      if (begun.at - before.at < APART_MS) return;
      await compare(before.event, covered);
      before = begun;
      // Strict tasks may have been released, so `run` must look again.
      onEvents();
    },
    /** Call it when the watermark was lowered: earlier passes do not count. */
    forget() {
      before = null;
    },
  };
}
