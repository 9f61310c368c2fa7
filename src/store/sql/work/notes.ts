// What handlers note about their tasks (`ctx.note`), and what they read of their own tables (`ctx.read`).
import { NOTES, type Claim, type Notes, type SqlRow, type SqlValue } from '../../work.ts';
import type { Session } from '../session.ts';

/** `selected`: the rows of one `select` of a handler. */
export function createNotes(session: Session, selected: (sql: string, values: SqlValue[]) => Promise<SqlRow[]>) {
  const any = session.value<number>('select 1 from notes limit 1');
  const ofTasks = session.statement<{ task: number; name: string; value: string }>(
    `select task, name, value from notes where task ${session.dialect.oneOf('?', 'bigint')} order by task, name`,
  );
  // A note about an erased event would bring the person's data back.
  const isHeld = session.value<number>(`
    select 1 from claims c join tasks t on t.id = c.task join events e on e.seq = t.event
    where c.task = ? and c.attempt = ? and c.boot = ? and (e.body is not null or e.digest is not null)`);
  const count = session.value<number>('select count(*) from notes where task = ? and name <> ?');
  const put = session.statement(`
    insert into notes (task, name, value, noted_at) values (?, ?, ?, ?)
    on conflict (task, name) do update set value = excluded.value, noted_at = excluded.noted_at`);

  return {
    /** The notes of those tasks that have any. Most stores hold no notes at all, so it looks for any first. */
    async readOf(tasks: number[]): Promise<Map<number, Notes>> {
      if (tasks.length === 0 || (await any.get()) === undefined) return new Map();
      const byTask = Map.groupBy(await ofTasks.all(tasks), ({ task }) => task);
      return new Map(
        [...byTask].map(([task, rows]) => [task, Object.fromEntries(rows.map(({ name, value }) => [name, value]))]),
      );
    },
    noteTask: ({ task, attempt, boot }: Claim, name: string, value: string, now: number): Promise<boolean> =>
      session.write(async () => {
        if ((await isHeld.get(task, attempt, boot)) === undefined) return false;
        if (((await count.get(task, name)) ?? 0) >= NOTES) throw new Error(`a task has at most ${NOTES} notes`);
        await put.run(task, name, value, now);
        return true;
      }, 'turn'),
    read: selected,
  };
}
