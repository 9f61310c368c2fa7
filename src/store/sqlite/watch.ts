// What people ask the store. Figures come from counters, pages are read by keyset, and no
// question scans more than a bounded stretch.
import { iso } from '../../clock.ts';
import { parseCursor } from '../../wire/cursor.ts';
import type { Origin } from '../../wire/event.ts';
import type {
  Alarm,
  Arrivals,
  Books,
  EventFilter,
  Fact,
  Failures,
  Gap,
  Quarantined,
  Refusal,
  ReplayState,
  ShownEvent,
  StreamState,
  ShownState,
  ShownTask,
  Signer,
  TaskState,
  WaitingLane,
  WatchStore,
} from '../store.ts';
import { EVENT_COLUMNS, isoOf, toEvent, type EventRow, type Session, type Sync } from './session.ts';
import { HANDLERS } from './waiting.ts';
import { HELD, idsOf, IN_STATE, inState, MATCHING, matchOf, STATE } from './selection.ts';

/** A process that has not written for this long is shown as down. */
const BEAT_MS = 5_000;
/** Events that one page of a filtered list looks at. */
const STRETCH = 50_000;
/** Lanes that are looked at for the longest, and how far each is counted. */
const LANES = 1_000;
const IN_LANE = 200;
/** How far the oldest waiting task must have moved to be worth a write. */
const FAR = 10_000 * HANDLERS;

interface TaskRow extends EventRow {
  task: number;
  handler: string;
  lane: string | null;
  alone: number;
  state: TaskState;
  held: number;
  attempts: number;
  late: number;
  due_at: number;
  started_at: number;
  changed_at: number;
  error: string | null;
}

