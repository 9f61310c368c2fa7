// Judges which alarms hold, as the store shows it, so that it does not depend on `run`; and as long as the store cannot be
// read, as it was seen last. What was raised outlasts this process; when people are told, the board decides.
import { createBoard, type Held } from './board.ts';
import type { Clock } from '../base/clock.ts';
import type { Logger } from '../base/log.ts';
import { createNotifier } from './notifier.ts';
import type { KeepStore } from '../store/keep.ts';
import { StoreError } from '../store/store.ts';
import type { Alarm, Status, ReadStore } from '../store/read.ts';
import type { Accounts } from '../keep/account.ts';
import { createGrowth } from './growth.ts';
import { judge, type Facts } from './rules.ts';
import { levelOf } from './levels.ts';
import { explainSilence, isUnheard, NOT_NOISE } from './webhook-silent.ts';
import { createSteady } from './steady.ts';
import { UNREAD, withAccount } from '../keep/view.ts';

/** What happened keeps its alarm up for this long. */
const RECENT_MS = 600_000;
/** Replay is asked at most this often whether what was refused was the service's. */
const DOUBT_MS = 20_000;

export interface AlarmsOptions {
  store: KeepStore & ReadStore;
  clock: Clock;
  log: Logger;
  alertUrl: string | undefined;
  freeBytes: () => number;
  /** Deliveries come again after a silence. */
  onHeard?: () => void;
  /** What nobody of ours signed may be the service's: replay can tell. */
  onDoubt?: () => void;
  /** What the main process says of itself. */
  accounts?: Pick<Accounts, 'latest' | 'worstRun'>;
  /** Ends the post that is under way. */
  signal?: AbortSignal;
}

export interface Alarms {
  /** Compares what holds with what was raised. A store that cannot be read or written keeps it from nothing. */
  step(): Promise<void>;
  /** Tells people what they should hear of. It may take as long as ALERT_URL takes. */
  tell(): Promise<void>;
  up(): Alarm[];
  /** Webhooks are silent, as of the last step. */
  silent(): boolean;
}

export function createAlarms(options: AlarmsOptions): Alarms {
  const { store, clock, log, alertUrl, freeBytes, onHeard, onDoubt, accounts, signal } = options;
  const board = createBoard({ clock, log, notifier: createNotifier({ url: alertUrl, clock, log, signal }) });
  const growth = createGrowth(store, clock);
  const steady = createSteady(clock);
  let runUpAfter = clock.monotonic();
  let silence: string | null = null;
  let restored = false;
  let doubtedAfter = -Infinity;
  let worst = { run: 0, after: -Infinity };
  /** As the store was seen last. */
  let last: Facts = { now: clock.now(), status: UNREAD, grown: {}, freeBytes: Infinity };

  async function step(): Promise<void> {
    await ifStore(restore);
    const read = await ifStore(look);
    // Without a store, run is not to blame.
    if (!read) runUpAfter = clock.monotonic();
    last = told(read ?? { ...last, freeBytes: freeBytes() });
    board.hold(holdingOf(last));
    await save();
  }

  /** With what is known without the store. */
  function told(facts: Facts): Facts {
    const status = { ...withAccount(facts.status, accounts?.latest()), alarms: board.up() };
    // A run may have ended since the last look.
    const failureRun = Math.max(status.failureRun, accounts?.worstRun() ?? 0);
    return { ...facts, status: { ...status, failureRun }, worstRun: worstRun(failureRun) };
  }

  async function restore(): Promise<void> {
    if (restored) return;
    board.restore(await store.raised());
    restored = true;
  }

  /** Throws StoreError while the store cannot be read. */
  async function look(): Promise<Facts> {
    const now = clock.now();
    const status = steadied(withAccount(await store.status(now), accounts?.latest()));
    const grown = await growth.look(await store.counters());
    const types = (await store.types()).map(({ type, deliveredAt, missed, missedSince }) => ({
      type,
      missed,
      deliveredAt: steady.moment(`delivered ${type}`, deliveredAt),
      missedSince: steady.moment(`missed ${type}`, missedSince),
    }));
    const storeless = status.processes.keep === 'down' || (accounts?.latest()?.alarms.length ?? 0) > 0;
    if (status.processes.run === 'up' || storeless) runUpAfter = clock.monotonic();
    const evidence = { now, status, types };
    hear(explainSilence(evidence));
    doubt(status);
    return {
      now,
      status,
      grown,
      freeBytes: freeBytes(),
      runDownMs: clock.monotonic() - runUpAfter,
      silence,
      unheard: isUnheard(evidence),
      blind: (await store.blind()) ?? [],
      lowered: await store.lowered(),
      gap: status.gaps > 0 ? ((await store.gaps()).findLast(({ closedAt }) => closedAt === null) ?? null) : null,
      skewSeconds: (await store.refusals())['clock_skew']?.[0]?.skewSeconds,
      missed: types.reduce((sum, { missed }) => sum + missed, 0),
      cause: await store.newestCause(),
      contradicted: await store.lastContradicted(),
      crashes: await store.crashes(),
      broken: await store.brokenHandlers(),
    };
  }

  function steadied(status: Status): Status {
    steady.look();
    const moment = (name: string, text: string | null): string | null =>
      text === null ? null : new Date(steady.moment(name, Date.parse(text))).toISOString();
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

  function hear(now: string | null): void {
    const ended = silence !== null && now === null;
    silence = now;
    if (ended) onHeard?.();
  }

  function doubt({ failures: { badSignatures, lastBadAt } }: Status): void {
    // Strangers who came once must not cost calls for as long as no good delivery comes.
    const lately = lastBadAt !== null && clock.now() - Date.parse(lastBadAt) <= RECENT_MS;
    if (badSignatures < NOT_NOISE || !lately || clock.monotonic() - doubtedAfter < DOUBT_MS) return;
    doubtedAfter = clock.monotonic();
    onDoubt?.();
  }

  function worstRun(run: number): number {
    const now = clock.monotonic();
    if (run >= worst.run || now - worst.after > RECENT_MS) worst = { run, after: now };
    return worst.run;
  }

  function holdingOf(facts: Facts): Map<string, Held> {
    const news = (name: string): number => (name === 'dead_letters' ? (facts.cause?.id ?? 0) : 0);
    return new Map(
      [...judge(facts)].map(([name, detail]) => [name, { detail, level: levelOf(name, facts), news: news(name) }]),
    );
  }

  async function save(): Promise<void> {
    await ifStore(async () => board.save(store));
  }

  return {
    step,
    async tell() {
      await board.tell();
      await save();
    },
    up: () => board.up(),
    silent: () => silence !== null,
  };
}

/** Undefined while the store cannot be used: the main process tells people of that. */
async function ifStore<Result>(work: () => Promise<Result>): Promise<Result | undefined> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof StoreError) return undefined;
    throw error;
  }
}
