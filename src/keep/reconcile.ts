// Which call of ReplayEvents comes next: reading forward from the watermark first, then sweeping over the last minutes
// once more, then verifying a stretch that a person named. It never goes faster than its budget, never believes a page
// further than its items, and says why when it stops.
import { iso, type Clock } from '../clock.ts';
import type { Logger } from '../log.ts';
import type { Budget } from '../service/budget.ts';
import { ServiceError } from '../service/errors.ts';
import type { Accepted, Batch } from '../store/events-store.ts';
import type { KeepStore, Progress, ReplayState } from '../store/keep-store.ts';
import type { Cursor } from '../wire/cursor.ts';
import { REPLAY_LIMIT } from '../wire/replay.ts';
import { createForward } from './forward.ts';
import { PageError, readPage, type Page } from './page.ts';
import { wordsOf } from './progress.ts';
import { createRuns } from './runs.ts';
import { createSweep, SWEEPING } from './sweep.ts';
import { createVerify } from './verify.ts';

export interface ReconcilerOptions {
  store: KeepStore;
  /** The client: only ReplayEvents is called. */
  service: {
    call(
      operation: string,
      request: Record<string, unknown>,
      options?: { signal?: AbortSignal },
    ): Promise<Record<string, unknown>>;
  };
  /** Ends the call that is under way. */
  signal?: AbortSignal;
  clock: Clock;
  log: Logger;
  budget: Budget;
  /** 'first-webhook', 'start', or a cursor. */
  from: string;
  types: string[];
  intervalMs: number;
  overlapMs: number;
  /** After events were committed, or proved. */
  onEvents: () => void;
  /** Webhooks are silent: replay is all that there is. */
  silent?: () => boolean;
  /** The stream is open, and likely to prove before a call could. */
  streaming?: () => boolean;
  /** A person has asked for a reconciliation. */
  onAsked?: () => void;
}

export interface Reconciler {
  /** One call at the most; milliseconds until the next step. */
  step: () => Promise<number>;
  /** Something arrived that waits for proof. A burst costs one call. */
  prove(): void;
  /** Reads forward with the next step. */
  now(): void;
  /** Whether what comes now happened while deliveries could be taken: a reading has been to its end not long ago. */
  fresh(): boolean;
}

/** One purpose that pages are read for. */
export interface Reading {
  /** When it wants its next call, Unix milliseconds; Infinity: not now. */
  dueAt(): number;
  /** Where to read on: a cursor already seen, null for the beginning; undefined: there is nothing to ask after all. */
  after(): Promise<Cursor | null | undefined>;
  /** A page that can be used. */
  take(page: Page, after: Cursor | null): Promise<void>;
  /** Why this reading cannot go on here. Resolves to the words for it where people should know, else null. */
  stop(why: Stop, after: Cursor | null, page: Page | null): Promise<string | null>;
}

/** `stuck`: more is promised, and nothing shown. `unknown`: the cursor is refused. `forgotten`: it has expired. */
export type Stop = 'stuck' | 'unknown' | 'forgotten';

/** What readings share. */
export interface Desk extends ReconcilerOptions {
  /** Page and watermark in one transaction. */
  commit: (page: Page, more?: Pick<Batch, 'watermark' | 'from' | 'fresh' | 'gap' | 'counts'>) => Promise<Accepted[]>;
  say: (
    state: ReplayState['state'],
    reason: string | null,
    more?: { done?: boolean; progress?: Progress | null },
  ) => Promise<void>;
}

/** How often a request by a person is looked for. */
const ASKED_MS = 1_000;
const BACKOFF_MS = { first: 1_000, most: 60_000 };

