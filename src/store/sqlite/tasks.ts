// The side of the store that `run` works with. A lane has one row that says when its head may be able to run, so that
// claiming costs the same with a million tasks waiting, and the same however long the history is.
import type { Claim, Counts, NewTask, Settlement, SqlValue, TaskStore, Turn, TurnResult, Tx } from '../store.ts';
import { setSynchronous } from './connection.ts';
import { EVENT_COLUMNS, toEvent, type EventRow, type Session, type Sync } from './session.ts';

interface Head {
  id: number;
  due_at: number;
  hold_until: number | null;
  suspect: number;
  released: number;
}

interface ClaimRow extends EventRow {
  task: number;
  handler: number;
  attempts: number;
  late: number;
  deferred: number;
  error: string | null;
}

/** Later than any time. */
const NEVER = 2 ** 52;

export function createTaskStore(session: Session): Sync<TaskStore> {
  const { db } = session;
  const lanes = createLanes(session);

  const addHandler = db.prepare('insert into handlers (name) values (?) on conflict (name) do nothing');
  const handlerId = db.prepare<[string], number>('select id from handlers where name = ?').pluck();
  const unassigned = db.prepare<unknown[], EventRow>(
    `select ${EVENT_COLUMNS}, e.body from events e where e.seq > ? order by e.seq limit ?`,
  );
  const moveOn = db.prepare(`update facts set value = ? where name = 'assigned' and value = ?`);
  const insert = db.prepare(`
    insert into tasks (event, handler, lane, alone, cursor, state, release_at, due_at)
    values (?, ?, ?, ?, ?, 'ready', ?, ?) on conflict (event, handler) do nothing`);
  const settle = db.prepare<unknown[], { lane: bigint | null; alone: bigint; cursor: bigint | null }>(`
    update tasks set state = ?, error = ?, finished_at = ?, suspect = 0
    where id = ? and state = 'running' and attempts = ? and boot = ? returning lane, alone, cursor`).safeIntegers();
  const postpone = db.prepare<unknown[], { lane: number | null; alone: number }>(`
    update tasks set state = 'ready', error = ?, due_at = ?, hold_until = coalesce(hold_until, ?),
      attempts = attempts - ?, deferred = deferred + ?, suspect = 0
    where id = ? and state = 'running' and attempts = ? and boot = ? returning lane, alone`);
  const start = db.prepare(`
    update tasks set state = 'running', attempts = attempts + 1, boot = ?, started_at = ?,
      late = cursor is not null and lane is not null and cursor < (select finished from lanes where id = tasks.lane)
    where id = ?`);
  const claimed = db.prepare<unknown[], ClaimRow>(`
    select t.id as task, t.handler, t.attempts, t.late, t.deferred, t.error, ${EVENT_COLUMNS}, e.body
    from tasks t join events e on e.seq = t.event where t.id = ?`);
  const alone = db.prepare<unknown[], number>(`
    select id from tasks where handler = ? and due_at <= ? and state = 'ready' and alone = 1 and suspect = 0
    order by due_at limit ?`).pluck();
  const nextAlone = db.prepare<unknown[], number | null>(`
    select min(due_at) from tasks where handler = ? and state = 'ready' and alone = 1 and suspect = 0`).pluck();
  const suspects = db.prepare<unknown[], { id: number; lane: number | null; alone: number }>(`
    select id, lane, alone from tasks where state = 'ready' and suspect = 1 and due_at <= ?
      and handler in (select value from json_each(?))
      and (alone = 1 or not exists (select 1 from lanes l where l.id = tasks.lane and l.running is not null))
    order by due_at limit 1`);

  function turn({ now, boot, settle: settlements, assign, room, handlers }: Turn): TurnResult {
    return session.write(() => {
      const counts: Counts = {};
      const add = (name: keyof Counts, by: number): void => {
        counts[name] = (counts[name] ?? 0) + by;
      };
      let fenced = 0;
      for (const settlement of settlements) {
        if (!settleOne(settlement, now)) fenced++;
        else {
          add('tasks.running', -1);
          add(`tasks.${settlement.state}`, 1);
        }
      }
      add('fenced', fenced);
      if (assign) add('tasks.ready', assignAll(assign, now));
      const claims = room > 0 ? claimUpTo(room, handlers, now, boot) : [];
      add('tasks.ready', -claims.length);
      add('tasks.running', claims.length);
      session.count(counts);
      return { claims, fenced, nextAt: nextAt(handlers) };
    });
  }

  /** False when the claim no longer holds: another process has been given the task. */
  function settleOne(settlement: Settlement, now: number): boolean {
    const { claim, error } = settlement;
    const held = [claim.task, claim.attempt, claim.boot];
    if (settlement.state === 'ready') {
      const { dueAt, holdMs, spent, deferredMs = 0 } = settlement;
      const row = postpone.get(error, dueAt, now + holdMs, spent ? 0 : 1, deferredMs, ...held);
      if (row && row.lane !== null && row.alone === 0) lanes.vacate(row.lane, now);
      return row !== undefined;
    }
    const row = settle.get(settlement.state, error, now, ...held);
    if (row?.lane != null) lanes.finish(Number(row.lane), row.cursor, row.alone === 0n, now);
    return row !== undefined;
  }

  function assignAll({ from, upTo, tasks }: NonNullable<Turn['assign']>, now: number): number {
    if (moveOn.run(BigInt(upTo), BigInt(from)).changes !== 1) return 0;
    let added = 0;
    for (const task of tasks) {
      const lane = task.lane === null || task.cursor === null ? null : lanes.enter(task, task.lane, now);
      const cursor = task.cursor === null ? null : BigInt(task.cursor);
      const { event, handler, releaseAt } = task;
      const dueAt = lane === null ? releaseAt : now;
      added += insert.run(event, handler, lane, lane === null ? 1 : 0, cursor, releaseAt, dueAt).changes;
    }
    return added;
  }

  /** Handlers take turns, so that the backlog of one does not keep another waiting. */
  function claimUpTo(room: number, handlers: number[], now: number, boot: number): Claim[] {
    const claims: Claim[] = [];
    for (const [index, handler] of handlers.entries()) {
      const share = Math.ceil((room - claims.length) / (handlers.length - index));
      const singles = alone.all(handler, now, Math.ceil(share / 2));
      for (const task of singles) claims.push(claim(task, null, now, boot));
      for (const { lane, task } of lanes.heads(handler, now, share - singles.length)) {
        claims.push(claim(task, lane, now, boot));
      }
    }
    return claims;
  }

  function claim(task: number, lane: number | null, now: number, boot: number): Claim {
    start.run(boot, now, task);
    if (lane !== null) lanes.occupy(lane, task);
    const row = claimed.get(task);
    if (!row) throw new Error(`task ${task} has lost its event`);
    return {
      task,
      handler: row.handler,
      event: toEvent(row),
      attempt: row.attempts,
      boot,
      late: row.late === 1,
      deferredMs: row.deferred,
      error: row.error,
    };
  }

  function nextAt(handlers: number[]): number | null {
    const times = handlers.flatMap((handler) => [lanes.nextAt(handler), nextAlone.get(handler) ?? null]);
    return times.reduce((a, b) => (a === null || (b !== null && b < a) ? b : a), null);
  }

  return {
    register: (names) =>
      session.write(() => {
        for (const name of names) addHandler.run(name);
        return new Map(names.map((name) => [name, handlerId.get(name) ?? 0]));
      }),
    setup: (work) => session.write(() => work(txOf(session))),
    unassigned(limit) {
      const from = Number(session.fact('assigned'));
      return {
        from,
        watermark: session.cursorFact('watermark'),
        born: Number(session.fact('born')),
        history: session.cursorFact('history'),
        events: unassigned.all(from, limit).map(toEvent),
      };
    },
    turn,
    claimSuspect: (now, boot, handlers) =>
      session.write(() => {
        const suspect = suspects.get(now, JSON.stringify(handlers));
        if (!suspect) return undefined;
        session.count({ 'tasks.ready': -1, 'tasks.running': 1 });
        return claim(suspect.id, suspect.alone === 1 ? null : suspect.lane, now, boot);
      }),
    complete(given, now, work) {
      setSynchronous(db, 'FULL');
      try {
        return session.write(() => {
          if (!settleOne({ claim: given, state: 'done', error: null }, now)) return false;
          session.count({ 'tasks.running': -1, 'tasks.done': 1 });
          work(txOf(session));
          return true;
        });
      } finally {
        setSynchronous(db, 'NORMAL');
      }
    },
  };
}

