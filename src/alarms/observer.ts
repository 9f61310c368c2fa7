// Collects the observation for the rules of `keep`. While the store cannot be read, the observation repeats what was
// read last.
import type { Clock } from '../base/clock.ts';
import type { Accounts } from '../keep/account.ts';
import type { Keep } from '../keep/module.ts';
import { withAccount } from '../keep/view.ts';
import { orNone } from '../store/or-none.ts';
import { differing } from '../store/processes.ts';
import type { Alarm, Status } from '../store/read.ts';
import { createAttemptCounters } from './attempt-counters.ts';
import { createFailingHeads } from './failing-heads.ts';
import { createMoments, type Moments } from './moments.ts';
import { createRecentCounters, RECENT_MS } from './recent-counters.ts';
import { isPaused, NOTHING_SEEN, type Observation } from './rules/observation.ts';

export interface ObserverOptions extends Pick<Keep, 'store' | 'clock' | 'freeBytes'> {
  /** The interval of scheduled backups, milliseconds. Undefined: there are none. */
  backupEveryMs?: number | undefined;
  /** The reports of the main process about itself. */
  accounts?: Pick<Accounts, 'latest' | 'worstRun'> | undefined;
}

/**
 * Returns a function that makes an observation. Its argument `up` holds the raised alarms. In its result, `read` says
 * whether the store could be read.
 */
// oxlint-disable-next-line max-lines-per-function -- one observation, each part with its memory
export function createObserver({ store, clock, freeBytes, backupEveryMs, accounts }: ObserverOptions) {
  const growthOf = createRecentCounters(store, clock);
  const attemptsOf = createAttemptCounters(store, clock);
  const stuckLanes = createFailingHeads(store, clock);
  const moments = createMoments(clock);
  const runDown = createDuration(clock);
  const differ = createDuration(clock);
  const began = clock.monotonic();
  let worst = { run: 0, after: -Infinity };
  let last: Observation = { ...NOTHING_SEEN, now: clock.now() };

  /** Throws StoreError while the store cannot be read. */
  async function readStore(): Promise<Observation> {
    const now = clock.now();
    const stored = await store.read.status(now);
    moments.look();
    const refusals = await store.state.get('refusals');
    const paused = await pausedNow();
    const status = withoutSteps(withAccount(stored, accounts?.latest()), moments);
    const counters = await store.read.counters();
    return {
      now,
      status: { ...status, oldestReadySeconds: await oldestOf(status, paused, now) },
      recent: await growthOf(counters),
      attempts: await attemptsOf(counters),
      stuck: await stuckLanes((handler) => isPaused({ paused }, handler)),
      freeBytes: freeBytes(),
      runDownMs: runDownMs(status),
      differMs: differ(differing(status.instances).length > 0),
      types: (await store.replay.types()).map((one) => ({
        ...one,
        deliveredAt: moments.moment(`delivered ${one.type}`, one.deliveredAt),
        missedSince: moments.moment(`missed ${one.type}`, one.missedSince),
      })),
      refused: refusals['bad_signature'] ?? [],
      blind: (await store.state.get('blind')) ?? [],
      lowered: await store.state.get('lowered'),
      gap: status.gaps > 0 ? ((await store.read.gaps()).findLast(({ closedAt }) => closedAt === null) ?? null) : null,
      skewSeconds: refusals['clock_skew']?.[0]?.skewSeconds ?? null,
      worstRun: 0,
      cause: await store.alarms.newestDeadGroup(),
      contradicted: await store.alarms.lastContradicted(),
      crashes: await store.state.get('crashes'),
      paused,
      backups: await backups(),
      broken: await store.alarms.brokenHandlers(),
    };
  }

  async function pausedNow(): Promise<Observation['paused']> {
    const paused = Object.entries(await store.state.get('paused'));
    return Object.fromEntries(
      paused.map(([name, one]) => [name, { ...one, at: moments.moment(`paused ${name}`, one.at) }]),
    );
  }

  /** The age of the oldest task that no pause holds. */
  async function oldestOf(status: Status, paused: Observation['paused'], now: number): Promise<number | null> {
    if (Object.keys(paused).length === 0 || status.oldestReadySeconds === null) return status.oldestReadySeconds;
    const others = (await store.read.handlers(now)).filter(({ name }) => !isPaused({ paused }, name));
    const oldest = Math.max(-1, ...others.map(({ oldestSeconds }) => oldestSeconds ?? -1));
    return oldest < 0 ? null : Math.min(oldest, status.oldestReadySeconds);
  }

  async function backups(): Promise<Observation['backups']> {
    if (backupEveryMs === undefined) return null;
    const newest = await store.state.get('backup');
    const at = newest?.verifiedAt ?? null;
    const ageMs = at === null ? clock.monotonic() - began : clock.now() - moments.moment('backup', at);
    return { dueMs: 2 * backupEveryMs + 3_600_000, ageMs, last: newest };
  }

  function runDownMs({ processes }: Status): number {
    // While no sign of life can be written to the store, every process looks down, so `run` counts as up.
    const unwritable = processes.keep === 'down' || (accounts?.latest()?.alarms.length ?? 0) > 0;
    return runDown(processes.run !== 'up' && !unwritable);
  }

  function worstRun(run: number): number {
    const now = clock.monotonic();
    if (run >= worst.run || now - worst.after > RECENT_MS) worst = { run, after: now };
    return worst.run;
  }

  return async function look(up: Alarm[]): Promise<{ seen: Observation; read: boolean }> {
    const stored = await orNone(readStore);
    // Without the store, nothing shows whether `run` lives, so it counts as up.
    if (!stored) runDown(false);
    const seen = stored ?? { ...last, freeBytes: freeBytes() };
    const status = withAccount(seen.status, accounts?.latest());
    // A failure run may have begun and ended since the last observation, so the main process reports the longest.
    const failureRun = Math.max(status.failureRun, accounts?.worstRun() ?? 0);
    const alarms = up.map((one) => ({ ...one, since: withoutStep(moments, `alarm ${one.name}`, one.since) }));
    last = { ...seen, status: { ...status, alarms, failureRun }, worstRun: worstRun(failureRun) };
    return { seen: last, read: stored !== undefined };
  };
}

/** Returns for how long something has held, milliseconds. Tell it each time whether it holds. */
function createDuration(clock: Clock): (holds: boolean) => number {
  let since = clock.monotonic();
  return (holds) => {
    if (!holds) since = clock.monotonic();
    return clock.monotonic() - since;
  };
}

function withoutStep<Text extends string | null>(moments: Moments, name: string, text: Text): Text {
  return (text && new Date(moments.moment(name, Date.parse(text))).toISOString()) as Text;
}

/** Corrects each time for steps of the wall clock, so that its age stays right. */
function withoutSteps(status: Status, moments: Moments): Status {
  const moment = (name: string, text: string | null): string | null => withoutStep(moments, name, text);
  const { reconcile, failures } = status;
  return {
    ...status,
    lastDeliveryAt: moment('delivery', status.lastDeliveryAt),
    reconcile: { ...reconcile, since: moment('reconcile', reconcile.since) },
    failures: {
      ...failures,
      badSince: moment('bad since', failures.badSince),
      lastBadAt: moment('last bad', failures.lastBadAt),
    },
  };
}