export function createReconciler(options: ReconcilerOptions): Reconciler {
  const { store, service, clock, log, budget, types, onEvents, signal } = options;
  let state: ReplayState = { state: 'idle', since: null, lastAt: null, reason: null, progress: null };
  let limit = REPLAY_LIMIT;
  let pauseUntil = 0;
  let failures = 0;
  let stuckAt: { reading: Reading; after: Cursor | null } | null = null;
  let asked: number | null = null;
  /** Since when nothing could be read; '' while it can, null before that is known. */
  let troubleSince: string | null = null;
  /** What was wrong with the last pages of each, though they could be used. */
  const oddities = new Map<Reading, string>();

  const runs = createRuns(clock, () => store.replayRuns());
  const desk: Desk = { ...options, commit, say };
  const sweep = createSweep(desk);
  const forward = createForward(desk, sweep);
  const verify = createVerify(desk);
  const readings: Reading[] = [forward, sweep, verify];

  async function step(): Promise<number> {
    troubleSince ??= await earlierTrouble();
    await runs.load();
    await hear();
    await verify.look();
    const now = clock.now();
    // The clock was set back.
    if (pauseUntil < Infinity) pauseUntil = Math.min(pauseUntil, now + BACKOFF_MS.most);
    const reading = readings.find((one) => one.dueAt() <= now);
    const wait = Math.max(pauseUntil, reading ? 0 : Math.min(...readings.map((one) => one.dueAt()))) - now;
    if (wait > 0 || !reading) return Math.min(wait, ASKED_MS);
    const after = await reading.after();
    if (after === undefined) return 0;
    const untilCall = budget.take();
    if (untilCall > 0) {
      const words = state.progress ? wordsOf(state.progress) : reading === sweep ? SWEEPING : null;
      await say('running', [words, 'waiting for the call budget'].filter(Boolean).join('; '));
      return Math.min(untilCall, ASKED_MS);
    }
    if (state.state !== 'backing-off' && state.state !== 'running') await say('running', null);
    try {
      await read(reading, after);
    } catch (error) {
      await fail(reading, after, error);
    }
    return 0;
  }

  /** Since when an earlier `keep` could not read; '' where it could. */
  async function earlierTrouble(): Promise<string> {
    const before = await store.replayState();
    return (before && isTrouble(before.state) && before.since) || '';
  }

  /** A person asks, and everything that keeps us waiting is forgotten. */
  async function hear(): Promise<void> {
    const latest = await store.reconcileAsked();
    asked ??= latest;
    if (latest <= asked) return;
    asked = latest;
    failures = 0;
    pauseUntil = 0;
    forward.now();
    options.onAsked?.();
    await say('running', null);
  }

  async function read(reading: Reading, after: Cursor | null): Promise<void> {
    const request = { ...(after === null ? {} : { after_cursor: after }), limit };
    const response = await service.call('ReplayEvents', request, signal ? { signal } : {});
    const page = readPage(response, after, types);
    limit = Math.min(REPLAY_LIMIT, 2 * limit);
    failures = 0;
    troubleSince = '';
    note(reading, page);
    if (page.reset) return settle(await reading.stop('forgotten', after, page));
    const stuck = page.hasMore && page.proved === after;
    if (!stuck) {
      stuckAt = null;
      return reading.take(page, after);
    }
    await commit(page);
    // Asked once more, then left.
    if (stuckAt?.reading !== reading || stuckAt.after !== after) {
      stuckAt = { reading, after };
      pauseUntil = clock.now() + BACKOFF_MS.first;
      return;
    }
    stuckAt = null;
    log.error('ReplayEvents says that there is more, and shows nothing; tried again after the interval');
    await reading.stop('stuck', after, page);
    await say('backing-off', 'replay does not advance: it says that there is more, and shows nothing');
  }

  function note(reading: Reading, page: Page): void {
    if (page.oddities.length > 0) {
      const words = page.oddities.join(', ');
      // A sweep reads the same page again and again.
      if (oddities.get(reading) !== words)
        log.warn({ oddities: page.oddities }, 'a page of ReplayEvents was odd; its items were kept');
      oddities.set(reading, words);
    } else if (!page.hasMore) oddities.delete(reading);
  }

  async function commit(page: Page, more: Parameters<Desk['commit']>[1] = {}): Promise<Accepted[]> {
    const results = await store.accept({
      readings: page.readings,
      now: clock.now(),
      ...more,
      counts: { replay_calls: 1, ...more.counts },
    });
    const recovered = results.filter(({ verdict }) => verdict === 'new').length;
    runs.page(recovered);
    if (more.gap || recovered > 0) onEvents();
    return results;
  }

  async function fail(reading: Reading, after: Cursor | null, error: unknown): Promise<void> {
    if (error instanceof PageError) return backOff(error.message, state.progress);
    if (!(error instanceof ServiceError)) throw error;
    if (signal?.aborted) return;
    // Large events: fewer of them fit into an answer, or into its time.
    if (isTooMuch(error)) limit = Math.max(1, Math.floor(limit / 2));
    const { status, code, reason, requestId } = error;
    const facts = { status, code, reason, requestId };
    if (status === 401 || status === 403) {
      log.error(
        facts,
        'reconciliation stopped: the service refuses API_KEY; mend it, then npx kit reload; mended at the service, npx kit reconcile',
      );
      pauseUntil = Infinity;
      return say('stopped', error.message);
    }
    if (reason === 'EVENT_CURSOR_INVALID' || (after === null && status === 400)) {
      if (reading !== verify) log.warn(facts, 'the service does not know the cursor that was asked for');
      return settle(await reading.stop('unknown', after, null), `${error.message}: `);
    }
    log.warn(facts, 'a call of ReplayEvents failed; tried again');
    return backOff(error.message, state.progress);
  }

  async function settle(trouble: string | null, what = ''): Promise<void> {
    if (trouble !== null) await backOff(`${what}${trouble}`);
  }

  async function backOff(reason: string, progress: Progress | null = null): Promise<void> {
    const ceiling = Math.min(BACKOFF_MS.most, BACKOFF_MS.first * 2 ** Math.min(failures++, 10));
    pauseUntil = clock.now() + ceiling * (0.5 + Math.random() / 2);
    await say('backing-off', reason, { progress });
  }

  async function say(
    now: ReplayState['state'],
    words: string | null,
    {
      done = false,
      progress = now === 'running' ? state.progress : null,
    }: { done?: boolean; progress?: Progress | null } = {},
  ): Promise<void> {
    const odd =
      oddities.size > 0 ? `pages were odd, their items were kept: ${[...new Set(oddities.values())].join('; ')}` : null;
    const reason = [words, odd].filter((text) => text !== null).join('; ') || null;
    const lastAt = done ? iso(clock.now()) : state.lastAt;
    if (isTrouble(now)) troubleSince ||= iso(clock.now()) ?? '';
    const since = isTrouble(now) ? troubleSince : now === state.state ? state.since : iso(clock.now());
    const said = { state: now, since: since ?? null, lastAt, reason, progress };
    if (JSON.stringify(said) === JSON.stringify(state)) return;
    state = said;
    const list = now === 'running' ? undefined : runs.end(now, reason);
    await store.note({}, { replay: JSON.stringify(state), ...(list && { replay_runs: JSON.stringify(list) }) });
  }

  return { step, prove: () => forward.prove(), now: () => forward.now(), fresh: () => forward.fresh() };
}

function isTooMuch({ message, reason, cause }: ServiceError): boolean {
  const { name, message: words } = (cause ?? {}) as { name?: string; message?: string };
  return (
    message.includes('was answered with more than') ||
    reason === 'RPC_DEADLINE_EXCEEDED' ||
    name === 'TimeoutError' ||
    words === 'terminated'
  );
}

function isTrouble(state: ReplayState['state']): boolean {
  return state === 'backing-off' || state === 'stopped';
}
