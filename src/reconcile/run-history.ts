// The last runs of reconciliation and how each ended. Runs that follow each other and bring nothing count as one row, so
// that a quiet day does not push out the hour that people ask about.
import { iso, type Clock } from '../base/clock.ts';
import type { ReplayRun } from '../store/keep.ts';

const KEPT = 30;

export interface Runs {
  /** A page was committed; the first begins a run. */
  page(recovered: number): void;
  /** The list with the run that has just ended, newest first; undefined where none was under way. */
  end(state: ReplayRun['state'], reason: string | null): ReplayRun[] | undefined;
}

export function createRuns(clock: Clock, earlier: () => Promise<ReplayRun[]>): Runs & { load(): Promise<void> } {
  let list: ReplayRun[] | undefined;
  let begunAt: number | undefined;
  let pages = 0;
  let recovered = 0;

  return {
    async load() {
      list ??= await earlier();
    },
    page(more) {
      begunAt ??= clock.now();
      pages++;
      recovered += more;
    },
    end(state, reason) {
      // A call that is refused at once ends a run as well, the first time that it is.
      const [last, ...rest] = list ?? [];
      if (begunAt === undefined && (state === 'idle' || last?.state === state)) return undefined;
      const now = clock.now();
      const run = { from: iso(begunAt ?? now) ?? '', to: iso(now) ?? '', runs: 1, pages, recovered, state, reason };
      [begunAt, pages, recovered] = [undefined, 0, 0];
      const alike = last && last.state === state && last.reason === reason && last.recovered + run.recovered === 0;
      list = alike
        ? [{ ...run, from: last.from, runs: last.runs + 1, pages: last.pages + run.pages }, ...rest]
        : [run, ...(list ?? [])].slice(0, KEPT);
      return list;
    },
  };
}
