// The process role of the store: which processes are alive, and the tasks that dead ones had claimed.
import type { AlarmStore } from '../../alarms.ts';
import { afterCrash, type CrashPolicy, type ProcessStore, type Process } from '../../processes.ts';
import { createHandlers } from './handlers.ts';
import { createAttempts } from './attempts.ts';
import { EVENT_KEY, type Session, type Sync } from '../session.ts';
import { createMarkDirty, NEXT } from './waiting.ts';

interface Orphan {
  task: number;
  handler: number;
  name: string;
  key: string;
  lane: number | null;
  /** 1: the task has a cursor, so its lane must go on after it. */
  placed: number;
  boot: number;
  attempt: number;
  late: number;
  startedAt: number;
  crashes: number;
}

export function createProcessStore(
  session: Session,
): Sync<Omit<ProcessStore, 'settle'> & Pick<AlarmStore, 'brokenHandlers'>> {
  const { db } = session;
  const identity = session.value<string, []>('select id from store');
  const identify = db.prepare('update store set id = ?');
  const markDirty = createMarkDirty(session);
  const beat = db.prepare(`
    insert into processes (role, pid, started, boot, beat_at) values (?, ?, ?, ?, ?)
    on conflict (role) do update set pid = excluded.pid, started = excluded.started, boot = excluded.boot, beat_at = excluded.beat_at`);
  const gone = db.prepare('delete from processes where role = ?');
  const processes = db.prepare<[], Process>('select role, pid, started, boot from processes');
  const orphans = db.prepare<unknown[], Orphan>(`
    select c.task, t.handler, h.name, ${EVENT_KEY}, t.lane, t.cursor is not null as placed, c.boot, c.attempt, c.late,
      c.started_at as startedAt, t.crashes
    from claims c join tasks t on t.id = c.task join handlers h on h.id = t.handler join events e on e.seq = t.event
    where c.boot not in (select value from json_each(?))`);
  const release = db.prepare('delete from claims where task = ?');
  const back = db.prepare('update tasks set isolated = 1, attempts = ?, due_at = ? where id = ?');
  const postpone = db.prepare(`
    update tasks set isolated = 1, attempts = ?, crashes = ?, due_at = ?, error = ?, hold_until = coalesce(hold_until, ?),
      started_at = ? where id = ?`);
  const die = db.prepare(`
    update tasks set state = 'dead', isolated = 0, attempts = ?, crashes = ?, late = ?, error = ?, started_at = ?,
      changed_at = ? where id = ?`);
  const finish = db.prepare(`
    update lane_progress set finished = max(finished, t.cursor), used_at = ? from tasks t
    where t.id = ? and lane_progress.lane = t.lane`);
  const attemptLog = createAttempts(session);
  const registry = createHandlers(session);
  const isolatedDue = session.value<number>(`
    select 1 from tasks where state = 'ready' and isolated = 1 and due_at <= ?
      and handler in (select id from handlers where name in (select value from json_each(?)))
      and ${NEXT} limit 1`);

  /** Ends the attempt of a task that was alone when its process died. True: the task is dead. */
  function spend(row: Orphan, crash: CrashPolicy | undefined, now: number): boolean {
    const { task, name, attempt, late, startedAt, placed } = row;
    const { crashes, error, next } = afterCrash(crash, name, attempt, row.crashes);
    const dead = next === 'dead';
    if (dead) {
      die.run(attempt, crashes, late, error, startedAt, now, task);
      if (placed) finish.run(now, task);
    } else postpone.run(attempt, crashes, now + next.delayMs, error, now + next.holdMs, startedAt, task);
    attemptLog.ended(row, dead ? 'dead' : 'ready', error, now);
    session.count({ [`attempts.${dead ? 'dead' : 'retry'}.${name}`]: 1 });
    return dead;
  }

  return {
    identity: () => identity.get() ?? '',
    identify: (id) => void identify.run(id),
    nextBoot: () => session.write(() => session.increment('boot')),
    beat: ({ role, pid, started, boot }, now) => void beat.run(role, pid, started, boot, now),
    gone: (role) => void gone.run(role),
    list: () => processes.all(),
    askReload: () => session.write(() => session.increment('reload_asked')),
    giveBack: (alive, now, crash) =>
      session.write(() => {
        const rows = orphans.all(JSON.stringify(alive));
        const atWork = Map.groupBy(rows, ({ boot }) => boot);
        return rows.map((row) => {
          const { task, lane, boot, name: handler, key, attempt } = row;
          const alone = atWork.get(boot)?.length === 1;
          release.run(task);
          if (lane !== null) markDirty(lane);
          const dead = alone && spend(row, crash, now);
          if (!alone) back.run(attempt - 1, now, task);
          session.count({ 'tasks.running': -1, [dead ? 'tasks.dead' : 'tasks.ready']: 1 });
          return { handler, key, attempt, alone, dead };
        });
      }),
    brokenHandlers() {
      const faults = JSON.parse(String(session.state('handler_faults') ?? '[]')) as { file: string; fault: string }[];
      const waiting = registry.waiting();
      return faults.map(({ file, fault }) => ({
        fault,
        waiting: waiting.flatMap((one) => (one.file === file ? [one.name] : [])),
      }));
    },
    isolatedDue: (now, handlers) => isolatedDue.get(now, JSON.stringify(handlers)) === 1,
  };
}
