// Removes finished events after their retention, in steps so small that no delivery waits long. An event above the
// watermark loses only its body. Without a cursor or a watermark an event keeps its row while the service may repeat
// its delivery. Only running time of `keep` counts for this. Ages are measured at a time that the clock alone cannot raise
// (trusted-time.ts). So a clock step makes no event look older.
import { iso, type Clock } from '../base/clock.ts';
import type { Logger } from '../base/log.ts';
import type { Pruned, Receipt, Receipts } from '../store/keep.ts';
import type { Store } from '../store/store.ts';
import { aheadMs, trustedTime } from './trusted-time.ts';

const DAY_MS = 86_400_000;
const STEP = 200;
/** Pause between two steps, because deliveries come first. */
const BREATH_MS = 20;
const REST_MS = 600_000;
/** The service repeats a delivery for 7 h 42 min 30 s (contract 3.3). */
const REPEATS_MS = 8 * 3_600_000;
const HOUR_MS = 3_600_000;
const AHEAD =
  'the clock is more than a day ahead of the time that good deliveries and running time confirm: see timedatectl; until the next good delivery, pruning measures ages at the confirmed time';

export interface PruneOptions {
  store: Pick<Store, 'keep' | 'read' | 'state'>;
  clock: Clock;
  log: Logger;
  retentionDays: number;
  payloadDays: number;
}

/** The step of a loop. */
export function createPruner({ store, clock, log, retentionDays, payloadDays }: PruneOptions) {
  const notes = createNotes(log, clock);
  let stage: 'mark' | 'rows' | 'bodies' | 'rest' = 'mark';
  let after: Receipt | null = null;
  let settled = 0;
  /** Ages are measured at this time, Unix milliseconds. */
  let at = 0;
  /** When this process last stored its running time, in monotonic milliseconds. Null: not yet. */
  let markedAt: number | null = null;

  async function mark(): Promise<void> {
    const known = await store.state.get('receipts');
    const [now, began] = [clock.now(), clock.monotonic()];
    const ranMs = markedAt === null ? sinceLastRun(known, now) : began - markedAt;
    const trusted = await trustedTime(store, now, known, ranMs);
    const receipts = markReceipt(known, { at: now, ranMs, event: await store.keep.newestEvent() });
    settled = settledUpTo(receipts);
    at = Math.min(now, trusted.at);
    if (aheadMs(now, trusted) > 0) notes.ahead(trusted.at);
    await store.state.note({}, { receipts: JSON.stringify({ ...receipts, trusted }) });
    // After a failure, the next try counts this time too.
    markedAt = began;
  }

  return async (): Promise<number> => {
    const before = (days: number): number => at - days * DAY_MS;
    if (stage === 'mark') {
      await mark();
      stage = 'rows';
    } else if (stage === 'rows') {
      const step = { now: at, before: before(retentionDays), settled, after, limit: STEP };
      after = notes.pruned(await store.keep.prune(step));
      if (after === null) stage = payloadDays < retentionDays ? 'bodies' : 'rest';
    } else if (stage === 'bodies') {
      after = notes.pruned(await store.keep.purge(before(payloadDays), after, STEP));
      if (after === null) stage = 'rest';
    } else {
      await store.keep.sweep(before(retentionDays));
      await store.keep.thinSamples(at);
      notes.ended();
      stage = 'mark';
      return REST_MS;
    }
    return BREATH_MS;
  };
}

/** Logs, at most once an hour, what was removed, and that the clock is ahead. */
function createNotes(log: Logger, clock: Clock) {
  const removed = { rows: 0, bodies: 0 };
  const saidAfter = { removed: -Infinity, ahead: -Infinity };
  function mayBeSaid(what: keyof typeof saidAfter): boolean {
    if (clock.monotonic() - saidAfter[what] < HOUR_MS) return false;
    saidAfter[what] = clock.monotonic();
    return true;
  }
  return {
    /** Returns where to continue. */
    pruned({ next, rows, bodies }: Pruned): Receipt | null {
      removed.rows += rows;
      removed.bodies += bodies;
      return next;
    },
    ended(): void {
      if (removed.rows + removed.bodies === 0 || !mayBeSaid('removed')) return;
      log.info({ ...removed }, 'events and bodies older than their retention were removed');
      Object.assign(removed, { rows: 0, bodies: 0 });
    },
    ahead(trustedAt: number): void {
      if (mayBeSaid('ahead')) log.warn({ since: iso(trustedAt) }, AHEAD);
    },
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
  const due = ran - (marks.at(-1)?.ranMs ?? -Infinity) >= HOUR_MS;
  const all = due ? [...marks, { ranMs: ran, event }] : marks;
  const last = all.findLastIndex((one) => ran - one.ranMs >= REPEATS_MS);
  return { at, ranMs: ran, marks: all.slice(Math.max(0, last)) };
}

/** The service no longer repeats deliveries of events up to the number that this returns. */
export function settledUpTo({ ranMs, marks }: Receipts): number {
  return marks.findLast((one) => ranMs - one.ranMs >= REPEATS_MS)?.event ?? 0;
}
