// What handlers note about their tasks (`ctx.note`), and what they read of their own tables (`ctx.read`).
import { NOTES, type Claim, type Notes, type SqlRow, type SqlValue } from '../../work.ts';
import type { Session } from '../session.ts';
import { selected } from './tx.ts';

const NONE: Notes = {};

export function createNotes(session: Session) {
  const { db } = session;
  const any = session.value<number, []>('select 1 from notes limit 1');
  const ofTask = db.prepare<[number], { name: string; value: string }>('select name, value from notes where task = ?');
  // A note about an erased event would bring the person's data back.
  const isHeld = session.value<number>(`
    select 1 from claims c join tasks t on t.id = c.task join events e on e.seq = t.event
    where c.task = ? and c.attempt = ? and c.boot = ? and (e.body is not null or e.digest is not null)`);
  const count = session.value<number>('select count(*) from notes where task = ? and name <> ?');
  const put = db.prepare(`
    insert into notes (task, name, value, noted_at) values (?, ?, ?, ?)
    on conflict (task, name) do update set value = excluded.value, noted_at = excluded.noted_at`);

  return {
    /** Most stores hold no notes at all, so a turn looks once. */
    reader(): (task: number) => Notes {
      if (any.get() === undefined) return () => NONE;
      return (task) => Object.fromEntries(ofTask.all(task).map(({ name, value }) => [name, value]));
    },
    noteTask: ({ task, attempt, boot }: Claim, name: string, value: string, now: number): boolean =>
      session.write(() => {
        if (isHeld.get(task, attempt, boot) === undefined) return false;
        if ((count.get(task, name) ?? 0) >= NOTES) throw new Error(`a task has at most ${NOTES} notes`);
        put.run(task, name, value, now);
        return true;
      }),
    read: (sql: string, values: SqlValue[]): SqlRow[] => selected(db, sql, values),
  };
}
