// The process role of the store: which processes are alive, and the tasks that dead ones had claimed.
import type { AlarmStore } from '../../alarms.ts';
import { afterCrash, type CrashPolicy, type Process, type ProcessStore } from '../../processes.ts';
import type { Counts } from '../../state.ts';
import { createHandlers } from './handlers.ts';
import { createAttempts } from './attempts.ts';
import { EVENT_KEY, type Session } from '../session.ts';
import { createMarkDirty, isolatedOf } from './waiting.ts';

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
  losses: number;
}

export function createProcessStore(
  session: Session,
): Omit<ProcessStore, 'settle' | 'lead' | 'resign' | 'leave' | 'instances'> & Pick<AlarmStore, 'brokenHandlers'> {
  const { statement, value, dialect } = session;
  const identity = value<string>('select id from store');
  const identify = statement('update store set id = ?');
  const beat = statement(`
    insert into processes (instance, role, pid, started, boot, beat_at) values (?, ?, ?, ?, ?, ?)
    on conflict (instance, role) do update set pid = excluded.pid, started = excluded.started, boot = excluded.boot, beat_at = excluded.beat_at`);
  const gone = statement('delete from processes where instance = ? and role = ?');
  const processes = statement<Process>('select role, pid, started, boot from processes');
  const registry = createHandlers(session);
  const isolatedDue = value<number>(`
    select 1 from tasks where ${isolatedOf(`in (select id from handlers where name ${dialect.oneOf('?', 'text')})`)} limit 1`);

  return {
    identity: async () => (await identity.get()) ?? '',
    identify: async (id) => void (await identify.run(id)),
    nextBoot: () => session.increment('boot'),
    beat: async ({ role, pid, started, boot }, now) =>
      void (await beat.run(session.instance(), role, pid, started, boot, now)),
    gone: async (role) => void (await gone.run(session.instance(), role)),
    list: () => processes.all(),
    askReload: () => session.increment('reload_asked'),
    giveBack: createGiveBack(session),
    async brokenHandlers() {
      const given = String((await session.state('handler_faults')) ?? '[]');
      const faults = JSON.parse(given) as { file: string; fault: string }[];
      const waiting = await registry.waiting();
      return faults.map(({ file, fault }) => ({
        fault,
        waiting: waiting.flatMap((one) => (one.file === file ? [one.name] : [])),
      }));
    },
    isolatedDue: async (now, handlers) => (await isolatedDue.get(now, await registry.unpausedNames(handlers))) === 1,
  };
}

function createGiveBack(session: Session): ProcessStore['giveBack'] {
  const { statement, dialect } = session;
  const listed = dialect.oneOf('@tasks', 'bigint');
  const markDirty = createMarkDirty(session);
  const orphans = statement<Orphan>(`
    select c.task, t.handler, h.name, ${EVENT_KEY}, t.lane, case when t.cursor is not null then 1 else 0 end as placed, c.boot,
      c.attempt, c.late, c.started_at as "startedAt", t.crashes, t.losses
    from claims c join tasks t on t.id = c.task join handlers h on h.id = t.handler join events e on e.seq = t.event
    where not (c.boot ${dialect.oneOf('?', 'bigint')}) order by c.task`);
  const release = statement(`delete from claims where task ${listed}`);
  const back = statement(`
    update tasks set isolated = case when @lost = 1 and losses = 0 then 0 else 1 end, losses = losses + @lost,
      attempts = c.attempt - 1, due_at = @now from claims c
    where c.task = tasks.id and tasks.id ${listed}`);
  const postpone = statement(`
    update tasks set isolated = 1, attempts = ?, crashes = ?, due_at = ?, error = ?, hold_until = coalesce(hold_until, ?),
      started_at = ? where id = ?`);
  const die = statement(`
    update tasks set state = 'dead', isolated = 0, attempts = ?, crashes = ?, late = ?, error = ?, started_at = ?,
      changed_at = ? where id = ?`);
  const finish = statement(`
    update lane_progress set finished = ${dialect.max}(lane_progress.finished, t.cursor), used_at = ? from tasks t
    where t.id = ? and lane_progress.lane = t.lane`);
  const attemptLog = createAttempts(session);

  /** Ends the attempt of a task that was alone when its process died. True: the task is dead. */
  async function spend(row: Orphan, crash: CrashPolicy | undefined, now: number): Promise<boolean> {
    const { task, name, attempt, late, startedAt, placed } = row;
    const { crashes, error, next } = afterCrash(crash, name, attempt, row.crashes);
    const dead = next === 'dead';
    if (dead) {
      await die.run(attempt, crashes, late, error, startedAt, now, task);
      if (placed === 1) await finish.run(now, task);
    } else await postpone.run(attempt, crashes, now + next.delayMs, error, now + next.holdMs, startedAt, task);
    await attemptLog.ended(row, dead ? 'dead' : 'ready', error, now);
    await session.count({ [`attempts.${dead ? 'dead' : 'retry'}.${name}`]: 1, [`waiting.${name}`]: dead ? -1 : 0 });
    return dead;
  }

  return (alive, now, crash, lost = false) =>
    session.write(async () => {
      const rows = await orphans.all(alive);
      if (rows.length === 0) return [];
      const atWork = Map.groupBy(rows, ({ boot }) => boot);
      const isAlone = ({ boot, losses }: Orphan): boolean => atWork.get(boot)?.length === 1 && (!lost || losses > 0);
      const idsOf = (some: Orphan[]): number[] => some.map(({ task }) => task);
      await back.run({ tasks: idsOf(rows.filter((row) => !isAlone(row))), now, lost: lost ? 1 : 0 });
      await release.run({ tasks: idsOf(rows) });
      await markDirty(rows.flatMap(({ lane }) => lane ?? []));
      const died = new Set<Orphan>();
      for (const row of rows) {
        if (!isAlone(row)) await attemptLog.ended(row, 'ready', afterCrash(crash, row.name, row.attempt, 0).error, now);
        else if (await spend(row, crash, now)) died.add(row);
      }
      const counts: Counts = { 'tasks.dead': died.size, 'tasks.ready': rows.length - died.size };
      await session.count({ 'tasks.running': -rows.length, ...counts });
      return rows.map((row) => {
        const { name: handler, key, attempt } = row;
        return { handler, key, attempt, alone: isAlone(row), dead: died.has(row) };
      });
    }, 'work');
}
