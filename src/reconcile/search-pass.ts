// The search pass finds where to continue when the service refuses our cursor. If the service does not know the
// cursor, the forward pass first tries an older one, once. After that, or if the cursor has expired, the search looks
// for the oldest event that the service still has. Everything from the watermark to that event is a gap. During the
// search, the forward pass waits.
import { isBehind, ZERO, type Cursor } from '../wire/cursor.ts';
import { findOldestAvailable, type OldestAvailable } from './oldest-available.ts';
import type { Page } from './page.ts';
import type { Pass, PassContext } from './pass.ts';

/** How the forward pass continues after the search. */
export interface Resume {
  /** Makes the forward pass wait for its next interval. `goOn`: it reads at once, from the new watermark. */
  rest: (goOn: boolean) => void;
  /** Call it when the page after the gap was the last one. */
  caughtUp: () => Promise<void>;
}

interface Search {
  /** The cursor that has expired or that the service does not know. */
  after: Cursor | null;
  /** The watermark when the search began. */
  watermark: Cursor | null;
  reason: 'reset_required' | 'cursor_unknown';
}

type Questions = ReturnType<typeof findOldestAvailable>;

const GAP = 'the service can no longer replay what comes after the watermark: a gap, see npx kit gaps';

// oxlint-disable-next-line max-lines-per-function -- one search: its beginning, its questions and its end share state
export function createSearchPass(context: PassContext, { rest, caughtUp }: Resume) {
  const { store, clock, log, overlapMs, commit, say } = context;
  let active: { search: Search; questions: Questions; next: Awaited<ReturnType<Questions['next']>> } | null = null;
  let older: Cursor | null = null;
  /** A cursor that the service refused once. A search begins only after a second refusal. */
  let refused: Cursor | null = null;
  /** An earlier search found that the service refuses every known cursor up to here. */
  let refusedUpTo: Cursor | null = null;

  /** A cursor below the watermark that the service probably knows. */
  async function findOlder(): Promise<Cursor | null> {
    const watermark = await store.state.get('watermark');
    const { older: past, lowest } = await store.replay.anchors(clock.now() - overlapMs);
    return [past, lowest].find((cursor) => cursor !== null && isBehind(cursor, watermark)) ?? null;
  }

  async function begin(search: Search, hint: Cursor | null): Promise<void> {
    const expired = isBehind(search.after, refusedUpTo) ? refusedUpTo : search.after;
    const questions = findOldestAvailable({
      replay: store.replay,
      expired,
      hint: isBehind(expired, hint) ? hint : null,
      // If the service never had our cursor, the API key may be of another account, whose events must not end our gap.
      beginning: search.reason === 'reset_required',
    });
    active = { search, questions, next: await questions.next() };
    await say('running', 'the watermark has expired: looking for the oldest event that the service still has');
  }

  async function answer(page: Page | null): Promise<void> {
    if (!active) return;
    const { search, questions } = active;
    // `active` is null until `next` resolves: if the store fails, the search is over, and a refusal begins a new one.
    active = null;
    active = { search, questions, next: await questions.next(page) };
  }

  async function end(search: Search, { found, refused: upTo }: OldestAvailable): Promise<void> {
    active = null;
    if (found) return goOnBehind(search, found.upTo, found.page);
    const { after, reason } = search;
    if (reason === 'cursor_unknown') {
      refusedUpTo = null;
      rest(false);
      return say(
        'backing-off',
        'EVENT_CURSOR_INVALID: the service knows neither our cursor nor any other stored cursor: is API_KEY of this account?',
      );
    }
    refusedUpTo = upTo;
    const passed = await hasPassed(search);
    rest(passed);
    if (passed) return;
    const gap = { after: after ?? ZERO, upTo: null, reason };
    await store.ingest.accept({ readings: [], now: clock.now(), gap });
    log.error({ after, upTo: null }, GAP);
    await say('backing-off', 'the cursor has expired, and no newer one is known yet that the service accepts');
  }

  /** True if the stream has moved the watermark during the search, so nothing is missing. */
  async function hasPassed({ watermark }: Search): Promise<boolean> {
    return watermark !== (await store.state.get('watermark'));
  }

  async function goOnBehind(search: Search, upTo: Cursor, page: Page): Promise<void> {
    refusedUpTo = null;
    if (await hasPassed(search)) {
      await commit(page);
      return rest(true);
    }
    const { after, reason } = search;
    const gap = { after: after ?? ZERO, upTo, reason };
    const watermark = page.proved !== null && isBehind(upTo, page.proved) ? page.proved : upTo;
    log.error({ after, upTo }, GAP);
    await commit(page, { gap, from: upTo, watermark });
    if (!page.hasMore) await caughtUp();
  }

  return {
    name: 'forward',
    isActive: () => active !== null,
    /** The older cursor that the forward pass reads from. Null: it reads from the watermark. */
    older: () => older,
    /** Call it when the forward pass has taken a page. `moved`: the page raised the watermark. */
    accepted(page: Page, moved: boolean): void {
      refused = null;
      if (older !== null) older = page.hasMore && !moved ? page.proved : null;
    },
    /** Call it if the service does not know this cursor. Resolves to what `status` shows. Null: a search begins. */
    async unknown(from: Cursor): Promise<string | null> {
      if (older === null && refused !== from) {
        refused = from;
        older = await findOlder();
        return `the service does not know our cursor: ${older === null ? 'asking once more' : 'trying an older one once'}`;
      }
      [older, refused] = [null, null];
      const watermark = await store.state.get('watermark');
      if (watermark === null && context.from !== 'first-webhook') return 'the service does not know REPLAY_FROM';
      // The service may also say of an expired cursor that it does not know it, so a search begins.
      await begin({ after: watermark ?? from, watermark, reason: 'cursor_unknown' }, null);
      return null;
    },
    /** Call it if the service no longer has the events after this cursor. The page may show later events. */
    async forgotten(from: Cursor | null, page: Page | null): Promise<void> {
      const watermark = await store.state.get('watermark');
      if (older === null && isBehind(from, watermark)) return rest(true);
      older = null;
      const after = watermark ?? from;
      const search: Search = { after, watermark, reason: 'reset_required' };
      // The page may show items in spite of reset_required. They come after the gap.
      if (page?.first && isBehind(after, page.first)) await goOnBehind(search, page.first, page);
      else await begin(search, page?.next ?? null);
    },
    /** Call it when the watermark was lowered: refusals of the old watermark do not count. */
    forget(): void {
      [older, refused, refusedUpTo] = [null, null, null];
    },
    dueAt: () => (active ? -Infinity : Infinity),
    async after() {
      if (!active) return undefined;
      const { search, next } = active;
      if (!next.done) return next.value;
      await end(search, next.value);
      return undefined;
    },
    async take(page) {
      // The events are kept even if the search fails.
      await commit(page);
      await answer(page);
    },
    async stop(why, _after, page) {
      await answer(why === 'stuck' ? page : null);
      return null;
    },
  } satisfies Pass & Record<string, unknown>;
}
