// The side of the store that the main process works with: who runs, and what a dead process leaves behind.
import type { OwnerStore, Process } from '../store.ts';
import type { Session, Sync } from './session.ts';
import { createLanes } from './tasks.ts';

/** A task that ended its process waits as after any failed attempt, and holds its lane as by default. */
const HOLD_MS = 120_000;

export function createOwner(session: Session): Sync<OwnerStore> {
  const { db } = session;
  const lanes = createLanes(session);
  const beat = db.prepare(`
    insert into processes (role, pid, started, boot, beat_at) values (?, ?, ?, ?, ?)
    on conflict (role) do update set pid = excluded.pid, started = excluded.started, boot = excluded.boot, beat_at = excluded.beat_at`);
  const gone = db.prepare('delete from processes where role = ?');
  const processes = db.prepare<[], Process>('select role, pid, started, boot from processes');
  const orphans = db.prepare<unknown[], { id: number; lane: number | null; alone: number; boot: number; attempts: number }>(`
    select id, lane, alone, boot, attempts from tasks
    where state = 'running' and boot not in (select value from json_each(?))`);
  const back = db.prepare(`
    update tasks set state = 'ready', suspect = 1, attempts = attempts - ?, due_at = ?, error = coalesce(?, error),
      hold_until = case when ? then coalesce(hold_until, ?) else hold_until end where id = ?`);
  const suspectDue = db.prepare<unknown[], number>(
    `select 1 from tasks where state = 'ready' and suspect = 1 and due_at <= ? limit 1`,
  ).pluck();

  return {
    nextBoot: () =>
      session.write(() => {
        const boot = Number(session.fact('boot')) + 1;
        session.setFact('boot', boot);
        return boot;
      }),
    beat: ({ role, pid, started, boot }, now) => void beat.run(role, pid, started, boot, now),
    gone: (role) => void gone.run(role),
    processes: () => processes.all(),
    giveBack: (alive, now) =>
      session.write(() => {
        const rows = orphans.all(JSON.stringify(alive));
        const atWork = Map.groupBy(rows, ({ boot }) => boot);
        for (const { id, lane, alone, boot, attempts } of rows) {
          const spent = atWork.get(boot)?.length === 1;
          const dueAt = spent ? now + 1_000 * 2 ** Math.min(attempts, 12) : now;
          const error = spent ? 'the process died while this task was alone in it' : null;
          back.run(spent ? 0 : 1, dueAt, error, spent ? 1 : 0, now + HOLD_MS, id);
          if (lane !== null && alone === 0) lanes.leave(lane, null, now);
        }
        session.count({ 'tasks.running': -rows.length, 'tasks.ready': rows.length });
        return rows.length;
      }),
    suspectDue: (now) => suspectDue.get(now) === 1,
  };
}
