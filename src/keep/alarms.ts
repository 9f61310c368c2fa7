// What a person should hear about, found in the store alone, so that it does not depend on `run`. Each alarm is raised
// once, reminded of once a day, and cleared; each says what to do.
import type { Clock } from '../clock.ts';
import { loggable } from '../errors.ts';
import type { Logger } from '../log.ts';
import type { KeepStore, Status, WatchStore } from '../store/store.ts';
import { explainSilence } from './silence.ts';

const REMIND_MS = 86_400_000;
const SNAPSHOT_MS = 60_000;
/** What happened keeps its alarm up for this long. */
const RECENT_MS = 600_000;
const FAILURES_ALLOWED = 15;
/** A longer run of failures is told again. */
const FAILURE_LEVELS = [3, 10, 13];
const POST_MS = 10_000;
/** After one that was not taken; it doubles. */
const POST_PAUSE_MS = { first: 1_000, most: 300_000 };
const DOWN_MS = 15_000;
/** Reading that fails for so long is worth a person's while. */
const TROUBLE_MS = 180_000;

/** Each has a rule in src/ops/alerts.yaml and a paragraph in src/ops/runbook.md. */
export const ALARMS = [
  'failure_run',
  'webhook_silent',
  'secret_mismatch',
  'clock_skew',
  'body_limit',
  'replay_blind',
  'reconcile_stopped',
  'reconcile_behind',
  'gap_open',
  'conflict',
  'cursor_regression',
  'dead_letters',
  'run_crashing',
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
  /** The types that replay does not show, as they were found last. */
  blind?: string[];
}

/** The alarms that hold now, with what to do. */
export function judge({
  now,
  status,
  grown,
  freeBytes,
  runDownMs = 0,
  silence = null,
  blind = [],
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
    `${failureRun} authentic deliveries in a row were not answered with 2xx (${causes}); at ${FAILURES_ALLOWED} the service switches the webhook off: see the log`,
  );
  when(
    failureRun < 3 && grew('failure_runs') > 0,
    'failure_run',
    'lately, 3 or more authentic deliveries in a row were not answered with 2xx: see the log for the causes',
  );
  when(
    failureRun < 3 && grew('unseen_failures') >= 3 && grew('failure_runs') === 0,
    'failure_run',
    `${grew('unseen_failures')} events lately came with an attempt number above 1: earlier attempts failed before they reached us. See the proxy, the certificate and the network in front: npx kit doctor`,
  );
  when(silence !== null, 'webhook_silent', `webhooks are silent. ${silence}`);
  when(
    failures.badSignatures >= 3 &&
      (silence !== null || !status.lastDeliveryAt || ['off', 'stopped'].includes(reconcile.state)),
    'secret_mismatch',
    `${failures.badSignatures} deliveries since ${failures.badSince} were signed by no secret of ours, and none by one of ours since. Guess: WEBHOOK_SECRET is not the secret of the webhook (any more): set it, and send SIGHUP; else strangers try the address. At ${FAILURES_ALLOWED} refusals in a row the service switches the webhook off: then enable it there as well`,
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
    grew('refused.clock_skew') >= 3,
    'clock_skew',
    'rightly signed deliveries lie outside the time window: check the clock of this machine',
  );
  when(grew('refused.body_limit') > 0, 'body_limit', 'a body was refused for its size: raise BODY_LIMIT_BYTES');
  when(
    grew('conflicts') > 0,
    'conflict',
    `arrivals contradicted events that were there (${grew('conflicts')} lately): the log names them, npx kit explain tells more`,
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
    'the process that runs handlers died three times: see the log, then npx kit tasks --state dead',
  );
  when(
    grew('lane_faults') > 0,
    'lane_fault',
    'the lane function of a handler throws, and its session stands in: see the log',
  );
  when(
    tasks.dead > 0,
    'dead_letters',
    `${tasks.dead} tasks are dead letters: see npx kit tasks --state dead, then retry or discard them`,
  );
  when(
    gaps > 0,
    'gap_open',
    `${gaps === 1 ? 'a stretch' : `${gaps} stretches`} of history can no longer be fetched: see npx kit gaps`,
  );
  when(
    reconcile.state === 'stopped',
    'reconcile_stopped',
    `reconciliation stopped (${reconcile.reason}): mend API_KEY in the configuration, then send SIGHUP; until then strict handlers wait (${tasks.held} held)`,
  );
  when(
    freeBytes < 512 * 1024 * 1024,
    'disk_low',
    `${Math.round(freeBytes / 1024 / 1024)} MB are left on the disk of the store`,
  );
  return alarms;
}

