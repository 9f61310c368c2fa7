// The side of the store that the main process works with: who runs, and what a dead process leaves behind.
import type { OwnerStore, Process, Reloaded } from '../owner-store.ts';
import type { Session, Sync } from './session.ts';
import { booksOf } from './watch.ts';
import { createRouse, UNCLAIMED } from './waiting.ts';

/** A task that ended its process waits as after any failed attempt, and holds its lane as by default. */
const HOLD_MS = 120_000;

export function createOwner(session: Session): Sync<Omit<OwnerStore, 'settle'>> {
  const { db } = session;
  const identity = db.prepare<[], string>('select id from store').pluck();
  const identify = db.prepare('update store set id = ?');
  const rouse = createRouse(session);
  const beat = db.prepare(`
    insert into processes (role, pid, started, boot, beat_at) values (?, ?, ?, ?, ?)
    on conflict (role) do update set pid = excluded.pid, started = excluded.started, boot = excluded.boot, beat_at = excluded.beat_at`);
  const gone = db.prepare('delete from processes where role = ?');
  const processes = db.prepare<[], Process>('select role, pid, started, boot from processes');
  const orphans = db.prepare<unknown[], { task: number; lane: number | null; boot: number; attempt: number }>(
    `select c.task, t.lane, c.boot, c.attempt from claims c join tasks t on t.id = c.task
     where c.boot not in (select value from json_each(?))`,
  );
  const release = db.prepare('delete from claims where task = ?');
  const back = db.prepare(`
    update tasks set suspect = 1, attempts = ?, due_at = ?, error = coalesce(?, error),
      hold_until = case when ? then coalesce(hold_until, ?) else hold_until end where id = ?`);
  const suspectDue = db
    .prepare<unknown[], number>(`
    select 1 from tasks where state = 'ready' and suspect = 1 and due_at <= ?
      and handler in (select id from handlers where name in (select value from json_each(?)))
      and ${UNCLAIMED} limit 1`)
    .pluck();

  return {
    identity: () => identity.get() ?? '',
    identify: (id) => void identify.run(id),
    nextBoot: () =>
      session.write(() => {
        const boot = Number(session.fact('boot')) + 1;
        session.setFact('boot', boot);
        return boot;
      }),
    beat: ({ role, pid, started, boot }, now) => void beat.run(role, pid, started, boot, now),
    gone: (role) => void gone.run(role),
    processes: () => processes.all(),
    books: () => booksOf(session),
    askReload: () =>
      session.write(() => {
        const asked = Number(session.fact('reload_asked')) + 1;
        session.setFact('reload_asked', asked);
        return asked;
      }),
    reloadAsked: () => Number(session.fact('reload_asked')),
    reloaded: () => JSON.parse(String(session.fact('reloaded'))) as Reloaded | null,
    giveBack: (alive, now) =>
      session.write(() => {
        const rows = orphans.all(JSON.stringify(alive));
        const atWork = Map.groupBy(rows, ({ boot }) => boot);
        for (const { task, lane, boot, attempt } of rows) {
          const spent = atWork.get(boot)?.length === 1;
          const dueAt = spent ? now + 1_000 * 2 ** Math.min(attempt - 1, 12) : now;
          const error = spent ? 'the process died while this task was alone in it' : null;
          release.run(task);
          back.run(spent ? attempt : attempt - 1, dueAt, error, spent ? 1 : 0, now + HOLD_MS, task);
          if (lane !== null) rouse(lane);
        }
        session.count({ 'tasks.running': -rows.length, 'tasks.ready': rows.length });
        return rows.length;
      }),
    suspectDue: (now, handlers) => suspectDue.get(now, JSON.stringify(handlers)) === 1,
  };
}