/** The lanes: who is next in each, and when. Used by all that moves tasks. */
export function createLanes({ db }: Session): {
  enter(task: NewTask, name: string, now: number): number;
  occupy(lane: number, task: number): void;
  vacate(lane: number, now: number): void;
  finish(lane: number, cursor: bigint | null, vacated: boolean, now: number): void;
  heads(handler: number, now: number, limit: number): { lane: number; task: number }[];
  nextAt(handler: number): number | null;
} {
  const enter = db.prepare<unknown[], number>(`
    insert into lanes (handler, name, wake_at, used_at) values (@handler, @name, @release, @now)
    on conflict (handler, name) do update set used_at = @now, wake_at = case when running is null
      then min(coalesce(wake_at, ${NEVER}), case when @cursor <= released then @now else @release end) end
    returning id`).pluck();
  const occupy = db.prepare('update lanes set running = ?, wake_at = null where id = ?');
  const vacate = db.prepare('update lanes set running = null where id = ?');
  const finish = db.prepare('update lanes set finished = max(finished, ?), released = max(released, ?) where id = ?');
  const due = db.prepare<unknown[], number>(`
    select id from lanes where handler = ? and wake_at <= ? and wake_at is not null order by wake_at limit ?`).pluck();
  const next = db.prepare<unknown[], number | null>(
    'select min(wake_at) from lanes where handler = ? and wake_at is not null',
  ).pluck();
  const wakeAt = db.prepare('update lanes set wake_at = ? where id = ? and running is null');
  const waiting = `from tasks where lane = ? and state = 'ready' and alone = 0`;
  const head = db.prepare<unknown[], Head>(`
    select id, due_at, hold_until, suspect, cursor <= (select released from lanes l where l.id = lane) as released
    ${waiting} order by cursor limit 1`);
  // Read from the top, where the few that are still held lie, down to the first that is not.
  const release = db.prepare(`
    update lanes set released = (select cursor ${waiting} and release_at <= ? order by cursor desc limit 1)
    where id = ? and exists (select 1 ${waiting} and release_at <= ?)`);
  const earliest = db.prepare<unknown[], number | null>(`select min(release_at) ${waiting}`).pluck();
  const stepAside = db.prepare('update tasks set alone = 1 where id = ?');

  /** The task that may run now; or when to look again, null when nothing waits. */
  function look(lane: number, now: number): { task: number } | { at: number | null } {
    for (;;) {
      const first = head.get(lane);
      if (!first) return { at: null };
      if (!first.released) {
        if (release.run(lane, now, lane, lane, now).changes === 0) return { at: earliest.get(lane) ?? null };
        continue;
      }
      const holds = first.hold_until === null || first.hold_until > now;
      if (first.due_at <= now && !first.suspect) return { task: first.id };
      // A suspect is claimed by a process of its own, and this lane looked at again when that has ended.
      if (holds) return { at: first.suspect ? first.hold_until : Math.min(first.due_at, first.hold_until ?? NEVER) };
      stepAside.run(first.id);
    }
  }

  function arrange(lane: number, now: number): void {
    const found = look(lane, now);
    wakeAt.run('task' in found ? now : found.at, lane);
  }

  return {
    enter: ({ handler, cursor, releaseAt }, name, now) =>
      enter.get({ handler, name, cursor: BigInt(cursor ?? 0), release: releaseAt, now }) ?? 0,
    occupy: (lane, task) => occupy.run(task, lane),
    vacate(lane, now) {
      vacate.run(lane);
      arrange(lane, now);
    },
    finish(lane, cursor, vacated, now) {
      finish.run(cursor, cursor, lane);
      if (!vacated) return;
      vacate.run(lane);
      arrange(lane, now);
    },
    heads(handler, now, limit) {
      return due.all(handler, now, limit).flatMap((lane) => {
        const found = look(lane, now);
        if ('task' in found) return [{ lane, task: found.task }];
        wakeAt.run(found.at, lane);
        return [];
      });
    },
    nextAt: (handler) => next.get(handler) ?? null,
  };
}

function txOf({ db }: Session): Tx {
  return {
    run: (sql, ...values) => ({ changes: db.prepare(sql).run(...values).changes }),
    get: <Row>(sql: string, ...values: SqlValue[]) => db.prepare<SqlValue[], Row>(sql).get(...values),
    all: <Row>(sql: string, ...values: SqlValue[]) => db.prepare<SqlValue[], Row>(sql).all(...values),
  };
}
