// Which alarms hold, from facts alone, and in which words: what happened, to what, and what to do.
import type { Crash } from '../store/keep.ts';
import type { Gap, Status } from '../store/read.ts';

const FAILURES_ALLOWED = 15;
/** A process that shows no life for so long is worth a person's while, as is reading that fails for so long. */
const DOWN_MS = 15_000;
const TROUBLE_MS = 180_000;
/** A task that waits for so long, while its handler's attempts fail. */
const STUCK_SECONDS = 300;
const MB = 1024 * 1024;
const DISK_LOW_MB = 512;
/** A disk around the limit must not raise it again and again. */
const DISK_WELL_MB = 640;
/** What to do about the causes of a failure run. */
const REMEDIES: Record<string, string> = {
  store: 'the store could not be written: the disk is full or failing (df -h), or something locks the file',
  clock_skew: 'the clock of this machine is wrong: synchronise it',
};

/** Processes that died longer ago than this before the last do not tell what ends them now. */
const CRASHES_MS = 600_000;

/** Each has a rule in src/ops/alerts.yaml and a paragraph in src/ops/runbook.md. */
export const ALARMS = [
  'store_unwritable',
  'store_replaced',
  'failure_run',
  'webhook_silent',
  'secret_mismatch',
  'clock_skew',
  'body_limit',
  'replay_blind',
  'reconcile_stopped',
  'reconcile_behind',
  'watermark_ahead',
  'gap_open',
  'conflict',
  'poisoned',
  'cursor_regression',
  'dead_letters',
  'run_crashing',
  'handler_failing',
  'lane_fault',
  'disk_low',
] as const;

export interface Facts {
  /** Unix milliseconds. */
  now: number;
  status: Status;
  /** Counters that have grown in the last minutes, and by how much. */
  grown: Record<string, number>;
  freeBytes: number;
  /** How long the process that runs handlers has shown no life. */
  runDownMs?: number;
  /** Why webhooks are silent, as `explainSilence` has it. */
  silence?: string | null;
  /** Since webhooks were refused for their signature, replay brought what no delivery did. */
  unheard?: boolean;
  /** The types that replay does not show, as they were found last. */
  blind?: string[];
  /** Where the watermark stood when it was lowered last, and where it went. */
  lowered?: { from: string; to: string } | null;
  /** How many events replay and stream have brought that webhooks should have. */
  missed?: number;
  /** The newest open gap. */
  gap?: Gap | null;
  /** Of the newest authentic delivery outside the time window: how far its timestamp lay ahead of our clock. */
  skewSeconds?: number | null | undefined;
  /** The longest failure run of the last minutes. */
  worstRun?: number;
  /** The newest cause of dead letters. */
  cause?: { id: number; handler: string; error: string } | null;
  /** The event that was contradicted last. */
  contradicted?: string | null;
  /** How processes that run handlers have died, newest first. */
  crashes?: Crash[];
  /** Files of handlers that cannot be loaded, and the handlers that wait for them. */
  broken?: { fault: string; waiting: string[] }[];
}

