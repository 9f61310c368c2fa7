// Tracks how the service sees this webhook: the present failure run by cause, and which secrets sign. The store keeps
// both over restarts. Deliveries from `doctor` and `trigger` do not count, because the service does not count them.
import type { IncomingMessage } from 'node:http';
import { iso, type Clock } from '../base/clock.ts';
import type { GroupCommit } from './group-commit.ts';
import { createSigners } from './signers.ts';
import type { KeptHealth } from '../store/keep.ts';
import { IDS_OF_KIT, type Reading } from '../wire/event.ts';
import { receivedHeaders } from '../wire/headers.ts';

/** At this many failures in a row the service switches the webhook off (contract 3.2). */
export const FAILURES_ALLOWED = 15;
/** A failure run of at least this length is reported, even after its end. */
export const FAILURES_FROM = 3;
/** Lengths at which a failure run is reported at once. Each is a level of the alarm `failure_run`. */
export const FAILURE_LEVELS = [FAILURES_FROM, 10, 13, FAILURES_ALLOWED];

/** Minimum interval between writes to the store about accepted and forged deliveries. Failures are written at once. */
const WRITE_MS = 1_000;
/**
 * If a new event has an attempt number above 1, earlier attempts failed. They count as unseen failures only if the
 * event happened this long after the start: before, the kit was starting, or the service's clock may be slightly ahead.
 */
const STARTING_MS = 2_000;

export type DeliveryHealth = ReturnType<typeof createDeliveryHealth>;

// oxlint-disable-next-line max-lines-per-function -- every method changes the same failure run
export function createDeliveryHealth({
  groupCommit,
  clock,
  secrets,
  kept,
  onFailure = () => {},
}: {
  groupCommit: Pick<GroupCommit, 'count' | 'setState'>;
  clock: Clock;
  secrets: string[];
  /** The state that an earlier start of the kit wrote. */
  kept: KeptHealth;
  /** Called after each failure, with the length of the failure run. */
  onFailure?: (run: number) => void;
}) {
  let run = kept.failureRun;
  const { failures } = kept;
  const signers = createSigners(kept.signers, clock);
  const startedAt = clock.now() + STARTING_MS;
  /** Deliveries that this process refused, also for their signature, and that no repeated one has explained yet. */
  let refused = 0;
  let changed = false;
  let writtenAt = -Infinity;

  function flush(): void {
    if (!changed) return;
    changed = false;
    writtenAt = clock.monotonic();
    groupCommit.setState('failure_run', run);
    groupCommit.setState('failures', JSON.stringify(failures));
    groupCommit.setState('signers', JSON.stringify(signers.list()));
  }

  function note(atOnce: boolean): void {
    changed = true;
    if (atOnce || clock.monotonic() - writtenAt >= WRITE_MS) flush();
  }

  function useSecrets(list: string[]): void {
    signers.use(list);
    note(true);
  }
  useSecrets(secrets);

  return {
    /** The secrets at these positions signed the delivery. `timestamp` is signed too: Unix seconds (contract 6.3). */
    signed(positions: number[], timestamp: number): void {
      signers.signed(positions, timestamp);
      // Nothing is written here, because `answered` follows for the same delivery and writes the change.
      changed = true;
    },
    /** Call it when a delivery was answered. `cause`: why it was refused, or for a 2xx, the store's verdict. */
    answered(status: number, cause: string): void {
      if (status >= 300) {
        run++;
        refused++;
        failures.causes[cause] = (failures.causes[cause] ?? 0) + 1;
        failures.at = [...failures.at, clock.now()].slice(-FAILURES_ALLOWED);
        onFailure(run);
        return note(true);
      }
      const ended = run > 0;
      // The end of a failure run is counted, because the run's length may be reset to 0 before it is ever written.
      if (run >= FAILURES_FROM) groupCommit.count({ failure_runs: 1 });
      run = 0;
      failures.lastGoodAt = iso(clock.now());
      if (ended || failures.badSignatures > 0)
        Object.assign(failures, { causes: {}, badSignatures: 0, badSince: null, at: [] });
      note(ended);
    },
    /** Call it for a new event. If its attempt number is above 1, earlier deliveries failed, maybe unseen by the kit. */
    firstSeen(reading: Reading, attempt: string | string[] | undefined): void {
      const happenedAt = ('event' in reading && reading.event.createdAt) || 0;
      if (happenedAt < startedAt || !isRepeated(attempt)) return;
      if (refused === 0) groupCommit.count({ unseen_failures: 1 });
      refused = Math.max(0, refused - Number(attempt) + 1);
    },
    /** No configured secret signed the delivery: it is forged, or the service has another secret. */
    forged(): void {
      // If the service sent it, a repeated delivery follows once its secret is known here.
      refused++;
      failures.badSignatures++;
      failures.lastBadAt = iso(clock.now());
      failures.badSince ??= failures.lastBadAt;
      note(false);
    },
    /** Call it when secrets are rotated: from now on, positions refer to this list. */
    useSecrets,
    /** The length of the present failure run, and its failures by cause. */
    run: (): { failureRun: number; causes: Record<string, number> } => ({ failureRun: run, causes: failures.causes }),
    /** Hands changes to the group commit, which writes them with its next commit. */
    flush,
  };
}

/** Whether `doctor` or `trigger` sent the delivery, as its signed body says. */
export function isSentByKit(reading: Reading): boolean {
  const { sentByKit = false } = 'event' in reading ? reading.event : reading.unreadable;
  return sentByKit;
}

/**
 * Whether a request has all headers of a delivery, and no id of the kit's own. They are not signed, so this is evidence,
 * and no proof.
 */
export function isLikely({ headers }: IncomingMessage, prefix: string): boolean {
  const names = receivedHeaders(prefix);
  const isOurs = IDS_OF_KIT.test(String(headers[names.eventId]));
  return !isOurs && Object.values(names).every((name) => headers[name] !== undefined);
}

/**
 * Whether the attempt header says that the service has tried before: attempts 2 to 20. The header is not signed, so it
 * only hints at failures that the kit did not see. No decision depends on it.
 */
export function isRepeated(attempt: string | string[] | undefined): boolean {
  return typeof attempt === 'string' && /^([2-9]|1\d|20)$/.test(attempt);
}
