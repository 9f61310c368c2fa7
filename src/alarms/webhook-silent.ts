// Are webhooks silent, and why? Told from what replay and stream bring and no delivery did. What is known is said as
// known, and what is guessed as a guess: the service does not tell whether a webhook is on (contract 3.2).
import type { DeliveredType } from '../store/keep.ts';
import type { Status } from '../store/read.ts';

/** The first attempt and two repeats, 30 s and 2 min later, each with its 10 s (contract 3.3, 6.3). */
export const FIRST_RETRIES_MS = 180_000;
/** Of a type that is missing while others come: one event can be lost alone. */
const MISSED_ALONE = 2;
/** Types that are told by name. */
const NAMED = 10;
const SWITCHED_OFF = 15;
/** Fewer bad signatures may be a stranger's. */
export const NOT_NOISE = 3;
/** What a delivery may come after replay has shown its event. */
const ON_ITS_WAY_MS = 10_000;

export interface Evidence {
  now: number;
  status: Pick<Status, 'failureRun' | 'failures' | 'lastDeliveryAt' | 'reconcile'>;
  types: DeliveredType[];
}

/** Why webhooks are silent, with what to do; null where they are not, or where nothing happened. */
export function explainSilence({ now, status, types }: Evidence): string | null {
  const overdue = types.filter(
    ({ deliveredAt, missed, missedSince }) =>
      deliveredAt !== null && missed > 0 && missedSince !== null && now - missedSince > FIRST_RETRIES_MS,
  );
  const lastAt = types.reduce((last, { deliveredAt }) => Math.max(last, deliveredAt ?? 0), 0);
  // One that was missing long before, while others came, hides nothing.
  if (overdue.some(({ missedSince }) => lastAt < (missedSince ?? 0))) return allMissing(overdue, status);
  const alone = overdue.filter(({ missed, deliveredAt }) => missed >= MISSED_ALONE && (deliveredAt ?? 0) < lastAt);
  if (alone.length > 0) return someMissing(alone);
  return lastAt === 0 ? null : refusedToo(status, Math.max(lastAt, Date.parse(status.lastDeliveryAt ?? '') || 0), now);
}

/** Since deliveries were refused for their signature, something has happened that no delivery brought. */
export function isUnheard({ now, status, types }: Evidence): boolean {
  const badSince = Date.parse(status.failures.badSince ?? '');
  return types.some(
    ({ deliveredAt, missedSince }) =>
      deliveredAt !== null && missedSince !== null && missedSince >= badSince && now - missedSince > ON_ITS_WAY_MS,
  );
}

function allMissing(overdue: DeliveredType[], { failureRun, failures }: Evidence['status']): string {
  const seen = `Known: replay or stream brought ${list(overdue)}, and no delivery came in the time of the first repeats.`;
  if (failureRun >= SWITCHED_OFF)
    return `${seen} Known: we answered ${failureRun} deliveries in a row without a 2xx (${causes(failures.causes)}). Guess: the service has switched the webhook off, as it does at ${SWITCHED_OFF}; fix the cause, then enable it at the service`;
  const skewed = failures.causes['clock_skew'] ?? 0;
  if (skewed > 0)
    return `${seen} Known: ${skewed} rightly signed deliveries in a row were refused, because their time lies outside the window. The clock of this machine is wrong: synchronise it`;
  if (failures.badSignatures >= NOT_NOISE)
    return `${seen} Known: ${failures.badSignatures} deliveries since ${failures.badSince} were signed by no secret of ours. Guess: they are the service's, and WEBHOOK_SECRET is not its secret (any more): put the new one before the old (WEBHOOK_SECRET=new,old), then npx kit reload${failures.badSignatures >= SWITCHED_OFF ? '; the service has switched the webhook off by now: enable it there as well' : ''}`;
  const refused =
    failures.badSignatures === 0 ? 'nothing was' : `only ${failures.badSignatures} with a bad signature were`;
  return `${seen} Known: ${refused} refused here. Guess: the webhook is switched off, was removed, or its address does not lead here: see it at the service, and enable it where it is off; replay brings what it misses meanwhile. Else npx kit doctor finds what is in the way`;
}

function someMissing(alone: DeliveredType[]): string {
  return `Known: replay or stream brought ${list(alone)}, and no delivery of these types came, though others did. Guess: the webhook is no longer subscribed to them: see it at the service`;
}

/** Replay is refused as well, so that nobody can tell what is missing. */
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
    return `${seen} Known: webhooks of a key that is revoked or expired stop with it (contract 3.2). Guess: that is so; give the kit a new key, and register the webhook with it`;
  return `${seen} Guess: the key has lost events:read, and its webhooks have stopped with it (contract 3.2); or nothing happened`;
}

function list(types: DeliveredType[]): string {
  const named = types.slice(0, NAMED).map(({ type, missed }) => `${missed} × ${type}`);
  return [...named, ...(types.length > NAMED ? [`and ${types.length - NAMED} types more`] : [])].join(', ');
}

function causes(known: Record<string, number>): string {
  return Object.entries(known)
    .map(([cause, count]) => `${count} × ${cause}`)
    .join(', ');
}