/** The alarms that hold now, with what to do. */
export function judge({
  now,
  status,
  grown,
  freeBytes,
  runDownMs = 0,
  silence = null,
  unheard = false,
  blind = [],
  lowered = null,
  gap = null,
  skewSeconds = null,
  worstRun = 0,
  cause = null,
  contradicted = null,
  crashes = [],
  broken = [],
}: Facts): Map<string, string> {
  const alarms = new Map<string, string>();
  const when = (holds: boolean | undefined, name: (typeof ALARMS)[number], detail: string): void => {
    if (holds) alarms.set(name, detail);
  };
  const { failureRun, failures, gaps, tasks, reconcile } = status;
  const causes = wordsOf(failures.causes);
  const grew = (name: string): number => grown[name] ?? 0;
  when(
    failureRun >= 3,
    'failure_run',
    `${failureRun} authentic deliveries in a row were not answered with 2xx${causes ? ` (${causes})` : ''}: ${remedyOf(failures.causes)}${switchingOff(failureRun, reconcile)}`,
  );
  when(
    failureRun < 3 && grew('failure_runs') > 0,
    'failure_run',
    // What was under way at the 15th failure can succeed after it, so that success does not prove that the webhook is on.
    `${worstRun >= FAILURES_ALLOWED ? worstRun : '3 or more'} authentic deliveries in a row were not answered with 2xx. ${failureRun === 0 ? 'Deliveries succeed again' : 'Later deliveries succeeded, the newest failed again'}. At ${FAILURES_ALLOWED} in a row the service switches the webhook off: if it is still off, enable it at the service. The page, Refused, and the log have the causes. This alarm ends 10 minutes after the last such run`,
  );
  when(
    failureRun < 3 && grew('unseen_failures') >= 3 && grew('failure_runs') === 0,
    'failure_run',
    `${grew('unseen_failures')} events lately came with an attempt number above 1: earlier attempts failed before they reached us. See the proxy, the certificate and the network in front: npx kit doctor`,
  );
  when(silence !== null, 'webhook_silent', `webhooks are silent. ${silence}`);
  when(
    failures.badSignatures >= 3 &&
      (silence !== null || unheard || !status.lastDeliveryAt || ['off', 'stopped'].includes(reconcile.state)),
    'secret_mismatch',
    `${failures.badSignatures} deliveries since ${failures.badSince} were signed by no secret of ours, and none by one of ours since. Guess: the secret of the webhook has changed, or was never ours: put it before the old one (WEBHOOK_SECRET=new,old), then npx kit reload${switchingOff(failures.badSignatures, reconcile)}. If they are a stranger's, the next good delivery ends this`,
  );
  when(
    grew('unseen') > 0,
    'replay_blind',
    `webhooks brought ${grew('unseen')} events that two complete reads of replay did not show (${blind.join(', ')}): API_KEY sees less than the webhook, so give it the same numbers and scopes; what webhooks miss of these is not fetched`,
  );
  const troubleMs = reconcile.state === 'backing-off' && reconcile.since ? now - Date.parse(reconcile.since) : 0;
  when(
    troubleMs > TROUBLE_MS,
    'reconcile_behind',
    `nothing could be read from the service since ${reconcile.since} (${reconcile.reason}): what webhooks miss stays missing, and strict handlers wait (${tasks.held} held)`,
  );
  when(
    reconcile.progress?.behind,
    'reconcile_behind',
    'reading the history does not come nearer to now: raise RECONCILE_CALLS_PER_MINUTE (1,000 events a call, 120 calls a minute for the whole account)',
  );
  when(
    grew('watermark_ahead') > 0 && lowered !== null,
    'watermark_ahead',
    `the watermark stood at ${lowered?.from}, too high: events were delivered below it that replay did not show. It went down to ${lowered?.to}, and reading begins again there. See npx kit reconcile --runs for what that recovers, and npx kit explain ${lowered?.from} for the event that raised it; if the service shows it by mistake, tell its support`,
  );
  when(
    grew('refused.clock_skew') >= 3,
    'clock_skew',
    `rightly signed deliveries lie outside the time window: the clock of this machine seems ${skewSeconds === null ? 'wrong' : `${Math.abs(skewSeconds)} s ${skewSeconds < 0 ? 'ahead of' : 'behind'} the service`}. Synchronise it, see timedatectl`,
  );
  when(
    grew('refused.body_limit') > 0,
    'body_limit',
    'a body was refused for its size, unread: if it was the service, raise BODY_LIMIT_BYTES; if a stranger, nothing is lost',
  );
  when(
    grew('conflicts') > 0,
    'conflict',
    `arrivals contradicted events that were there (${grew('conflicts')} lately): npx kit explain ${contradicted ?? '<key>'} shows the last, npx kit events --contradicted all`,
  );
  when(
    grew('poisoned') > 0,
    'poisoned',
    `events lately could not be stored, each for a reason of its own, and are quarantined (${grew('poisoned')}): npx kit quarantine lists them with the reason; once its cause is gone, npx kit quarantine retry <id> stores and handles it`,
  );
  when(
    grew('regressions') > 0,
    'cursor_regression',
    'young events came with cursors that were pruned long ago: is this the account that the store belongs to?',
  );
  when(
    runDownMs > DOWN_MS,
    'run_crashing',
    'the process that runs handlers does not run: see the log for why it cannot start',
  );
  when(
    grew('run_crashes') >= 3,
    'run_crashing',
    `the process that runs handlers died ${grew('run_crashes')} times in the last minutes. ${culpritOf(crashes)}`,
  );
  when(
    under('lane_faults').length > 0,
    'lane_fault',
    `lane of ${under('lane_faults').join(', ')} throws; using the session as lane. Fix the function, then npx kit reload; the log has the place`,
  );
  // Once up, it stays until they have gone on: attempts get rarer, the tasks are as stuck as before.
  const stuck = (status.oldestReadySeconds ?? 0) > STUCK_SECONDS;
  const failing = under('attempts.retry').filter(
    (name) => grew(`attempts.retry.${name}`) > grew(`attempts.done.${name}`),
  );
  const before = status.alarms.find(({ name }) => name === 'handler_failing')?.detail;
  when(
    stuck && (failing.length > 0 || before !== undefined),
    'handler_failing',
    failing.length === 0 && before !== undefined
      ? before
      : `attempts of ${failing.join(', ')} fail, and tasks wait for more than 5 minutes: npx kit tasks --state ready --handler ${failing[0]} lists them, npx kit explain <key> shows the error. Fix it, then npx kit reload; they are tried again by themselves, at once with npx kit retry --state ready --handler ${failing[0]} or on the page, Dead letters`,
  );
  // Instead of what attempts come to: it says what to do about both.
  when(broken.length > 0, 'handler_failing', broken.map(brokenWords).join('; '));
  when(
    tasks.dead > 0,
    'dead_letters',
    `${tasks.dead === 1 ? 'a task is a dead letter' : `${tasks.dead} tasks are dead letters`}${cause ? `; newest cause: ${wordingOf(cause)}` : ''}. See why (npx kit tasks --state dead --groups, or the page, Dead letters), fix the handler, npx kit reload, then retry them (npx kit retry --state dead) or discard them there`,
  );
  when(
    gap !== null,
    'gap_open',
    `${gaps > 1 ? `${gaps} gaps are open, npx kit gaps lists them; the newest is ` : ''}gap ${gap?.id}: the service can no longer replay what came after cursor ${gap?.after}${gap?.upTo ? ` up to ${gap.upTo}` : ''} (${gap?.reason}). Fetch what matters by other means, then npx kit gaps close ${gap?.id} --reason "…"`,
  );
  when(
    reconcile.state === 'stopped',
    'reconcile_stopped',
    `reconciliation stopped (${reconcile.reason}): correct API_KEY in the configuration, then npx kit reload; until then strict handlers wait (${tasks.held} held)`,
  );
  const freeMb = Math.floor(freeBytes / MB);
  const wasLow = status.alarms.some(({ name }) => name === 'disk_low');
  when(
    freeMb < (wasLow ? DISK_WELL_MB : DISK_LOW_MB),
    'disk_low',
    `${freeMb === 0 ? 'nothing is' : `${freeMb} MB are`} left on the disk of the store (DATABASE_URL): make room until ${DISK_WELL_MB} MB are free, see df -h. Without room deliveries get 503, and at ${FAILURES_ALLOWED} in a row the service switches the webhook off; what is delivered meanwhile comes again`,
  );
  return alarms;

  /** What has grown of this name, by the words behind it. */
  function under(name: string): string[] {
    return Object.keys(grown).flatMap((one) =>
      one.startsWith(`${name}.`) && grew(one) > 0 ? [one.slice(name.length + 1)] : [],
    );
  }
}

