// Coverage: which events did webhooks bring that replay does not show? They mean that the API key sees less than the
// webhook. An event counts only after two complete forward passes, begun at least 2 s apart and after its arrival. A
// strict task of such an event then runs although replay has not shown the event.
import { wants } from './page.ts';
import type { PassContext } from './pass.ts';
import type { Begun } from './schedule.ts';

/** An event may become visible to replay a moment after its delivery. */
const APART_MS = 2_000;
const STEP = 5_000;
/** The number of types that an alarm names. */
const SAMPLE = 10;

export function createCoverage({ store, types, onEvents }: PassContext) {
  let before: Begun | null = null;

  async function compare(searched: number, covered: number): Promise<void> {
    let after = await store.compared();
    // An event that arrived with a cursor below the watermark can only be shown by the overlap pass.
    const upTo = Math.min(searched, covered);
    const unseen = new Map<string, number>();
    for (;;) {
      const found = await store.unseen(after, upTo, STEP);
      for (const { type, events } of found.types) unseen.set(type, (unseen.get(type) ?? 0) + events);
      if (found.next === after) break;
      after = found.next;
    }
    const wanted = [...unseen].filter(([type]) => wants(types, type));
    const sum = wanted.reduce((all, [, count]) => all + count, 0);
    const blind = sum > 0 ? { blind: JSON.stringify(wanted.map(([type]) => type).slice(0, SAMPLE)) } : {};
    await store.note({ unseen: sum }, { compared: after, searched, ...blind });
  }

  return {
    /** Call it when a forward pass ends. Overlap passes have looked for all events up to the number `covered`. */
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
