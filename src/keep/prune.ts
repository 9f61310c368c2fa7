// Removes finished events after their retention, in steps so small that no delivery waits long. An event above the
// watermark loses only its body. Without a cursor or a watermark an event keeps its row while the service may repeat
// its delivery. Only running time of `keep` counts for this, so that a clock step makes no event look older.
import type { Store } from '../store/store.ts';
import type { Clock } from '../base/clock.ts';
import type { Receipt, Receipts } from '../store/keep.ts';

const DAY_MS = 86_400_000;
const STEP = 200;
/** Pause between two steps, because deliveries come first. */
const BREATH_MS = 20;
const REST_MS = 600_000;
/** The service repeats a delivery for 7 h 42 min 30 s (contract 3.3). */
const REPEATS_MS = 8 * 3_600_000;
const MARK_MS = 3_600_000;

export interface PruneOptions {
  store: Pick<Store, 'keep' | 'state'>;
  clock: Clock;
  retentionDays: number;
  payloadDays: number;
}

export function createPruner({ store, clock, retentionDays, payloadDays }: PruneOptions) {
  let stage: 'mark' | 'rows' | 'bodies' | 'rest' = 'mark';
  let after: Receipt | null = null;
  let settled = 0;
  /** When this process last stored its running time, in monotonic milliseconds. Null: not yet. */
  let markedAt: number | null = null;

  async function mark(): Promise<void> {
    const known = await store.state.get('receipts');
    const ranMs = markedAt === null ? sinceLastRun(known, clock.now()) : clock.monotonic() - markedAt;
    markedAt = clock.monotonic();
    const receipts = markReceipt(known, { at: clock.now(), ranMs, event: await store.keep.newestEvent() });
    settled = settledUpTo(receipts);
    await store.state.note({}, { receipts: JSON.stringify(receipts) });
  }

  return async (): Promise<number> => {
    const before = (days: number): number => clock.now() - days * DAY_MS;
    if (stage === 'mark') {
      await mark();
      stage = 'rows';
    } else if (stage === 'rows') {
      after = await store.keep.prune({
        now: clock.now(),
        before: before(retentionDays),
        settled,
        after,
        limit: STEP,
      });
      if (after === null) stage = payloadDays < retentionDays ? 'bodies' : 'rest';
    } else if (stage === 'bodies') {
      after = await store.keep.purge(before(payloadDays), after, STEP);
      if (after === null) stage = 'rest';
    } else {
      await store.keep.sweep(before(retentionDays));
      stage = 'mark';
      return REST_MS;
    }
    return BREATH_MS;
  };
}

/** Milliseconds since an earlier `keep` last stored its running time. 0 above 20 min: the clock may have been set. */
function sinceLastRun(known: Receipts | null, now: number): number {
  const pause = known === null ? 0 : now - known.at;
  return pause > 0 && pause <= 2 * REST_MS ? pause : 0;
}

/** Each hour of running time, notes which event is the newest. `ranMs`: how long `keep` has run since the last call. */
export function markReceipt(
  known: Receipts | null,
  { at, ranMs, event }: { at: number; ranMs: number; event: number },
): Receipts {
  const ran = (known?.ranMs ?? 0) + ranMs;
  const marks = known?.marks ?? [];
  const due = ran - (marks.at(-1)?.ranMs ?? -Infinity) >= MARK_MS;
  const all = due ? [...marks, { ranMs: ran, event }] : marks;
  const last = all.findLastIndex((one) => ran - one.ranMs >= REPEATS_MS);
  return { at, ranMs: ran, marks: all.slice(Math.max(0, last)) };
}

/** The service no longer repeats deliveries of events up to the number that this returns. */
export function settledUpTo({ ranMs, marks }: Receipts): number {
  return marks.findLast((one) => ranMs - one.ranMs >= REPEATS_MS)?.event ?? 0;
}
