// Judges who sent deliveries with a bad signature: the service with a changed secret, or strangers. The alarm
// `secret_mismatch` and all screens use this judgement, so that they never contradict each other.
import { looksLikeService } from '../store/health.ts';
import type { DeliveredType, Refusal } from '../store/keep.ts';
import type { Status } from '../store/read.ts';
import type { Store } from '../store/store.ts';
import { FAILURES_ALLOWED } from './delivery-health.ts';

/** From this many bad signatures on, WEBHOOK_SECRET may be wrong. Fewer may come from strangers. */
export const MISMATCH_FROM = 3;
/**
 * The longest time of the service's first three attempts: pauses of 30 s and 2 min, and 10 s for each attempt (contract
 * 3.3, 6.3).
 */
export const FIRST_RETRIES_MS = 180_000;
/** A delivery may arrive this long after replay has shown its event. */
const ON_ITS_WAY_MS = 10_000;
/** The service repeats a refused delivery after 30 s (contract 3.3). Strangers have no reason to. */
const REPEATED_MS = 25_000;

export interface SignatureEvidence {
  now: number;
  status: Pick<Status, 'failures' | 'lastDeliveryAt' | 'reconcile'>;
  types: DeliveredType[];
  /** The last refusals for a bad signature. */
  refused: Refusal[];
}

export interface SignatureJudgement {
  /** The service probably signs with a secret that is not configured. */
  mismatch: boolean;
  /** One sentence, without its full stop. */
  words: string;
}

export async function readSignatureJudgement(
  store: Pick<Store, 'replay' | 'state'>,
  status: Status,
  now: number,
): Promise<SignatureJudgement> {
  const [types, refusals] = [await store.replay.types(), await store.state.get('refusals')];
  return judgeSignatures({ now, status, types, refused: refusals['bad_signature'] ?? [] });
}

export function judgeSignatures(seen: SignatureEvidence): SignatureJudgement {
  const { failures, lastDeliveryAt } = seen.status;
  const { badSignatures, badSince } = failures;
  if (badSignatures === 0)
    return no(
      lastDeliveryAt === null
        ? 'No delivery of the service has come yet, and none that looks like one was refused'
        : 'No sign of a wrong secret: no bad signature since the last good delivery',
    );
  const bad = `${badSignatures} with a bad signature since ${badSince}`;
  if (badSignatures < MISMATCH_FROM) return no(`${bad}: noise, so far`);
  if (!isMissing(seen)) {
    if (!seen.refused.some((one) => one.at >= (badSince ?? '') && looksLikeService(one)))
      return no(`${bad}: noise, because they lack headers of the service`);
    if (replayWatches(seen) && isOnItsWay(seen))
      return no(`${bad}: not clear yet, because replay has just shown events that a delivery may still bring`);
    if (replayWatches(seen) && lastDeliveryAt !== null)
      return no(`${bad}: probably noise, because replay shows no event that is missing`);
    if (lastDeliveryAt !== null && lastedMs(seen) < REPEATED_MS)
      return no(
        `${bad}, and a good one shortly before: noise, so far, because the service repeats a refused delivery after 30 s`,
      );
  }
  return {
    mismatch: true,
    words: `${badSignatures} deliveries since ${badSince} match no secret in WEBHOOK_SECRET, and no good delivery came since. Guess: the secret of the webhook has changed, or was never set here: set it (WEBHOOK_SECRET=new,old; the new one alone if the old one leaked), then npx kit reload`,
  };
}

function no(words: string): SignatureJudgement {
  return { mismatch: false, words };
}

/** Whether replay or the stream has shown an event since the last good delivery that no delivery brought in time. */
function isMissing({ now, status: { failures, lastDeliveryAt }, types }: SignatureEvidence): boolean {
  const badSince = Date.parse(failures.badSince ?? '');
  const goodAt = Date.parse(lastDeliveryAt ?? '') || 0;
  return types.some(({ deliveredAt, missedSince }) => {
    if (deliveredAt === null || missedSince === null || missedSince < goodAt) return false;
    return now - missedSince > (missedSince >= badSince ? ON_ITS_WAY_MS : FIRST_RETRIES_MS);
  });
}

/** Whether replay or the stream has shown an event since the first bad signature that no delivery has brought so far. */
function isOnItsWay({ status: { failures }, types }: SignatureEvidence): boolean {
  return types.some(({ missedSince }) => missedSince !== null && missedSince >= Date.parse(failures.badSince ?? ''));
}

/** Whether replay would show that deliveries are missing. */
function replayWatches({ now, status: { reconcile } }: SignatureEvidence): boolean {
  const { state, since } = reconcile;
  if (state === 'backing-off') return now - Date.parse(since ?? '') <= FIRST_RETRIES_MS;
  return state === 'idle' || state === 'running';
}

/** For how long bad signatures came. At FAILURES_ALLOWED the service stops sending, so from then on silence counts too. */
function lastedMs({ now, status: { failures } }: SignatureEvidence): number {
  const { badSignatures, badSince, lastBadAt } = failures;
  const until = badSignatures >= FAILURES_ALLOWED ? now : Date.parse(lastBadAt ?? '');
  return until - Date.parse(badSince ?? '');
}
