// Tells people what they should hear about, as the store alone shows it, so that it does not depend on `run`. Each alarm
// is raised once, reminded of once a day, and cleared.
import type { Clock } from '../clock.ts';
import { loggable } from '../errors.ts';
import type { Logger } from '../log.ts';
import type { KeepStore } from '../store/keep-store.ts';
import { StoreError } from '../store/store.ts';
import type { Status, WatchStore } from '../store/watch-store.ts';
import { judge } from './judge.ts';
import { explainSilence, isUnheard, NOT_NOISE } from './silence.ts';

const REMIND_MS = 86_400_000;
const SNAPSHOT_MS = 60_000;
/** What happened keeps its alarm up for this long. */
const RECENT_MS = 600_000;
/** What attempts came to before does not tell how a handler is now. */
const ATTEMPTS_MS = 180_000;
/** A longer run of failures is told again. */
const FAILURE_LEVELS = [3, 10, 13];
/** Replay is asked at most this often whether what was refused was the service's. */
const DOUBT_MS = 20_000;
const POST_MS = 10_000;
/** After one that was not taken; it doubles. */
const POST_PAUSE_MS = { first: 1_000, most: 300_000 };

export interface AlarmsOptions {
  store: KeepStore & WatchStore;
  clock: Clock;
  log: Logger;
  alertUrl: string | undefined;
  freeBytes: () => number;
  /** Deliveries come again after a silence. */
  onHeard?: () => void;
  /** What nobody of ours signed may be the service's: replay can tell. */
  onDoubt?: () => void;
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

export function createAlarms({
  store,
  clock,
  log,
  alertUrl,
  freeBytes,
  onHeard,
  onDoubt,
  signal,
}: AlarmsOptions): Alarms {
  let runUpAt = clock.now();
  let silence: string | null = null;
  let loaded = false;
  let doubtedAt = -Infinity;
  /** When people were told of what the store could not take. */
  const unkept = new Map<string, number>();
  let failures = 0;
  let postAfter = 0;
  const seen: { at: number; counters: Record<string, number> }[] = [];

  async function step(): Promise<void> {
    let fault: StoreError | undefined;
    /** People are told, whether it can be written down or not: a full disk is what they should hear of. */
    const kept = async (work: () => Promise<void>): Promise<boolean> => {
      if (!fault) await work().catch((error: unknown) => (fault = asFault(error)));
      return fault === undefined;
    };
    const now = clock.now();
    const status = await store.status(now);
    const counters = await store.counters();
    if (!loaded) seen.push(...((await store.snapshots()) ?? []));
    loaded = true;
    while (seen.length > 0 && (now - (seen[0]?.at ?? now) > RECENT_MS || (seen[0]?.at ?? now) > now)) seen.shift();
    // One a minute outlasts a restart, which would else look like an all-clear.
    if (now - (seen.at(-1)?.at ?? 0) >= SNAPSHOT_MS) {
      seen.push({ at: now, counters });
      await kept(() => store.note({}, { snapshots: JSON.stringify(seen) }));
    }
    const past = seen[0]?.counters ?? {};
    const shortly = seen.findLast(({ at }) => now - at >= ATTEMPTS_MS)?.counters ?? past;
    const grown = Object.fromEntries(
      Object.entries(counters).map(([name, value]) => [
        name,
        value - ((name.startsWith('attempts.') ? shortly : past)[name] ?? 0),
      ]),
    );

    // Where this process cannot write either, run is not to blame.
    if (status.processes.run === 'up' || status.processes.keep === 'down') runUpAt = now;
    const wasSilent = silence !== null;
    const types = await store.types();
    silence = explainSilence({ now, status, types });
    if (wasSilent && silence === null) onHeard?.();
    const { badSignatures, lastBadAt } = status.failures;
    // Strangers who came once must not cost calls for as long as no good delivery comes.
    const lately = lastBadAt !== null && now - Date.parse(lastBadAt) <= RECENT_MS;
    if (badSignatures >= NOT_NOISE && lately && now - doubtedAt >= DOUBT_MS) {
      doubtedAt = now;
      onDoubt?.();
    }
    const unheard = isUnheard({ now, status, types });
    const blind = (await store.blind()) ?? [];
    const broken = await store.brokenHandlers();
    const runDownMs = now - runUpAt;
    const holding = judge({ now, status, grown, freeBytes: freeBytes(), runDownMs, silence, unheard, blind, broken });
    const raised = new Map((await store.raised()).map((alarm) => [alarm.name, alarm]));
    for (const [name, detail] of holding) {
      const before = raised.get(name);
      if (!before || before.cleared) log.warn({ alarm: name }, detail);
      if (before?.detail !== detail || before.cleared) await kept(() => store.raise(name, detail, now));
      const level = levelOf(name, status);
      const toldAt = before?.toldAt ?? unkept.get(name) ?? null;
      const graver = before !== undefined && level > before.level;
      if (toldAt === null || now - toldAt >= REMIND_MS || graver) {
        if (!(await post(`${name}: ${detail}`))) continue;
        unkept.set(name, now);
      }
      const news = unkept.get(name);
      if (news !== undefined && (await kept(() => store.told(name, level, news)))) unkept.delete(name);
    }
    for (const { name, toldAt, cleared } of raised.values()) {
      if (holding.has(name)) continue;
      if (!cleared) log.info({ alarm: name }, 'all clear');
      if (!cleared) await store.clear(name);
      if (toldAt === null || (await post(`${name}: all clear`))) await store.forget(name);
    }
    if (fault) throw fault;
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

function asFault(error: unknown): StoreError {
  if (error instanceof StoreError) return error;
  throw error;
}
