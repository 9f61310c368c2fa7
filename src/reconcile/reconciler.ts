// Which call of ReplayEvents comes next: reading forward from the watermark first, then the last minutes
// once more, then verifying a stretch that a person named. It never goes faster than its budget, never believes a page
// further than its items, and says why when it stops.
import { ServiceError } from '../service/errors.ts';
import type { Accepted } from '../store/ingest.ts';
import type { Progress } from '../store/keep.ts';
import type { Cursor } from '../wire/cursor.ts';
import { REPLAY_LIMIT } from '../wire/replay.ts';
import { createForwardPass } from './forward-pass.ts';
import type { Ended, Pass, PassContext, ReconcilerOptions } from './pass.ts';
import { PageError, readPage, type Page } from './page.ts';
import { wordsOf } from './progress.ts';
import { createPageText } from './page-text.ts';
import { createPositions, EMPTY_PAGES } from './position.ts';
import { createReport } from './report.ts';
import { createOverlapPass, READING_AGAIN } from './overlap-pass.ts';
import { createVerifyPass } from './verify-pass.ts';

export interface Reconciler {
  /** One call at the most; milliseconds until the next step. */
  step: () => Promise<number>;
  /** Something arrived that waits for proof. A burst costs one call. */
  prove(): void;
  /** Reads forward with the next step. */
  now(): void;
  /** Whether what comes now happened while deliveries could be taken: a reading has been to its end not long ago. */
  fresh(): boolean;
  /** The last time that reading forward was at its end; null: never. */
  ended(): Ended | null;
}

/** How often a request by a person is looked for. */
const ASKED_MS = 1_000;
const BACKOFF_MS = { first: 1_000, most: 60_000 };