export function createWatch(session: Session): Sync<Omit<WatchStore, 'handlers' | 'range' | 'survey' | 'reruns'>> {
  const { db } = session;
  const counters = db.prepare<[], { name: string; value: number }>('select name, value from counters');
  const newest = db.prepare<[], { seq: number | null; cursor: string | null }>(`
    select (select max(seq) from events) as seq,
      cast((select max(cursor) from events where cursor is not null and disputed = 0) as text) as cursor`);
  const oldest = db.prepare<unknown[], { id: number; received_at: number }>(`
    select t.id, e.received_at from tasks t join events e on e.seq = t.event
    where t.id >= +? and t.state = 'ready' and t.rerun = 0 order by t.id limit 1`);
  const oldestProved = db
    .prepare<unknown[], number>(`
    select e.received_at from (select * from tasks where id >= +? and state = 'ready' and rerun = 0 order by id limit ${STRETCH}) t
      join events e on e.seq = t.event where t.strict = 0 or t.cursor <= +? order by t.id limit 1`)
    .pluck();
  const gaps = db.prepare<[], number>('select count(*) from gaps where closed_at is null').pluck();
  type GapRow = Pick<Gap, 'id' | 'after' | 'upTo' | 'reason' | 'closedBy'> & {
    opened_at: number;
    closed_at: number | null;
  };
  const gapList = db.prepare<[], GapRow>(`
    select id, cast(after as text) as after, cast(up_to as text) as upTo, reason, opened_at, closed_at, closed_by as closedBy
    from gaps order by id`);
  const alarms = db.prepare<[], { name: string; since: number; detail: string }>(
    'select name, since, detail from alarms where cleared = 0 order by since',
  );
  const processes = db.prepare<[], { role: string; beat_at: number }>('select role, beat_at from processes');
  const shown = `select ${EVENT_COLUMNS}, e.copies, e.flags, length(e.body) as bytes from events e`;
  type ShownRow = EventRow & { copies: number; flags: string; bytes: number | null };
  const eventList = db.prepare<unknown[], ShownRow>(`
    ${shown} where e.seq < @before and e.seq > @from and (@type is null or e.type = @type)
      and (@session is null or e.session_id = @session)
      and (@state is null or exists (
        select 1 from tasks t left join lanes l on l.id = t.lane
        where t.id between e.seq * ${HANDLERS} and e.seq * ${HANDLERS} + ${HANDLERS - 1} and ${IN_STATE}))
    order by e.seq desc limit @limit`);
  const named = db.prepare<unknown[], ShownRow>(`
    ${shown} where (e.cursor = @cursor and e.cursor is not null and e.disputed = 0) or (e.id = @id and e.id is not null)
      or e.seq in (select seq from aliases where name in ('c:' || @cursor, 'i:' || @id)) order by e.disputed limit 1`);
  const body = db.prepare<unknown[], Uint8Array | null>('select body from events where seq = ?').pluck();
  const aliases = db.prepare<unknown[], string>('select name from aliases where seq = ?').pluck();
  const sightings = db.prepare<unknown[], { origin: Origin; at: number }>(
    'select origin, seen_at as at from sightings where event = ? order by seen_at',
  );
  // Day 4 of 1970 was a Monday.
  const arrivals = db.prepare<[], Omit<Arrivals, 'week'> & { week: number }>(`
    select day - (day + 3) % 7 as week, type, origin, sum(events) as events,
      case when sum(aged) > 0 then sum(late_ms) / sum(aged) end as lateMs,
      case when sum(aged) > 0 then max(latest_ms) end as latestMs
    from arrivals group by 1, type, origin order by 1 desc, type, origin`);
  const conflicts = db.prepare<unknown[], number>('select count(*) from conflicts where seq = ?').pluck();
  const task = `
    select t.id as task, h.name as handler, l.name as lane, t.alone, ${STATE} as state, coalesce(c.attempt, t.attempts) as attempts,
      coalesce(c.late, t.late) as late, t.due_at, coalesce(c.started_at, t.started_at) as started_at,
      t.changed_at, t.error, ${EVENT_COLUMNS},
      ${HELD} as held
    from tasks t join events e on e.seq = t.event join handlers h on h.id = t.handler left join lanes l on l.id = t.lane
      left join claims c on c.task = t.id`;
  const ofEvent = db.prepare<unknown[], TaskRow>(
    `${task} where t.id between @seq * ${HANDLERS} and @seq * ${HANDLERS} + ${HANDLERS - 1} order by t.id`,
  );
  const taskList = db.prepare<unknown[], TaskRow>(
    `${task} where t.id < @before and ${MATCHING} order by t.id desc limit @limit`,
  );
  const listOf = (state: keyof typeof idsOf) =>
    db.prepare<unknown[], TaskRow>(
      `${task} where t.id in (${idsOf[state]}) and t.id < @before and ${MATCHING} order by t.id desc limit @limit`,
    );
  const lists = {
    ready: listOf('ready'),
    running: listOf('running'),
    dead: listOf('dead'),
    skipped: listOf('skipped'),
  };
  type AsideRow = Omit<Quarantined, 'receivedAt'> & { received_at: number };
  const aside = 'select id, received_at, origin, cast(cursor as text) as cursor, reason, length(body) as bytes';
  const quarantine = db.prepare<unknown[], AsideRow>(`${aside} from quarantine order by id desc limit ?`);
  const quarantined = db.prepare<unknown[], AsideRow & { body: Uint8Array }>(
    `${aside}, body from quarantine where id = ?`,
  );
  const waits = `lane = hop.lane and state = 'ready' and alone = 0`;
  // From lane to lane by the index, so that a long backlog costs no more than a short one.
  const crowded = db.prepare<unknown[], Omit<WaitingLane, 'head' | 'more'> & WaitingLane['head']>(`
    with recursive hop (lane) as (
      select min(lane) from tasks where state = 'ready' and alone = 0
      union all
      select (select min(lane) from tasks where lane > hop.lane and state = 'ready' and alone = 0) from hop
      where hop.lane is not null limit ${LANES}
    ), counted as materialized (
      select lane, (select count(*) from (select 1 from tasks where ${waits} limit ${IN_LANE + 1})) as waiting,
        (select id from tasks where ${waits} order by cursor limit 1) as head
      from hop where lane is not null order by 2 desc limit ?
    )
    select h.name as handler, l.name as lane, waiting, coalesce(c.attempt, t.attempts) as attempts, t.error, ${EVENT_COLUMNS}
    from counted k join lanes l on l.id = k.lane join handlers h on h.id = l.handler join tasks t on t.id = k.head
      join events e on e.seq = t.event left join claims c on c.task = t.id
    where waiting > 1 order by waiting desc`);

  const counterMap = (): Record<string, number> =>
    Object.fromEntries(counters.all().map(({ name, value }) => [name, value]));

  /** Looks on from where it was found the last time: everything before that has ended. */
  function oldestReady(): number | null {
    const from = Number(session.fact('oldest'));
    const found = oldest.get(from);
    if (found && found.id > from + FAR) remember(from, found.id);
    // What waits for proof is held.
    return found ? (oldestProved.get(found.id, BigInt(session.cursorFact('watermark') ?? -1)) ?? null) : null;
  }

  function remember(before: number, id: number): void {
    try {
      session.write(() => {
        // A retry may have gone back meanwhile.
        if (Number(session.fact('oldest')) === before) session.setFact('oldest', id);
      });
    } catch {
      // Locked just now: the next look is a little longer.
    }
  }

  return {
    status(now) {
      const n = counterMap();
      const at = (name: string): number => n[name] ?? 0;
      const { seq, cursor } = newest.get() ?? { seq: null, cursor: null };
      const ready = at('tasks.ready');
      const held = Math.min(ready, Number(session.fact('held')));
      const waiting = ready > held ? oldestReady() : null;
      const up = new Set(processes.all().flatMap(({ role, beat_at }) => (now - beat_at < BEAT_MS ? [role] : [])));
      const isUp = (role: string): 'up' | 'down' => (up.has(role) ? 'up' : 'down');
      const replay = JSON.parse(
        String(session.fact('replay') ?? '{"state":"off","since":null,"lastAt":null,"reason":null,"progress":null}'),
      ) as ReplayState;
      const { failureRun, failures, signers } = booksOf(session);
      const { lastGoodAt, ...bad } = failures;
      return {
        events: at('events'),
        unassigned: Math.max(0, (seq ?? 0) - Number(session.fact('assigned'))),
        duplicates: at('duplicates'),
        quarantined: at('quarantined'),
        conflicts: at('conflicts'),
        tasks: {
          held,
          ready: ready - held,
          running: at('tasks.running'),
          done: at('tasks.done'),
          skipped: at('tasks.skipped'),
          dead: at('tasks.dead'),
        },
        oldestReadySeconds: waiting === null ? null : Math.max(0, Math.round((now - waiting) / 1000)),
        watermark: session.cursorFact('watermark'),
        floor: session.cursorFact('floor'),
        newestCursor: cursor === null ? null : (parseCursor(cursor) ?? null),
        reconcile: { ...replay, recovered: at('recovered') },
        stream: JSON.parse(
          String(session.fact('stream') ?? '{"state":"off","since":null,"reason":null}'),
        ) as StreamState,
        gaps: gaps.get() ?? 0,
        failureRun,
        failures: bad,
        lastDeliveryAt: lastGoodAt,
        secrets: signers
          .flatMap(({ number, hits, lastAt, mayGo }) =>
            number === null ? [] : [{ number, hits, lastAt: iso(lastAt), mayGo }],
          )
          .toSorted((a, b) => a.number - b.number),
        alarms: alarms.all().map(({ name, since, detail }): Alarm => ({ name, since: isoOf(since), detail })),
        processes: { receive: isUp('receive'), run: isUp('run'), keep: isUp('keep') },
      };
    },
    events({ type, session: sessionId, state, q, before, limit }: EventFilter, now) {
      if (q !== undefined) {
        const row = named.get(nameOf(q));
        return { events: row ? [toShown(row)] : [], next: null };
      }
      const top = before ?? (newest.get()?.seq ?? 0) + 1;
      const from = Math.max(0, top - STRETCH);
      const match = { ...inState(state), type: type ?? null, session: sessionId ?? null, now };
      const events = eventList.all({ ...match, before: top, from, limit }).map(toShown);
      const full = events.length === limit;
      return { events, next: full ? (events.at(-1)?.seq ?? null) : from > 0 ? from + 1 : null };
    },
    event(name, now) {
      const row = named.get(nameOf(name));
      if (!row) return undefined;
      return {
        event: toShown(row),
        sightings: sightings.all(row.seq).map(({ origin, at }) => ({ origin, at: isoOf(at) })),
        aliases: aliases.all(row.seq),
        conflicts: conflicts.get(row.seq) ?? 0,
        tasks: ofEvent.all({ seq: row.seq, now }).map(toTask),
      };
    },
    body: (name) => body.get(named.get(nameOf(name))?.seq ?? null) ?? null,
    tasks({ ids, state, handler, before, limit = 50 }, now) {
      const match = matchOf({ ids, state, handler }, now);
      const list = match.state !== null && match.state !== 'done' ? lists[match.state] : taskList;
      const rows = list.all({ ...match, limit, before: before ?? Number.MAX_SAFE_INTEGER });
      return { tasks: rows.map(toTask), next: rows.length === limit ? (rows.at(-1)?.task ?? null) : null };
    },
    quarantine: (limit) => quarantine.all(limit).map(toQuarantined),
    quarantined(id) {
      const row = quarantined.get(id);
      return row && { ...toQuarantined(row), body: row.body };
    },
    refusals: () => JSON.parse(String(session.fact('refusals') ?? '{}')) as Record<string, Refusal[]>,
    waitingLanes: (limit) =>
      crowded.all(limit).map(({ handler, lane, waiting, key, attempts, error }) => {
        const more = waiting > IN_LANE;
        return { handler, lane, waiting: Math.min(waiting, IN_LANE), more, head: { key, attempts, error } };
      }),
    gaps: () =>
      gapList.all().map(({ opened_at, closed_at, upTo, ...gap }) => {
        return { ...gap, upTo, openedAt: isoOf(opened_at), closedAt: closed_at === null ? null : isoOf(closed_at) };
      }),
    arrivals: () => arrivals.all().map((sum) => ({ ...sum, week: isoOf(sum.week * 86_400_000).slice(0, 10) })),
    counters: counterMap,
  };
}

