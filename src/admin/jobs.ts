// Runs retry and discard in the background, one job at a time. Jobs are in memory: a restart of `keep` ends a running
// job, and the tasks that the job has changed stay changed. POST /api/tasks/retry and /api/tasks/discard use no job:
// they answer when all tasks are changed.
import type { Store } from '../store/store.ts';
import { iso } from '../base/clock.ts';
import { loggable } from '../base/errors.ts';
import type { Keep } from '../keep/module.ts';
import { AdminError } from './error.ts';
import { changeThese, matchingTasks, type Action, type TaskChange } from './tasks.ts';

export interface Job {
  id: number;
  action: Action;
  /** `of`: tasks that matched at the start. `done`: how many of them were tried. `moved`: how many were changed. */
  done: number;
  of: number;
  moved: number;
  state: 'running' | 'done' | 'cancelled' | 'failed';
  /** ISO 8601. */
  startedAt: string | null;
  endedAt: string | null;
}

export type Jobs = ReturnType<typeof createJobs>;

const KEPT = 10;

export interface JobsOptions extends Pick<Keep, 'clock' | 'log'> {
  store: Pick<Store, 'admin'>;
  /** Called after each step. */
  onChange: () => void;
}

export function createJobs({ store, clock, log, onChange }: JobsOptions) {
  const jobs: Job[] = [];
  let made = 0;
  let cancel = new AbortController();

  async function work(job: Job, change: TaskChange, ids: number[]): Promise<void> {
    try {
      const onStep = (done: number, of: number, moved: number): void => {
        Object.assign(job, { done, of, moved });
        if (done > 0) onChange();
      };
      await changeThese(ids, store, change, clock, onStep, cancel.signal);
      job.state = cancel.signal.aborted ? 'cancelled' : 'done';
    } catch (error) {
      job.state = 'failed';
      log.error(loggable(error), 'a job failed; what it has moved stays moved');
    }
    job.endedAt = iso(clock.now());
    log.info({ job: job.id, action: job.action, moved: job.moved, of: job.of, state: job.state }, 'a job has ended');
  }

  return {
    /** Resolves when the number of matching tasks is known. Throws AdminError while another job runs, as matchingTasks does. */
    async start(change: TaskChange): Promise<Job> {
      if (jobs[0]?.state === 'running')
        throw new AdminError('busy', 'another job is running: wait for it, or cancel it');
      cancel = new AbortController();
      const progress = { done: 0, of: 0, moved: 0, state: 'running' } as const;
      const startedAt = iso(clock.now());
      const job: Job = { id: ++made, action: change.action, ...progress, startedAt, endedAt: null };
      jobs.unshift(job);
      jobs.splice(KEPT);
      try {
        const ids = await matchingTasks(store, change, clock);
        job.of = ids.length;
        void work(job, change, ids);
        return job;
      } catch (error) {
        jobs.splice(jobs.indexOf(job), 1);
        throw error;
      }
    },
    /** False: the job is not running. Tasks that the job has already changed stay changed. */
    cancel(id: number): boolean {
      const job = jobs.find((one) => one.id === id);
      if (job?.state !== 'running') return false;
      cancel.abort();
      return true;
    },
    /** Newest first: the running job, and the last few that have ended. */
    list: (): Job[] => jobs,
  };
}