export function createReconciler(options: ReconcilerOptions): Reconciler {
  const { store, service, clock, log, budget, types, onEvents, signal, intervalMs } = options;
  let limit = REPLAY_LIMIT;
  let pauseUntil = -Infinity;
  let failures = 0;
  let stuckAt: { pass: Pass; after: Cursor | null } | null = null;
  let asked: number | null = null;
  const report = createReport<Pass>({ store, clock, log });
  const { say } = report;
  const context: PassContext = { ...options, commit, say };
  const overlap = createOverlapPass(context);
  const forward = createForwardPass(context, overlap);
  const verify = createVerifyPass(context);
  const passes: Pass[] = [forward, overlap, verify];
  const positions = createPositions<Pass>();

  async function step(): Promise<number> {
    await report.load();
    await hear();
    await verify.look();
    const now = clock.monotonic();
    const dueAt = (one: Pass): number => Math.max(one.dueAt(), positions.pauseUntil(one));
    const pass = passes.find((one) => dueAt(one) <= now);
    const wait = Math.max(pauseUntil, pass ? -Infinity : Math.min(...passes.map(dueAt))) - now;
    if (wait > 0 || !pass) return Math.min(wait, ASKED_MS);
    const after = await pass.after();
    if (after === undefined) return 0;
    const untilCall = budget.take();
    if (untilCall > 0) {
      const { state, progress } = report.state();
      const words = progress ? wordsOf(progress) : pass === overlap ? READING_AGAIN : null;
      // Trouble is not over because it has to wait.
      if (state !== 'backing-off')
        await say('running', [words, 'waiting for the call budget'].filter(Boolean).join('; '));
      return Math.min(untilCall, ASKED_MS);
    }
    if (!['backing-off', 'running'].includes(report.state().state)) await say('running', null);
    try {
      await read(pass, after);
    } catch (error) {
      await fail(pass, after, error);
    }
    return 0;
  }

  /** A person asks, and everything that keeps us waiting is forgotten. */
  async function hear(): Promise<void> {
    const latest = await store.reconcileAsked();
    asked ??= latest;
    // Not by its size: the clock may have been set back.
    if (latest === asked) return;
    asked = latest;
    failures = 0;
    pauseUntil = -Infinity;
    positions.hurry();
    forward.now();
    options.onAsked?.();
    await say('running', null);
  }

  async function read(pass: Pass, after: Cursor | null): Promise<void> {
    const cursor = positions.of(pass, after);
    const text = createPageText({ cursor, limit });
    const request = { ...(cursor === null ? {} : { after_cursor: cursor }), limit };
    const response = await service.call('ReplayEvents', request, { ...(signal && { signal }), reader: text });
    const page = readPage(response, cursor, types, { limit, known: after, ceiling: await store.ceiling() });
    if (text.isSmall()) limit = Math.min(REPLAY_LIMIT, 2 * limit);
    failures = 0;
    report.note(pass, page);
    if (page.reset) return lose(pass, after, page, 'forgotten');
    if (page.onward !== null) return follow(pass, after, page, page.onward);
    const stuck = page.hasMore && page.proved === after;
    if (!stuck) {
      report.wentWell();
      stuckAt = null;
      positions.leave(pass);
      return pass.take(page, after);
    }
    await commit(page);
    // Asked once more, then left.
    if (stuckAt?.pass !== pass || stuckAt.after !== cursor) {
      stuckAt = { pass, after: cursor };
      pauseUntil = clock.monotonic() + BACKOFF_MS.first;
      return;
    }
    return leave(pass, after, page);
  }

  /** Behind an empty page, with something promised behind that. */
  async function follow(pass: Pass, after: Cursor | null, page: Page, next: Cursor): Promise<void> {
    await commit(page);
    if (!positions.follow(pass, after, next, clock.monotonic() + intervalMs)) return;
    log.error(
      { pages: EMPTY_PAGES },
      'pages of ReplayEvents are empty, and say that there is more; read on after the interval',
    );
    await say(
      'backing-off',
      `replay showed ${EMPTY_PAGES} empty pages in a row, and says that there is more: reading goes on behind cursor ${next} after the interval. If API_KEY is restricted to few numbers, raise RECONCILE_CALLS_PER_MINUTE`,
    );
  }

  async function leave(pass: Pass, after: Cursor | null, page: Page | null): Promise<void> {
    stuckAt = null;
    log.error('ReplayEvents says that there is more, and shows nothing; tried again after the interval');
    await pass.stop('stuck', after, page);
    await say('backing-off', 'replay does not advance: it says that there is more, and shows nothing');
  }

  /** The service refuses what it was asked for: a cursor of ours, or one that an empty page has named. */
  async function lose(pass: Pass, after: Cursor | null, page: Page | null, why: 'forgotten' | 'unknown', words = '') {
    if (positions.of(pass, after) === after) return settle(await pass.stop(why, after, page), words);
    pauseUntil = clock.monotonic() + BACKOFF_MS.first;
    if (positions.refused(pass)) await leave(pass, after, null);
  }

  async function commit(page: Page, more: Parameters<PassContext['commit']>[1] = {}): Promise<Accepted[]> {
    const results = await store.accept({
      readings: page.readings,
      now: clock.now(),
      ...more,
      counts: { replay_calls: 1, ...more.counts },
    });
    const recovered = results.filter(({ verdict }) => verdict === 'new').length;
    report.page(recovered);
    if (more.gap || recovered > 0) onEvents();
    return results;
  }

  async function fail(pass: Pass, after: Cursor | null, error: unknown): Promise<void> {
    if (error instanceof PageError) return backOff(error.message, report.state().progress);
    if (!(error instanceof ServiceError)) throw error;
    if (signal?.aborted) return;
    // Large events: fewer of them fit into an answer, or into its time.
    if (isTooMuch(error) && limit > 1) {
      limit = Math.floor(limit / 2);
      // That the service could not know.
      if (error.message.includes(TOO_MUCH)) failures = 0;
    }
    const { status, code, reason, requestId } = error;
    const facts = { status, code, reason, requestId };
    if (status === 401 || status === 403) {
      log.error(
        facts,
        'reconciliation stopped: the service refuses API_KEY; fix it, then npx kit reload; fixed at the service, npx kit reconcile',
      );
      pauseUntil = Infinity;
      return say('stopped', error.message);
    }
    if (reason === 'EVENT_CURSOR_INVALID' || (after === null && status === 400)) {
      if (pass !== verify) log.warn(facts, 'the service does not know the cursor that was asked for');
      return lose(pass, after, null, 'unknown', `${error.message}: `);
    }
    log.warn(facts, 'a call of ReplayEvents failed; tried again');
    return backOff(error.message, report.state().progress);
  }

  async function settle(trouble: string | null, what = ''): Promise<void> {
    if (trouble !== null) await backOff(`${what}${trouble}`);
  }

  async function backOff(reason: string, progress: Progress | null = null): Promise<void> {
    const ceiling = Math.min(BACKOFF_MS.most, BACKOFF_MS.first * 2 ** Math.min(failures++, 10));
    pauseUntil = clock.monotonic() + ceiling * (0.5 + Math.random() / 2);
    await say('backing-off', reason, { progress });
  }

  return {
    step,
    prove: () => forward.prove(),
    now: () => forward.now(),
    fresh: () => forward.fresh(),
    ended: () => forward.ended(),
  };
}

const TOO_MUCH = 'was answered with more than';

function isTooMuch({ message, reason, cause }: ServiceError): boolean {
  const { name, message: words } = (cause ?? {}) as { name?: string; message?: string };
  return (
    message.includes(TOO_MUCH) ||
    reason === 'RPC_DEADLINE_EXCEEDED' ||
    name === 'TimeoutError' ||
    words === 'terminated'
  );
}
