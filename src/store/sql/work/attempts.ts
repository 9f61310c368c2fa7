// The history of tasks: the last attempts of tasks that failed, and groups of dead letters with the same error.
import { createHash } from 'node:crypto';
import { patternOf } from '../../error-pattern.ts';
import type { Claim, TaskState } from '../../work.ts';
import type { Session } from '../session.ts';

/** Maximum attempts kept of a task, and characters of each error. A hundred thousand dead letters fit on a disk. */
const KEPT = 10;
const ERROR_LENGTH = 200;

type Ended = Pick<Claim, 'task' | 'attempt' | 'startedAt' | 'handler'>;

interface Entry {
  task: number;
  startedAt: number;
  attempt: number;
  state: string;
  error: string | null;
}

// oxlint-disable-next-line max-lines-per-function -- one statement each, beside the method that runs it
export function createAttempts({ statement, value, insertAll, dialect }: Session) {
  const { max, min, oneOf } = dialect;
  const add = insertAll({
    into: 'attempts',
    columns: {
      ...{ task: 'bigint', started_at: 'bigint', attempt: 'bigint', ended_at: 'bigint' },
      ...{ state: 'text', error: 'text' },
    },
    conflict: 'on conflict do nothing',
  });
  const forget = statement(`
    delete from attempts where task ${oneOf('?', 'bigint')} and started_at < (
      select o.started_at from attempts o where o.task = attempts.task order by o.started_at desc limit 1 offset ${KEPT - 1})`);
  const die = value<number>(`
    insert into dead_groups (handler, error_pattern, dead, first_at, last_at) values (@handler, @errorPattern, 1, @now, @now)
    on conflict (handler, error_pattern) do update set dead = dead_groups.dead + 1, last_at = excluded.last_at returning id`);
  const blame = statement('update tasks set dead_group = ? where id = ?');
  const shrink = statement('update dead_groups set dead = dead - ? where id = ?');
  const drop = statement('delete from dead_groups where id = ? and dead <= 0');

  // What the new id already has is replaced.
  const giving = Object.entries({ attempts: ['started_at', 'attempt'], notes: ['name'] }).flatMap(([table, key]) => [
    statement(`
      delete from ${table} where task = @to and exists (select 1 from ${table} o where o.task = @from
        and ${key.map((column) => `o.${column} = ${table}.${column}`).join(' and ')})`),
    statement(`update ${table} set task = @to where task = @from`),
  ]);
  const share = value<number>(`
    insert into dead_groups (handler, error_pattern, dead, first_at, last_at)
      select cast(@handler as bigint), error_pattern, 1, first_at, last_at from dead_groups where id = @group
    on conflict (handler, error_pattern) do update set dead = dead_groups.dead + 1,
      first_at = ${min}(dead_groups.first_at, excluded.first_at),
      last_at = ${max}(dead_groups.last_at, excluded.last_at) returning id`);

  async function leaveGroup(group: number, tasks: number): Promise<void> {
    await shrink.run(tasks, group);
    await drop.run(group);
  }

  async function keep(entries: Entry[], now: number): Promise<void> {
    if (entries.length === 0) return;
    await add(
      entries.map(({ task, startedAt, attempt, state, error }) => {
        return [task, startedAt, attempt, now, state, error?.slice(0, ERROR_LENGTH) ?? null];
      }),
    );
    await forget.run(entries.map(({ task }) => task));
  }

  return {
    /** Part of the transaction that settles the attempt. A task that ends at its first attempt needs no row here. */
    async ended(claim: Ended, state: TaskState, error: string | null, now: number): Promise<void> {
      const { task, attempt, startedAt, handler } = claim;
      if (state === 'ready' || state === 'dead' || attempt > 1)
        await keep([{ task, startedAt, attempt, state, error }], now);
      if (state !== 'dead') return;
      const errorPattern = createHash('sha256')
        .update(patternOf(error ?? ''))
        .digest('hex')
        .slice(0, 16);
      await blame.run(await die.get({ handler, errorPattern, now }), task);
    },
    /** Notes that a person retried the tasks. */
    retried: (tasks: number[], now: number): Promise<void> =>
      keep(
        tasks.map((task) => ({ task, startedAt: now, attempt: 0, state: 'retried', error: null })),
        now,
      ),
    /** A task was moved to another handler and has a new id. Its attempts, notes and dead group move with it. */
    async given(from: number, to: number, handler: number, group: number | null): Promise<void> {
      for (const step of giving) await step.run({ from, to });
      if (group === null) return;
      await blame.run(await share.get({ handler, group }), to);
      await leaveGroup(group, 1);
    },
    /** Lowers the count of this group of dead letters by `tasks`, because that many of its tasks are no longer dead. */
    leaveGroup,
  };
}
