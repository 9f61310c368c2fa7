// The state of reconciliation that `npx kit status` shows: since when and why, faults of pages, and the last runs.
import { iso, type Clock } from '../base/clock.ts';
import type { ReplayRun, ReplayState } from '../store/keep.ts';
import type { Page } from './page.ts';
import type { Pass, ReconcilerOptions, Say } from './pass.ts';

export type Status = ReturnType<typeof createStatus>;

export function createStatus({ store, clock, log }: ReconcilerOptions) {
  let state: ReplayState = { state: 'idle', since: null, lastAt: null, reason: null, progress: null };
  /** Since when reconciliation has been backing off or stopped, ISO 8601. '': neither. Null: not loaded yet. */
  let troubleSince: string | null = null;
  const oddities = new Map<Pass['name'], string>();
  const runs = createRuns(clock);

  function withOddities(words: string | null): string | null {
    const odd = [...new Set(oddities.values())].join('; ');
    return [words, odd && `pages were odd, their items were kept: ${odd}`].filter(Boolean).join('; ') || null;
  }

  const say: Say = async (now, words, { done = false, progress = now === 'running' ? state.progress : null } = {}) => {
    const reason = withOddities(words);
    const lastAt = done ? iso(clock.now()) : state.lastAt;
    if (isTrouble(now)) troubleSince ||= iso(clock.now()) ?? '';
    const since = isTrouble(now) ? troubleSince : now === state.state ? state.since : iso(clock.now());
    const said = { state: now, since, lastAt, reason, progress };
    if (JSON.stringify(said) === JSON.stringify(state)) return;
    state = said;
    const list = now === 'running' ? undefined : runs.end(now, reason);
    await store.state.note({}, { replay: JSON.stringify(state), ...(list && { replay_runs: JSON.stringify(list) }) });
  };

  return {
    /** Loads the state that an earlier `keep` process stored. */
    async load(): Promise<void> {
      if (troubleSince !== null) return;
      const before = await store.state.get('replay');
      runs.load(await store.state.get('replay_runs'));
      troubleSince = (before && isTrouble(before.state) && before.since) || '';
    },
    shown: () => state,
    say,
    /** Notes the faults of a page that is still usable. */
    note({ name }: Pass, page: Page) {
      if (page.oddities.length > 0) {
        const words = page.oddities.join(', ');
        // Logged once, because the overlap pass reads the same page repeatedly.
        if (oddities.get(name) !== words)
          log.warn({ oddities: page.oddities }, 'a page of ReplayEvents was odd; its items were kept');
        oddities.set(name, words);
      } else if (!page.hasMore) oddities.delete(name);
    },
    /** Call it when a page was committed. */
    page: runs.page,
    /** Call it when a pass has advanced: reconciliation no longer counts as backing off or stopped. */
    wentWell() {
      troubleSince = '';
    },
  };
}

function isTrouble(state: ReplayState['state']): boolean {
  return state === 'backing-off' || state === 'stopped';
}

/** Maximum number of rows in the list of runs. */
const KEPT = 30;

/**
 * The last runs and how each ended. Consecutive runs without new events and with the same end share one row. Otherwise
 * a quiet day would push the other runs out of the list.
 */
function createRuns(clock: Clock) {
  let list: ReplayRun[] = [];
  let begunAt: number | undefined;
  let pages = 0;
  let recovered = 0;

  return {
    load(earlier: ReplayRun[]) {
      list = earlier;
    },
    /** Call it when a page was committed. The first page begins a run. */
    page: (more: number): void => {
      begunAt ??= clock.now();
      pages++;
      recovered += more;
    },
    /** Ends the run and returns the list, newest first. Undefined: there was no run to list. */
    end(state: ReplayRun['state'], reason: string | null): ReplayRun[] | undefined {
      // A run without a page is listed only if it ends in a failure, and the last run did not end in the same state.
      const [last, ...rest] = list;
      if (begunAt === undefined && (state === 'idle' || last?.state === state)) return undefined;
      const now = clock.now();
      const run = { from: iso(begunAt ?? now) ?? '', to: iso(now) ?? '', runs: 1, pages, recovered, state, reason };
      [begunAt, pages, recovered] = [undefined, 0, 0];
      const alike = last && last.state === state && last.reason === reason && last.recovered + run.recovered === 0;
      list = alike
        ? [{ ...run, from: last.from, runs: last.runs + 1, pages: last.pages + run.pages }, ...rest]
        : [run, ...list].slice(0, KEPT);
      return list;
    },
  };
}
