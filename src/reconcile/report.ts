// What is said of reconciliation: its state and since when, why, what was odd about the pages, and the last runs.
import { iso, type Clock } from '../base/clock.ts';
import type { Logger } from '../base/log.ts';
import type { KeepStore, Progress, ReplayState } from '../store/keep.ts';
import type { Page } from './page.ts';
import { createRuns } from './run-history.ts';

export interface Report<Reading> {
  /** What an earlier `keep` has left. */
  load(): Promise<void>;
  state(): ReplayState;
  say: (
    state: ReplayState['state'],
    reason: string | null,
    more?: { done?: boolean; progress?: Progress | null },
  ) => Promise<void>;
  /** What was wrong with a page, though it could be used. */
  note(reading: Reading, page: Page): void;
  /** A page was committed. */
  page(recovered: number): void;
  /** Reading has come on: what kept it is over. */
  wentWell(): void;
}

export function createReport<Reading>(options: { store: KeepStore; clock: Clock; log: Logger }): Report<Reading> {
  const { store, clock, log } = options;
  let state: ReplayState = { state: 'idle', since: null, lastAt: null, reason: null, progress: null };
  /** Since when nothing could be read; '' while it can, null before that is known. */
  let troubleSince: string | null = null;
  const oddities = new Map<Reading, string>();
  const runs = createRuns(clock, () => store.replayRuns());

  function withOddities(words: string | null): string | null {
    const odd =
      oddities.size > 0 ? `pages were odd, their items were kept: ${[...new Set(oddities.values())].join('; ')}` : null;
    return [words, odd].filter((text) => text !== null).join('; ') || null;
  }

  return {
    async load() {
      if (troubleSince === null) {
        const before = await store.replayState();
        troubleSince = (before && isTrouble(before.state) && before.since) || '';
      }
      await runs.load();
    },
    state: () => state,
    async say(now, words, { done = false, progress = now === 'running' ? state.progress : null } = {}) {
      const reason = withOddities(words);
      const lastAt = done ? iso(clock.now()) : state.lastAt;
      if (isTrouble(now)) troubleSince ||= iso(clock.now()) ?? '';
      const since = isTrouble(now) ? troubleSince : now === state.state ? state.since : iso(clock.now());
      const said = { state: now, since: since ?? null, lastAt, reason, progress };
      if (JSON.stringify(said) === JSON.stringify(state)) return;
      state = said;
      const list = now === 'running' ? undefined : runs.end(now, reason);
      await store.note({}, { replay: JSON.stringify(state), ...(list && { replay_runs: JSON.stringify(list) }) });
    },
    note(reading, page) {
      if (page.oddities.length > 0) {
        const words = page.oddities.join(', ');
        // A sweep reads the same page again and again.
        if (oddities.get(reading) !== words)
          log.warn({ oddities: page.oddities }, 'a page of ReplayEvents was odd; its items were kept');
        oddities.set(reading, words);
      } else if (!page.hasMore) oddities.delete(reading);
    },
    page: (recovered) => runs.page(recovered),
    wentWell() {
      troubleSince = '';
    },
  };
}

function isTrouble(state: ReplayState['state']): boolean {
  return state === 'backing-off' || state === 'stopped';
}
