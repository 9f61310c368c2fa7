// Where reading goes on when the service does not know our cursor any more. It may have forgotten it (reset_required): then
// there is a gap, and the search for its end. Or it says that it never knew it: then an older one is tried, once, and after
// that the same search, among what is known here.
import { isBehind, ZERO, type Cursor } from '../wire/cursor.ts';
import { createOldestAvailable, type OldestAvailable } from './oldest-available.ts';
import type { Page } from './page.ts';
import type { PassContext } from './pass.ts';

export interface LostCursor {
  /** Which cursor to read from instead of the watermark. */
  instead(): Cursor | null;
  /** A page was accepted; `moved`: with something behind the watermark. */
  known(page: Page, moved: boolean): void;
  /** The service says that it does not know this cursor. Resolves to the words for it, null where a search begins. */
  unknown(from: Cursor): Promise<string | null>;
  /** The service no longer has what comes after this cursor; the page may show what it still has. */
  forgotten(from: Cursor | null, page: Page | null): Promise<void>;
  /** The search that is under way. */
  search(): Search | null;
  /** The watermark was lowered: what was doubted is another place now. */
  forget(): void;
}

export interface Search {
  /** What to ask for next; undefined: it has ended. */
  next(): Promise<Cursor | null | undefined>;
  learn(page: Page | null): Promise<void>;
}

export interface LostCursorOptions {
  context: PassContext;
  /** Reading is at rest until its next time; `goOn`: at once, from where the watermark is now. */
  rest: (goOn: boolean) => void;
  /** A page behind the gap was the last. */
  caughtUp: () => Promise<void>;
}

export function createLostCursor({ context, rest, caughtUp }: LostCursorOptions): LostCursor {
  const { store, clock, log, overlapMs, commit, say } = context;
  /** Where to read instead of the watermark, which the service did not know. */
  let older: Cursor | null = null;
  /** Refused once: one refusal alone ends in no gap. */
  let doubted: Cursor | null = null;
  let oldest: OldestAvailable | null = null;
  let lost: Lost = { after: null, watermark: null, reason: 'reset_required' };
  /** In an earlier search, everything known up to here was refused. */
  let refused: Cursor | null = null;

  /** A cursor before the watermark that the service is likely to know. */
  async function olderCursor(): Promise<Cursor | null> {
    const watermark = await store.watermark();
    const { older: past, lowest } = await store.anchors(clock.now() - overlapMs);
    return (
      [past, lowest].find((cursor) => cursor !== null && watermark !== null && isBehind(cursor, watermark)) ?? null
    );
  }

  async function begin(expired: Cursor | null, hint: Cursor | null, reason: Lost['reason']): Promise<null> {
    lost = { after: expired, watermark: await store.watermark(), reason };
    const above = [expired, refused].reduce((a, b) => (isBehind(a, b) ? b : a));
    oldest = createOldestAvailable({
      expired: above,
      hint: isBehind(above, hint) ? hint : null,
      beginning: reason === 'reset_required',
      known: (bound) => store.cursorAbove(bound),
      below: (bound) => store.cursorBelow(bound),
    });
    await say('running', 'the watermark has expired: looking for the oldest event that the service still has');
    return null;
  }

  async function end(searched: OldestAvailable): Promise<void> {
    oldest = null;
    const found = searched.found();
    if (found) return goOnBehind(found);
    refused = searched.refused();
    if (lost.reason === 'cursor_unknown') {
      refused = null;
      rest(false);
      return say(
        'backing-off',
        'EVENT_CURSOR_INVALID: the service knows neither our cursor nor any other that is known here: is API_KEY of this account?',
      );
    }
    const passed = lost.watermark !== (await store.watermark());
    rest(passed);
    if (passed) return;
    const gap = { after: lost.after ?? ZERO, upTo: null, reason: 'reset_required' };
    await store.accept({ readings: [], now: clock.now(), gap });
    log.error({ after: lost.after, upTo: null }, GAP);
    await say('backing-off', 'the cursor has expired, and no newer one is known yet that the service accepts');
  }

  async function goOnBehind({ upTo, page }: { upTo: Cursor; page: Page }): Promise<void> {
    refused = null;
    // The stream has gone past it meanwhile: nothing is missing.
    if (lost.watermark !== (await store.watermark())) {
      await commit(page);
      return rest(true);
    }
    const gap = { after: lost.after ?? ZERO, upTo, reason: lost.reason };
    const watermark = page.proved !== null && isBehind(upTo, page.proved) ? page.proved : upTo;
    log.error({ after: lost.after, upTo }, GAP);
    await commit(page, { gap, from: upTo, watermark });
    if (!page.hasMore) await caughtUp();
  }

  return {
    instead: () => older,
    known(page, moved) {
      doubted = null;
      if (older !== null) older = page.hasMore && !moved ? page.proved : null;
    },
    async unknown(from) {
      if (older === null && doubted !== from) {
        doubted = from;
        older = await olderCursor();
        return `the service does not know our cursor: ${older === null ? 'it is asked once more' : 'an older one is tried, once'}`;
      }
      older = null;
      doubted = null;
      const watermark = await store.watermark();
      if (watermark === null && context.from !== 'first-webhook') return 'the service does not know REPLAY_FROM';
      // Perhaps it says so of what has expired, too. Of what is known here only: another account's beginning is not ours.
      return begin(watermark ?? from, null, 'cursor_unknown');
    },
    async forgotten(from, page) {
      const watermark = await store.watermark();
      if (older === null && isBehind(from, watermark)) return rest(true);
      older = null;
      const last = watermark ?? from;
      lost = { after: last, watermark, reason: 'reset_required' };
      // What it shows all the same lies behind the gap.
      if (page?.first && isBehind(last, page.first)) await goOnBehind({ upTo: page.first, page });
      else await begin(last, page?.next ?? null, 'reset_required');
    },
    forget() {
      [older, doubted, oldest, refused] = [null, null, null, null];
    },
    search() {
      const searched = oldest;
      if (!searched) return null;
      return {
        async next() {
          const cursor = await searched.next();
          if (cursor === undefined) await end(searched);
          return cursor;
        },
        learn: (page) => searched.learn(page),
      };
    },
  };
}

interface Lost {
  /** The cursor that the service has forgotten, or does not know. */
  after: Cursor | null;
  /** Where the watermark stood then. */
  watermark: Cursor | null;
  reason: 'reset_required' | 'cursor_unknown';
}

const GAP = 'the service can no longer replay what comes after the watermark: a gap, see npx kit gaps';
