// Many tasks retried or discarded in the background: one job at a time, with its progress, until it is done or somebody
// cancels it. Kept in memory: a restart of keep ends it where it is; what it has moved stays moved.
import { iso, type Clock } from '../base/clock.ts';
import { loggable } from '../base/errors.ts';
import type { Logger } from '../base/log.ts';
import { changeInSteps } from './in-steps.ts';
import type { AdminStore } from '../store/admin.ts';
import type { TaskFilter } from '../store/read.ts';

export interface Job {
  id: number;
  action: 'retry' | 'discard';
  /** `done`: how many of `of` were gone through; `moved`: how many of them were still there to be moved. */
  done: number;
  of: number;
  moved: number;
  state: 'running' | 'done' | 'cancelled' | 'failed';
  /** ISO 8601. */
  startedAt: string | null;
  endedAt: string | null;
}

export interface Jobs {
  /** Undefined while another is at work. Resolves once it is known how many match. */
  start(action: Job['action'], filter: TaskFilter, reason: string): Promise<Job | undefined>;
  /** False where it is not at work. What was moved stays moved. */
  cancel(id: number): boolean;
  /** Newest first: the one at work, and the last few. */
  list(): Job[];
}

const KEPT = 10;

export interface JobsOptions {
  store: AdminStore;
  clock: Clock;
  log: Logger;
  /** After tasks were moved. */
  onChange: () => void;
}

export function createJobs({ store, clock, log, onChange }: JobsOptions): Jobs {
  const jobs: Job[] = [];
  let made = 0;
  let cancel = new AbortController();

  async function work(job: Job, filter: TaskFilter, reason: string, begun: () => void): Promise<void> {
    const fix = (ids: number[]): Promise<number> =>
      job.action === 'retry' ? store.retry(ids, clock.now()) : store.discard(ids, reason, clock.now());
    try {
      const onStep = (done: number, of: number, moved: number): void => {
        Object.assign(job, { done, of, moved });
        if (done > 0) onChange();
        begun();
      };
      await changeInSteps(store, filter, clock.now(), fix, onStep, cancel.signal);
      job.state = cancel.signal.aborted ? 'cancelled' : 'done';
    } catch (error) {
      job.state = 'failed';
      log.error(loggable(error), 'a job failed; what it has moved stays moved');
    }
    job.endedAt = iso(clock.now());
    log.info({ job: job.id, action: job.action, moved: job.moved, of: job.of, state: job.state }, 'a job has ended');
    begun();
  }

  return {
    async start(action, filter, reason) {
      if (jobs[0]?.state === 'running') return undefined;
      cancel = new AbortController();
      const progress = { done: 0, of: 0, moved: 0, state: 'running' } as const;
      const job: Job = { id: ++made, action, ...progress, startedAt: iso(clock.now()), endedAt: null };
      jobs.unshift(job);
      jobs.splice(KEPT);
      const begun = Promise.withResolvers<void>();
      void work(job, filter, reason, begun.resolve);
      await begun.promise;
      return job;
    },
    cancel(id) {
      const job = jobs.find((one) => one.id === id);
      if (job?.state !== 'running') return false;
      cancel.abort();
      return true;
    },
    list: () => jobs,
  };
}