/** Facts that the main process writes, and finds again when it starts. */
export function booksOf(session: Session): Books {
  const read = (name: Fact): unknown => JSON.parse(String(session.fact(name)));
  return {
    failureRun: Number(session.fact('failure_run')),
    failures: (read('failures') as Failures | null) ?? {
      causes: {},
      badSignatures: 0,
      badSince: null,
      lastBadAt: null,
      lastGoodAt: null,
    },
    signers: (read('signers') as Signer[] | null) ?? [],
  };
}

/** What a person may call an event: its key (`c:…`, `i:…`), its cursor or its id. */
function nameOf(text: string): { cursor: bigint | null; id: string | null } {
  const cursor = parseCursor(text.startsWith('c:') ? text.slice(2) : text);
  const id = text.startsWith('i:') ? text.slice(2) : text.startsWith('c:') ? null : text;
  return { cursor: cursor === undefined ? null : BigInt(cursor), id };
}

function toShown(row: EventRow & { copies: number; flags: string; bytes: number | null }): ShownEvent {
  const { body: _, ...event } = toEvent(row);
  return { ...event, copies: row.copies, flags: row.flags, bytes: row.bytes };
}

function toQuarantined({
  id,
  received_at,
  origin,
  cursor,
  reason,
  bytes,
}: Omit<Quarantined, 'receivedAt'> & { received_at: number }): Quarantined {
  return { id, receivedAt: isoOf(received_at), origin, cursor, reason, bytes };
}

function toTask(row: TaskRow): ShownTask {
  const state: ShownState = row.held ? 'held' : row.state;
  return {
    id: row.task,
    key: row.key,
    type: row.type,
    sessionId: row.session_id,
    handler: row.handler,
    lane: row.lane,
    state,
    attempts: row.attempts,
    late: row.late === 1,
    dueAt: isoOf(row.due_at),
    startedAt: row.attempts === 0 ? null : isoOf(row.started_at),
    finishedAt: row.state === 'ready' || row.state === 'running' ? null : isoOf(row.changed_at),
    error: row.error,
  };
}
