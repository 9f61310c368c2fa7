// The history of tasks: the last attempts of tasks that failed, and groups of dead letters with the same error.
import { createHash } from 'node:crypto';
import { patternOf } from '../../error-pattern.ts';
import type { Claim, TaskState } from '../../work.ts';
import type { Session } from '../session.ts';

/** Maximum attempts kept of a task, and characters of each error. A hundred thousand dead letters fit on a disk. */
const KEPT = 10;
const ERROR_LENGTH = 200;

type Ended = Pick<Claim, 'task' | 'attempt' | 'startedAt' | 'handler'>;

export function createAttempts({ db, value }: Session) {
  const add = db.prepare(`
    insert into attempts (task, started_at, attempt, ended_at, state, error) values (?, ?, ?, ?, ?, ?) on conflict do nothing`);
  const forget = db.prepare(`
    delete from attempts where task = @task and started_at < (
      select started_at from attempts where task = @task order by started_at desc limit 1 offset ${KEPT - 1})`);
  const die = value<number>(`
    insert into dead_groups (handler, error_pattern, dead, first_at, last_at) values (@handler, @errorPattern, 1, @now, @now)
    on conflict (handler, error_pattern) do update set dead = dead + 1, last_at = @now returning id`);
  const blame = db.prepare('update tasks set dead_group = ? where id = ?');
  const shrink = db.prepare('update dead_groups set dead = dead - ? where id = ?');
  const drop = db.prepare('delete from dead_groups where id = ? and dead <= 0');

  const give = db.prepare('update or replace attempts set task = @to where task = @from');
  const giveNotes = db.prepare('update or replace notes set task = @to where task = @from');
  const share = value<number>(`
    insert into dead_groups (handler, error_pattern, dead, first_at, last_at)
      select @handler, error_pattern, 1, first_at, last_at from dead_groups where id = @group
    on conflict (handler, error_pattern) do update set dead = dead + 1, first_at = min(first_at, excluded.first_at),
      last_at = max(last_at, excluded.last_at) returning id`);

  function leaveGroup(group: number, tasks: number): void {
    shrink.run(tasks, group);
    drop.run(group);
  }

  function keep(
    task: number,
    startedAt: number,
    attempt: number,
    now: number,
    state: string,
    error: string | null,
  ): void {
    add.run(task, startedAt, attempt, now, state, error?.slice(0, ERROR_LENGTH) ?? null);
    forget.run({ task });
  }

  return {
    /** Part of the transaction that settles the attempt. A task that ends at its first attempt needs no row here. */
    ended(claim: Ended, state: TaskState, error: string | null, now: number): void {
      const { task, attempt, startedAt, handler } = claim;
      if (state === 'ready' || state === 'dead' || attempt > 1) keep(task, startedAt, attempt, now, state, error);
      if (state !== 'dead') return;
      const errorPattern = createHash('sha256')
        .update(patternOf(error ?? ''))
        .digest('hex')
        .slice(0, 16);
      blame.run(die.get({ handler, errorPattern, now }), task);
    },
    /** Notes that a person retried the task. */
    retried: (task: number, now: number): void => keep(task, now, 0, now, 'retried', null),
    /** A task was moved to another handler and has a new id. Its attempts, notes and dead group move with it. */
    given(from: number, to: number, handler: number, group: number | null): void {
      give.run({ from, to });
      giveNotes.run({ from, to });
      if (group === null) return;
      blame.run(share.get({ handler, group }), to);
      leaveGroup(group, 1);
    },
    /** Lowers the count of this group of dead letters by `tasks`, because that many of its tasks are no longer dead. */
    leaveGroup,
  };
}