/** The handler, and of its error the name and the place: the rest may quote what strangers wrote. */
function wordingOf({ handler, error }: NonNullable<Facts['cause']>): string {
  const name = /^([A-Z]\w{0,60}): /.exec(error)?.[1];
  const place = / \(([\w./-]{1,200}:\d{1,6})\)$/.exec(error)?.[1];
  return [handler, name, place].filter(Boolean).join(', ');
}

/** A task that was alone in its process has ended it; of several, it may have been any. */
function culpritOf(crashes: Crash[]): string {
  const [last] = crashes;
  const lately = crashes.filter(({ at }) => Math.abs(Date.parse(last?.at ?? at) - Date.parse(at)) <= CRASHES_MS);
  const sure = lately.find(({ alone, task }) => alone && task !== null);
  const found = sure ?? last;
  if (!found) return 'See why in the log (run died)';
  if (!found.task) return `The last ended with ${found.exit}, while no handler was at work: see the log (run died)`;
  const { handler, key } = found.task;
  const words = sure
    ? `Handler ${handler} on event ${key} ended it ${found.count === 1 ? 'once' : `${found.count} times`}, last with ${found.exit}`
    : `Handler ${handler} on event ${key} was among the tasks at work when it ended with ${found.exit}`;
  return `${words}: npx kit explain ${key} shows its attempts, the log (run died) the rest`;
}

function brokenWords({ fault, waiting }: { fault: string; waiting: string[] }): string {
  const goesOn =
    waiting.length > 0
      ? `handler ${waiting.join(', ')} waits, the others go on. Fix the file, then npx kit reload: what came meanwhile is handled then`
      : 'the handlers that were loaded go on. Fix the file, then npx kit reload';
  return `${fault}: ${goesOn}`;
}

function remedyOf(causes: Record<string, number>): string {
  const known = Object.keys(causes).flatMap((cause) => REMEDIES[cause] ?? []);
  return known.length > 0 ? known.join('; ') : 'the log has the cause';
}

/** What so many failures in a row mean at the service, and what then is to do there. */
function switchingOff(failures: number, { state }: Status['reconcile']): string {
  if (failures < FAILURES_ALLOWED) return `; at ${FAILURES_ALLOWED} in a row the service switches the webhook off`;
  const back = state === 'off' ? 'what it missed stays missing' : 'replay brings what it missed';
  return `. At ${FAILURES_ALLOWED} in a row the service has switched the webhook off: enable it there as well; ${back}`;
}

function wordsOf(causes: Record<string, number>): string {
  return Object.entries(causes)
    .map(([cause, count]) => `${count} × ${cause}`)
    .join(', ');
}
