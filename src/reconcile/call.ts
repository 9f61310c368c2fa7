// Makes one call of ReplayEvents for a pass and handles its outcome. The pass takes the page, continues after an empty
// page, repeats the request, stops or backs off.
import { ServiceError } from '../service/errors.ts';
import { repeatWait } from '../service/pace.ts';
import type { Progress } from '../store/keep.ts';
import type { Cursor } from '../wire/cursor.ts';
import { REPLAY_LIMIT } from '../service/shapes.ts';
import { createPageText } from './page-text.ts';
import { PageError, readPage, type Page } from './page.ts';
import type { Pass, PassContext, PassEnd, ReconcilerOptions } from './pass.ts';
import { EMPTY_PAGES, type Positions } from './position.ts';
import type { Status } from './status.ts';

/** A request whose page brought no progress is repeated once, after this pause. */
const ONCE_MORE_MS = 1_000;

export interface BackOff {
  /** The earliest time of the next call, by the monotonic clock. */
  until: number;
  /** The number of consecutive calls that failed. */
  failures: number;
}

// oxlint-disable-next-line max-lines-per-function -- each outcome of a call takes a few lines, and many lead to another outcome
export function createCall(context: PassContext, status: Status, positions: Positions, backOff: BackOff) {
  const { clock, log, signal, intervalMs, commit, say } = context;
  const pages = createPages(context);
  /** For each pass: the cursor of a request that brought no progress and is still to be repeated. */
  const doubted = new Map<Pass, Cursor | null>();

  async function read(pass: Pass, after: Cursor | null): Promise<void> {
    const cursor = positions.of(pass, after);
    const page = await pages.fetch(cursor, after);
    backOff.failures = 0;
    status.note(pass, page);
    if (page.reset) return refuse(pass, after, page, 'forgotten');
    if (page.onward !== null) return follow(pass, after, page, page.onward);
    if (!page.hasMore || page.proved !== after) {
      status.wentWell();
      doubted.delete(pass);
      positions.leave(pass);
      return pass.take(page, after);
    }
    await commit(page);
    if (comesToNothing(pass, cursor)) await giveUp(pass, after, page);
  }

  /** True: the repeated request brought no progress either. False: the request is still to be repeated once. */
  function comesToNothing(pass: Pass, cursor: Cursor | null): boolean {
    const again = doubted.get(pass) === cursor;
    if (again) doubted.delete(pass);
    else {
      doubted.set(pass, cursor);
      backOff.until = clock.monotonic() + ONCE_MORE_MS;
    }
    return again;
  }

  /** Continues after an empty page that promises more. */
  async function follow(pass: Pass, after: Cursor | null, page: Page, next: Cursor): Promise<void> {
    await commit(page);
    if (!positions.follow(pass, after, next, clock.monotonic() + intervalMs)) return;
    log.error(
      { pages: EMPTY_PAGES },
      'pages of ReplayEvents are empty, but promise more; continuing after the interval',
    );
    await say(
      'backing-off',
      `replay showed ${EMPTY_PAGES} empty pages in a row that promise more: reading continues after cursor ${next} after the interval. If API_KEY is restricted to few numbers, raise RECONCILE_CALLS_PER_MINUTE`,
    );
  }

  async function giveUp(pass: Pass, after: Cursor | null, page: Page | null): Promise<void> {
    log.error('ReplayEvents says that there is more, and shows nothing; retrying after the interval');
    await pass.stop('stuck', after, page);
    await say('backing-off', 'replay does not advance: it says that there is more, and shows nothing');
  }

  /** Handles a refused cursor. The pass itself chose the cursor, or an empty page named it as `next_cursor`. */
  async function refuse(pass: Pass, after: Cursor | null, page: Page | null, why: PassEnd, words = ''): Promise<void> {
    const cursor = positions.of(pass, after);
    if (cursor === after) {
      const trouble = await pass.stop(why, after, page);
      if (trouble !== null) await wait(`${words}${trouble}`);
    } else if (comesToNothing(pass, cursor)) {
      positions.leave(pass);
      await giveUp(pass, after, null);
    }
  }

  async function fail(pass: Pass, after: Cursor | null, error: unknown): Promise<void> {
    const { progress } = status.shown();
    if (error instanceof PageError) return wait(error.message, progress);
    if (!(error instanceof ServiceError)) throw error;
    if (signal?.aborted) return;
    if (pages.shrink(error)) backOff.failures = 0;
    const { code, reason, requestId, message } = error;
    const fields = { status: error.status, code, reason, requestId };
    if (error.status === 401 || error.status === 403) {
      log.error(
        fields,
        'reconciliation stopped: the service refuses API_KEY. Fix the key, then npx kit reload. If you fixed it at the service, npx kit reconcile',
      );
      backOff.until = Infinity;
      return say('stopped', message);
    }
    if (reason === 'EVENT_CURSOR_INVALID' || (after === null && error.status === 400)) {
      if (pass.name !== 'verify') log.warn(fields, 'the service does not know the cursor that was asked for');
      return refuse(pass, after, null, 'unknown', `${message}: `);
    }
    log.warn(fields, 'a call of ReplayEvents failed; retrying');
    return wait(message, progress);
  }

  async function wait(reason: string, progress: Progress | null = null): Promise<void> {
    backOff.until = clock.monotonic() + repeatWait(backOff.failures++);
    await say('backing-off', reason, { progress });
  }

  return async (pass: Pass, after: Cursor | null): Promise<void> => {
    try {
      await read(pass, after);
    } catch (error) {
      await fail(pass, after, error);
    }
  };
}

const TOO_MUCH = 'was answered with more than';

/** Asks for fewer items if an answer was too large or too slow, and for more again when pages are small. */
function createPages({ service, store, types, signal }: ReconcilerOptions) {
  let limit = REPLAY_LIMIT;

  return {
    /** The page after `cursor`. No event is missing up to `known`. Throws ServiceError, PageError. */
    async fetch(cursor: Cursor | null, known: Cursor | null): Promise<Page> {
      const text = createPageText({ cursor, limit });
      const request = { ...(cursor === null ? {} : { after_cursor: cursor }), limit };
      const response = await service.call('ReplayEvents', request, { ...(signal && { signal }), reader: text });
      const page = readPage(response, cursor, types, { limit, known, ceiling: await store.replay.ceiling() });
      if (text.isSmall()) limit = Math.min(REPLAY_LIMIT, 2 * limit);
      return page;
    },
    /** Asks for half as many items if that can help. True: the answer exceeded our limit, so it is no failure. */
    shrink(error: ServiceError): boolean {
      const tooMuch = error.message.includes(TOO_MUCH);
      if (limit === 1 || !(tooMuch || wasTooSlow(error))) return false;
      limit = Math.floor(limit / 2);
      return tooMuch;
    },
  };
}

function wasTooSlow({ reason, cause }: ServiceError): boolean {
  const { name, message } = (cause ?? {}) as { name?: string; message?: string };
  return reason === 'RPC_DEADLINE_EXCEEDED' || name === 'TimeoutError' || message === 'terminated';
}