function wordsOf(causes: Record<string, number>): string {
  return Object.entries(causes)
    .map(([cause, count]) => `${count} × ${cause}`)
    .join(', ');
}

export interface AlarmsOptions {
  store: KeepStore & WatchStore;
  clock: Clock;
  log: Logger;
  alertUrl: string | undefined;
  freeBytes: () => number;
  /** Deliveries come again after a silence. */
  onHeard?: () => void;
  /** Ends the post that is under way. */
  signal?: AbortSignal;
}

/** How grave it is: people are told again when it gets graver. */
export function levelOf(name: string, { failureRun }: Status): number {
  return name === 'failure_run' ? FAILURE_LEVELS.filter((level) => failureRun >= level).length : 1;
}

export interface Alarms {
  /** Compares what holds with what was raised, and tells people the difference. */
  step(): Promise<void>;
  /** Webhooks are silent, as of the last step. */
  silent(): boolean;
}

export function createAlarms({ store, clock, log, alertUrl, freeBytes, onHeard, signal }: AlarmsOptions): Alarms {
  let runUpAt = clock.now();
  let silence: string | null = null;
  let loaded = false;
  let failures = 0;
  let postAfter = 0;
  const seen: { at: number; counters: Record<string, number> }[] = [];

  async function step(): Promise<void> {
    const now = clock.now();
    const status = await store.status(now);
    const counters = await store.counters();
    if (!loaded) seen.push(...((await store.snapshots()) ?? []));
    loaded = true;
    while (seen.length > 0 && (now - (seen[0]?.at ?? now) > RECENT_MS || (seen[0]?.at ?? now) > now)) seen.shift();
    // One a minute outlasts a restart, which would else look like an all-clear.
    if (now - (seen.at(-1)?.at ?? 0) >= SNAPSHOT_MS) {
      seen.push({ at: now, counters });
      await store.note({}, { snapshots: JSON.stringify(seen) });
    }
    const past = seen[0]?.counters ?? {};
    const grown = Object.fromEntries(
      Object.entries(counters).map(([name, value]) => [name, value - (past[name] ?? 0)]),
    );

    if (status.processes.run === 'up') runUpAt = now;
    const wasSilent = silence !== null;
    silence = explainSilence({ now, status, types: await store.types() });
    if (wasSilent && silence === null) onHeard?.();
    const blind = (await store.blind()) ?? [];
    const holding = judge({ now, status, grown, freeBytes: freeBytes(), runDownMs: now - runUpAt, silence, blind });
    const raised = new Map((await store.raised()).map((alarm) => [alarm.name, alarm]));
    for (const [name, detail] of holding) {
      const before = raised.get(name);
      if (before?.detail !== detail || before.cleared) await store.raise(name, detail, now);
      if (!before || before.cleared) log.warn({ alarm: name }, detail);
      const level = levelOf(name, status);
      const news = !before || before.toldAt === null || now - before.toldAt >= REMIND_MS || level > before.level;
      if (news && (await post(`${name}: ${detail}`))) await store.told(name, level, now);
    }
    for (const { name, toldAt, cleared } of raised.values()) {
      if (holding.has(name)) continue;
      if (!cleared) log.info({ alarm: name }, 'all clear');
      if (!cleared) await store.clear(name);
      if (toldAt === null || (await post(`${name}: all clear`))) await store.forget(name);
    }
  }

  /** False where nobody was told; it is tried again with the next step. */
  async function post(text: string): Promise<boolean> {
    if (!alertUrl) return true;
    if (clock.now() < postAfter) return false;
    try {
      const response = await fetch(alertUrl, {
        method: 'POST',
        redirect: 'error',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ text }),
        signal: AbortSignal.any([AbortSignal.timeout(POST_MS), ...(signal ? [signal] : [])]),
      });
      await response.body?.cancel();
      failures = response.ok ? 0 : failures + 1;
      if (response.ok) return true;
      log.warn({ status: response.status }, 'ALERT_URL did not take an alarm; tried again');
    } catch (error) {
      if (signal?.aborted) return false;
      failures++;
      log.warn(loggable(error), 'ALERT_URL cannot be reached; tried again');
    }
    postAfter = clock.now() + Math.min(POST_PAUSE_MS.most, POST_PAUSE_MS.first * 2 ** failures);
    return false;
  }

  return { step, silent: () => silence !== null };
}
