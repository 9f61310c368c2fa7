// Explains why webhooks are silent: replay or the stream brought events, and no delivery brought them. The text
// separates facts from guesses, because the service does not say whether a webhook is on (contract 3.2).
import type { DeliveredType } from '../../store/keep.ts';
import type { Status } from '../../store/read.ts';
import { FIRST_RETRIES_MS, judgeSignatures, type SignatureEvidence } from '../../receive/bad-signatures.ts';
import { FAILURES_ALLOWED } from '../../receive/delivery-health.ts';

/** While other types arrive, a type is silent only from this many missed events on: a single event can be lost. */
const MISSED_ALONE = 2;
/** At most this many types are named; the others are only counted. */
const NAMED = 10;

export interface Evidence extends SignatureEvidence {
  status: SignatureEvidence['status'] & Pick<Status, 'failureRun'>;
}

/** Says why webhooks are silent, and what to do. Null: nothing shows that they are silent. */
export function explainSilence(seen: Evidence): string | null {
  const { now, status, types } = seen;
  const overdue = types.filter(
    ({ deliveredAt, missed, missedSince }) =>
      deliveredAt !== null && missed > 0 && missedSince !== null && now - missedSince > FIRST_RETRIES_MS,
  );
  const lastAt = types.reduce((last, { deliveredAt }) => Math.max(last, deliveredAt ?? 0), 0);
  // `some`, not `every`: a type that went missing earlier must not hide that all deliveries have stopped.
  if (overdue.some(({ missedSince }) => lastAt < (missedSince ?? 0))) return allMissing(overdue, seen);
  const alone = overdue.filter(({ missed, deliveredAt }) => missed >= MISSED_ALONE && (deliveredAt ?? 0) < lastAt);
  if (alone.length > 0) return someMissing(alone);
  return lastAt === 0 ? null : refusedToo(status, Math.max(lastAt, Date.parse(status.lastDeliveryAt ?? '') || 0), now);
}

function allMissing(overdue: DeliveredType[], evidence: Evidence): string {
  const { failureRun, failures } = evidence.status;
  const seen = `Known: replay or stream brought ${list(overdue)}, and no delivery came in the time of the first repeats.`;
  if (failureRun >= FAILURES_ALLOWED)
    return `${seen} Known: we answered ${failureRun} deliveries in a row without a 2xx (${causeList(failures.causes)}). Guess: the service has switched the webhook off, as it does at ${FAILURES_ALLOWED}; fix the cause, then enable it at the service`;
  const skewed = failures.causes['clock_skew'] ?? 0;
  if (skewed > 0)
    return `${seen} Known: ${skewed} deliveries in a row with a right signature were refused, because their time is outside the window. The clock of this machine is wrong: synchronise it`;
  const { mismatch, words } = judgeSignatures(evidence);
  if (mismatch)
    return `${seen} Known: ${words}${failures.badSignatures >= FAILURES_ALLOWED ? '; the service has switched the webhook off by now: enable it there as well' : ''}`;
  const refused =
    failures.badSignatures === 0 ? 'nothing was' : `only ${failures.badSignatures} with a bad signature were`;
  return `${seen} Known: ${refused} refused here. Guess: the webhook is switched off, was removed, or its address does not lead here: look at the service, and enable it if it is off; replay brings what it misses meanwhile. Else npx kit doctor finds what is in the way`;
}

function someMissing(alone: DeliveredType[]): string {
  return `Known: replay or stream brought ${list(alone)}, and no delivery of these types came, though others did. Guess: the webhook is no longer subscribed to them: look at the service`;
}

/** Explains the silence if the service also refuses API_KEY, so that replay cannot show missing events. */
function refusedToo({ reconcile }: Evidence['status'], lastAt: number, now: number): string | null {
  if (
    reconcile.state !== 'stopped' ||
    now - Math.max(lastAt, Date.parse(reconcile.since ?? '') || now) <= FIRST_RETRIES_MS
  )
    return null;
  const seen = `Known: the service refuses our key since ${reconcile.since} (${reconcile.reason}), and no delivery came since.`;
  if (reconcile.reason?.includes('API_KEY_IP_FORBIDDEN'))
    return `${seen} Known: this machine's address is not among those that the key allows; that alone stops no webhook. Guess: nothing happened; allow the address at the service`;
  if (reconcile.reason?.includes('401'))
    return `${seen} Known: webhooks of a key that is revoked or expired stop with it. Guess: the key is revoked or expired; give the kit a new key, and register the webhook with it`;
  return `${seen} Guess: the key has lost events:read, and its webhooks have stopped with it; or nothing happened`;
}

function list(types: DeliveredType[]): string {
  const named = types.slice(0, NAMED).map(({ type, missed }) => `${missed} × ${type}`);
  return [...named, ...(types.length > NAMED ? [`and ${types.length - NAMED} types more`] : [])].join(', ');
}

export function causeList(causes: Record<string, number>): string {
  return Object.entries(causes)
    .map(([cause, count]) => `${count} × ${cause}`)
    .join(', ');
}
