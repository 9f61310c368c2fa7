// What tasks have been through, as far as it is kept: the last attempts of those that failed, and what the dead died of.
import { createHash } from 'node:crypto';
import { patternOf } from '../../error-pattern.ts';
import type { Claim, TaskState } from '../../work.ts';
import type { Session } from '../session.ts';

/** Attempts kept of a task, and how much of each error: a hundred thousand dead letters must fit on a disk. */
const KEPT = 10;
const ERROR_LENGTH = 200;

type Ended = Pick<Claim, 'task' | 'attempt' | 'startedAt' | 'handler'>;

export interface History {
  /** Within the transaction that settles it. What ends at its first attempt stands in its task, and needs no row. */
  ended(claim: Ended, state: TaskState, error: string | null, now: number): void;
  /** A person lets it run again. */
  retried(task: number, now: number): void;
  /** A task is now another handler's, under another number: its attempts and its cause go with it. */
  given(from: number, to: number, handler: number, cause: number | null): void;
  /** So many tasks are dead of this cause no more. */
  left(cause: number, tasks: number): void;
}

export function createHistory({ db }: Session): History {
  const add = db.prepare(`
    insert into attempts (task, started_at, attempt, ended_at, state, error) values (?, ?, ?, ?, ?, ?) on conflict do nothing`);
  const forget = db.prepare(`
    delete from attempts where task = @task and started_at < (
      select started_at from attempts where task = @task order by started_at desc limit 1 offset ${KEPT - 1})`);
  const die = db
    .prepare<unknown[], number>(`
    insert into dead_groups (handler, error_pattern, dead, first_at, last_at) values (@handler, @errorPattern, 1, @now, @now)
    on conflict (handler, error_pattern) do update set dead = dead + 1, last_at = @now returning id`)
    .pluck();
  const blame = db.prepare('update tasks set cause = ? where id = ?');
  const leave = db.prepare('update dead_groups set dead = dead - ? where id = ?');
  const drop = db.prepare('delete from dead_groups where id = ? and dead <= 0');

  const give = db.prepare('update or replace attempts set task = @to where task = @from');
  const share = db
    .prepare<unknown[], number>(`
    insert into dead_groups (handler, error_pattern, dead, first_at, last_at)
      select @handler, error_pattern, 1, first_at, last_at from dead_groups where id = @cause
    on conflict (handler, error_pattern) do update set dead = dead + 1, first_at = min(first_at, excluded.first_at),
      last_at = max(last_at, excluded.last_at) returning id`)
    .pluck();

  function left(cause: number, tasks: number): void {
    leave.run(tasks, cause);
    drop.run(cause);
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
    ended(claim, state, error, now) {
      const { task, attempt, startedAt, handler } = claim;
      if (state === 'ready' || state === 'dead' || attempt > 1) keep(task, startedAt, attempt, now, state, error);
      if (state !== 'dead') return;
      const errorPattern = createHash('sha256')
        .update(patternOf(error ?? ''))
        .digest('hex')
        .slice(0, 16);
      blame.run(die.get({ handler, errorPattern, now }), task);
    },
    retried: (task, now) => keep(task, now, 0, now, 'retried', null),
    given(from, to, handler, cause) {
      give.run({ from, to });
      if (cause === null) return;
      blame.run(share.get({ handler, cause }), to);
      left(cause, 1);
    },
    left,
  };
}
