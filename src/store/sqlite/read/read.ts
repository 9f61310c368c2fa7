// Answers of the store for people and programs. Figures come from counters, pages are read by keyset, and no query
// scans more than a fixed number of rows.
import { iso } from '../../../base/clock.ts';
import { parseCursor, type Cursor } from '../../../wire/cursor.ts';
import type { Origin } from '../../../wire/event.ts';
import { patternOf } from '../../error-pattern.ts';
import type { StateKey } from '../../ingest.ts';
import type { KeptHealth, Failures, ReplayState, StreamState, Signer } from '../../keep.ts';
import type { TaskState } from '../../work.ts';
import {
  CONFLICTS,
  type Alarm,
  type Arrivals,
  type DeadGroup,
  type Gap,
  type Quarantined,
  type ShownAttempt,
  type ShownConflict,
  type ShownEvent,
  type ShownTask,
  type WaitingLane,
  type ReadStore,
} from '../../read.ts';
import { createByTime } from '../ingest/by-time.ts';
import { EVENT_COLUMNS, EVENT_KEY, isoOf, type Session, type Sync } from '../session.ts';
import { HANDLERS } from '../work/waiting.ts';
import { HELD, idsOf, IN_STATE, inState, MATCHING, matchOf, STATE } from './selection.ts';

/**
 * A process is shown as down after this time without a sign of life. A sign from the future means that the clock was
 * set back.
 */
const BEAT_MS = 5_000;
/** Maximum events, or tasks, that one page of a filtered list looks at; and maximum bodies that it searches. */
const STRETCH = 10_000;
const SEARCHED = 5_000;
/** A page of a list looks at LOOK events at a time, and stops after LOOK_MS. On a cold disk it looks at few. */
const LOOK = 250;
const LOOK_MS = 15;
/** Events on each side, by cursor, that are searched for neighbours. */
const NEAR = 1_000;
/** If fewer tasks wait than this, the oldest is found by the index of waiting tasks. */
const FEW = 10_000;
/** Maximum waiting tasks to search for the oldest that does not wait for the watermark. */
const WAITING = 50_000;
/** Maximum lanes to search for the longest ones, and the bound up to which the tasks of each are counted. */
const LANES = 1_000;
const IN_LANE = 200;
/** The id of the oldest waiting task is stored again only if it has grown by this much. */
const FAR = 10_000 * HANDLERS;

interface TaskRow extends Omit<ShownTask, 'state' | 'late' | 'dueAt' | 'startedAt' | 'finishedAt'> {
  state: TaskState;
  held: number;
  late: number;
  due_at: number;
  started_at: number;
  changed_at: number;
}

type AsideRow = Omit<Quarantined, 'receivedAt'> & { received_at: number };

export function createReadStore(
  session: Session,
): Sync<Omit<ReadStore, 'handlers' | 'range' | 'survey' | 'reruns' | 'sample' | 'samples'>> {
  const { db } = session;
  const receipt = createByTime(db);
  const counters = db.prepare<[], { name: string; value: number }>('select name, value from counters');
  const newest = db.prepare<[], { seq: number | null; cursor: string | null }>(`
    select (select max(seq) from events) as seq,
      cast((select max(cursor) from events where cursor is not null and conflicting = 0) as text) as cursor`);
  const oldestOf = (which: string) => {
    const waiting = `from tasks where id >= +? and ${which} and rerun = 0 order by id`;
    return {
      any: db.prepare<unknown[], number>(`select id ${waiting} limit 1`).pluck(),
      proved: db
        .prepare<unknown[], number>(`
        select e.received_at from (select * ${waiting} limit ${WAITING}) w join events e on e.seq = w.event
        where w.strict = 0 or w.cursor <= +? order by w.id limit 1`)
        .pluck(),
    };
  };
  const oldest = { few: oldestOf(`id in (${idsOf.ready})`), many: oldestOf(`state = 'ready'`) };
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
  const eventList = db.prepare<unknown[], ShownEvent>(`
    ${shown} where e.seq < @before and e.seq > @from and (@type is null or e.type = @type)
      and (@contradicted is null or exists (select 1 from conflicts c where c.seq = e.seq))
      and (@session is null or e.session_id = @session) and (@origin is null or e.origin = @origin)
      and (@state is null and @handler is null or exists (
        select 1 from tasks t left join lanes l on l.id = t.lane
        where t.id between e.seq * ${HANDLERS} and e.seq * ${HANDLERS} + ${HANDLERS - 1} and (@state is null or ${IN_STATE})
          and (@handler is null or t.handler = (select id from handlers where name = @handler))))
      and (@compact is null or instr(e.body, @compact) or instr(e.body, @spaced))
    order by e.seq desc limit @limit`);
  const named = db.prepare<unknown[], ShownEvent>(`
    ${shown} where (e.cursor = @cursor and e.cursor is not null and e.conflicting = 0) or e.id = @id and e.seq in (
        select event from latest_ids where id = @id
        union all select event from ids where segment in (select segment from id_segments) and id = @id)
      or e.seq in (select seq from aliases where name in ('c:' || @cursor, 'i:' || @id)) order by e.conflicting limit 1`);
  const body = db.prepare<unknown[], Uint8Array | null>('select body from events where seq = ?').pluck();
  const aliases = db.prepare<unknown[], string>('select name from aliases where seq = ?').pluck();
  const sightings = db.prepare<unknown[], { origin: Origin; at: number }>(
    'select origin, seen_at as at from seen_by_origin where event = ? order by seen_at',
  );
  // Weeks begin on Monday: day 4 after 1970-01-01 was one.
  const arrivals = db.prepare<[], Omit<Arrivals, 'week'> & { week: number }>(`
    select day - (day + 3) % 7 as week, type, origin, sum(events) as events,
      case when sum(aged) > 0 then sum(late_ms) / sum(aged) end as lateMs,
      case when sum(aged) > 0 then max(latest_ms) end as latestMs
    from arrivals group by 1, type, origin order by 1 desc, type, origin`);
  const deliveries = db.prepare<unknown[], { at: number; secret: number | null; skewSeconds: number | null }>(`
    select 0 as n, received_at as at, secret, skew_s as skewSeconds from events where seq = @seq and origin = 'webhook'
    union all select n, received_at, secret, skew_s from redeliveries where event = @seq order by n`);
  const attempts = db.prepare<unknown[], Omit<ShownAttempt, 'startedAt' | 'endedAt'> & { from: number; to: number }>(`
    select task, attempt, started_at as "from", ended_at as "to", state, error from attempts
    where task between @seq * ${HANDLERS} and @seq * ${HANDLERS} + ${HANDLERS - 1} order by started_at, attempt`);
  const conflicts = db.prepare<unknown[], Omit<ShownConflict, 'at'> & { at: number }>(`
    select received_at as at, origin, event_id as id, cast(cursor as text) as cursor, reason from conflicts
    where seq = ? order by received_at, id limit ${CONFLICTS}`);
  const lastContradicted = db.prepare<unknown[], number | null>('select max(seq) from conflicts where seq < ?').pluck();
  const contradictions = db.prepare<unknown[], { at: number; body: Uint8Array }>(
    `select received_at as at, body from conflicts where seq = ? order by received_at, id limit ${CONFLICTS}`,
  );
  const task = `
    select t.id, ${EVENT_KEY}, e.type, e.session_id as sessionId, h.name as handler, l.name as lane, ${STATE} as state, coalesce(c.attempt, t.attempts) as attempts,
      coalesce(c.late, t.late) as late, t.due_at, coalesce(c.started_at, t.started_at) as started_at,
      t.changed_at, t.error, ${HELD} as held
    from tasks t join events e on e.seq = t.event join handlers h on h.id = t.handler left join lanes l on l.id = t.lane
      left join claims c on c.task = t.id`;
  const ofEvent = db.prepare<unknown[], TaskRow>(
    `${task} where t.id between @seq * ${HANDLERS} and @seq * ${HANDLERS} + ${HANDLERS - 1} order by t.id`,
  );
  /** The newest ids of one kind, at most as many as one page looks at. */
  const lookedAt = (ids: string): string =>
    `select id from (${ids}) where id < @before order by id desc limit ${STRETCH}`;
  const listOf = (ids: string) => ({
    page: db.prepare<unknown[], TaskRow>(
      `${task} where t.id in (${lookedAt(ids)}) and ${MATCHING} order by t.id desc limit @limit`,
    ),
    /** The last row that was looked at, if there may be more. */
    last: db.prepare<unknown[], number>(`${lookedAt(ids)} offset ${STRETCH - 1}`).pluck(),
  });
  const lists = {
    ready: listOf(idsOf.ready),
    running: listOf(idsOf.running),
    dead: listOf(idsOf.dead),
    skipped: listOf(idsOf.skipped),
    group: listOf(idsOf.group),
    any: listOf('select id from tasks'),
  };
  /** Searches the nearest events, because done tasks have no index by lane: it would make every event cost more. */
  const near = (side: '<' | '>', order: 'desc' | 'asc') =>
    db.prepare<unknown[], TaskRow>(`
    ${task} where t.lane = @lane and t.id in (
      select seq * ${HANDLERS} + @handler from (
        select seq from events where cursor ${side} @cursor and conflicting = 0 order by cursor ${order} limit ${NEAR}))
    order by t.cursor ${order} limit 3`);
  const [earlier, later] = [near('<', 'desc'), near('>', 'asc')];
  const place = db
    .prepare<unknown[], { lane: bigint | null; handler: bigint; cursor: bigint | null }>(
      'select lane, handler, cursor from tasks where id = ?',
    )
    .safeIntegers();
  const groups = db.prepare<
    unknown[],
    Omit<DeadGroup, 'firstAt' | 'lastAt' | 'pattern'> & { first: number; last: number }
  >(`
    select c.id, h.name as handler, c.dead, c.first_at as "first", c.last_at as "last", t.id as task,
      ${EVENT_KEY}, t.error
    from dead_groups c join handlers h on h.id = c.handler
      join tasks t on t.id = (select max(id) from tasks where dead_group = c.id and state = 'dead') join events e on e.seq = t.event
    where (@handler is null or h.name = @handler) and (@id is null or c.id = @id) order by c.dead desc limit @limit`);
  const deadOf = db
    .prepare<unknown[], number>(`
    select coalesce(sum(dead), 0) from dead_groups
    where (@handler is null or handler = (select id from handlers where name = @handler)) and (@id is null or id = @id)`)
    .pluck();
  const aside = 'select id, received_at, origin, cast(cursor as text) as cursor, reason, length(body) as bytes';
  const quarantine = db.prepare<unknown[], AsideRow>(`${aside} from quarantine order by id desc limit ?`);
  const quarantined = db.prepare<unknown[], AsideRow & { body: Uint8Array }>(
    `${aside}, body from quarantine where id = ?`,
  );
  const waits = `lane = hop.lane and state = 'ready' and alone = 0`;
  // The query skips from lane to lane in an index, so a long backlog costs no more than a short one.
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

  /** When the event of the oldest waiting task was received. Tasks before the stored id have ended. */
  function oldestReady(ready: number): number | null {
    const from = Number(session.state('oldest'));
    const { any, proved } = ready < FEW ? oldest.few : oldest.many;
    const found = any.get(from);
    if (found === undefined) return null;
    if (found > from + FAR) remember(from, found);
    // Tasks that wait for the watermark count as held.
    return proved.get(found, BigInt(session.cursorState('watermark') ?? -1)) ?? null;
  }

  function remember(before: number, id: number): void {
    try {
      session.write(() => {
        // A retry may have moved the oldest task back meanwhile.
        if (Number(session.state('oldest')) === before) session.setState('oldest', id);
      });
    } catch {
      // The store is locked now; the next look searches a little further.
    }
  }

  return {
    status(now) {
      const n = counterMap();
      const at = (name: string): number => n[name] ?? 0;
      const { seq, cursor } = newest.get() ?? { seq: null, cursor: null };
      const ready = at('tasks.ready');
      const held = Math.min(ready, Number(session.state('held')));
      const waiting = ready > held ? oldestReady(ready) : null;
      const up = new Set(
        processes.all().flatMap(({ role, beat_at }) => (Math.abs(now - beat_at) < BEAT_MS ? [role] : [])),
      );
      const isUp = (role: string): 'up' | 'down' => (up.has(role) ? 'up' : 'down');
      const replay = JSON.parse(
        String(session.state('replay') ?? '{"state":"off","since":null,"lastAt":null,"reason":null,"progress":null}'),
      ) as ReplayState;
      const { failureRun, failures, signers } = keptHealthOf(session);
      const { lastGoodAt, ...bad } = failures;
      return {
        events: at('events'),
        unassigned: Math.max(0, (seq ?? 0) - Number(session.state('fanned_out'))),
        undecided: at('undecided'),
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
        watermark: session.cursorState('watermark'),
        floor: (session.floor()?.toString() ?? null) as Cursor | null,
        newestCursor: cursor === null ? null : (parseCursor(cursor) ?? null),
        reconcile: { ...replay, recovered: at('recovered') },
        stream: JSON.parse(
          String(session.state('stream') ?? '{"state":"off","since":null,"reason":null}'),
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
    events({ type, session: sessionId, state, contradicted, origin, handler, since, until, q, before, limit }, now) {
      const row = q === undefined || before !== undefined ? undefined : named.get(nameOf(q));
      if (row) return { events: [row], next: null };
      const last = until === undefined ? (newest.get()?.seq ?? 0) : receipt.lastBefore(until);
      const upper = Math.min(before ?? Infinity, last + 1);
      // Begins at the newest contradicted event, which may be far from the newest event.
      const top = contradicted ? (lastContradicted.get(upper) ?? 0) + 1 : upper;
      const floor = since === undefined ? 0 : receipt.lastBefore(since);
      const from = Math.max(floor, top - 1 - (q === undefined ? STRETCH : SEARCHED));
      const given = {
        type: type ?? null,
        session: sessionId ?? null,
        origin: origin ?? null,
        handler: handler ?? null,
        contradicted: contradicted ? 1 : null,
      };
      const match = { ...inState(state), ...given, ...messageId(q), now };
      const begun = performance.now();
      const events: ShownEvent[] = [];
      for (let at = top; ;) {
        const down = Math.max(from, at - 1 - LOOK);
        const found = eventList.all({ ...match, before: at, from: down, limit: limit - events.length });
        events.push(...found);
        if (events.length === limit) return { events, next: events.at(-1)?.seq ?? null };
        at = down + 1;
        if (down <= floor) return { events, next: null };
        if (down <= from || performance.now() - begun > LOOK_MS) return { events, next: at };
      }
    },
    event(name, now) {
      const row = named.get(nameOf(name));
      if (!row) return undefined;
      return {
        event: row,
        sightings: sightings.all(row.seq).map(({ origin, at }) => ({ origin, at: isoOf(at) })),
        deliveries: deliveries.all({ seq: row.seq }).map(({ at, secret, skewSeconds }) => {
          return { at: isoOf(at), secret, skewSeconds };
        }),
        aliases: aliases.all(row.seq),
        conflicts: conflicts.all(row.seq).map((one) => ({ ...one, at: isoOf(one.at) })),
        tasks: ofEvent.all({ seq: row.seq, now }).map(toTask),
        attempts: attempts.all({ seq: row.seq }).map(({ from, to, ...attempt }) => {
          return { ...attempt, startedAt: isoOf(from), endedAt: isoOf(to) };
        }),
      };
    },
    contradictions: (name) =>
      contradictions
        .all(named.get(nameOf(name))?.seq ?? null)
        .map(({ at, body: bytes }) => ({ at: isoOf(at), body: bytes })),
    body: (name) => body.get(named.get(nameOf(name))?.seq ?? null) ?? null,
    neighbours(id, now) {
      const at = place.get(id);
      if (!at || at.lane === null || at.cursor === null) return { earlier: [], later: [] };
      const match = { ...at, now };
      return { earlier: earlier.all(match).map(toTask).toReversed(), later: later.all(match).map(toTask) };
    },
    groups({ handler, id, limit }) {
      const match = { handler: handler ?? null, id: id ?? null, limit };
      const rows = groups.all(match).map(({ first, last, ...group }) => {
        return { ...group, firstAt: isoOf(first), lastAt: isoOf(last), pattern: patternOf(group.error ?? '') };
      });
      return { dead: deadOf.get(match) ?? 0, groups: rows };
    },
    tasks({ ids, state, handler, group, before, limit = 50 }, now) {
      const match = matchOf({ ids, state, handler, group }, now);
      const kind = match.state === null || match.state === 'done' ? 'any' : match.state;
      const { page, last } = lists[group === undefined ? kind : 'group'];
      const from = { ...match, before: before ?? Number.MAX_SAFE_INTEGER };
      const rows = page.all({ ...from, limit });
      const full = rows.length === limit;
      return { tasks: rows.map(toTask), next: (full ? rows.at(-1)?.id : last.get(from)) ?? null };
    },
    quarantine: (limit) => quarantine.all(limit).map(toQuarantined),
    quarantined(id) {
      const row = quarantined.get(id);
      return row && toQuarantined(row);
    },
    waitingLanes: (limit) =>
      crowded.all(limit).map(({ handler, lane, waiting, ...head }) => {
        const more = waiting > IN_LANE;
        const { key, attempts: tries, error } = head;
        return { handler, lane, waiting: Math.min(waiting, IN_LANE), more, head: { key, attempts: tries, error } };
      }),
    gaps: () =>
      gapList.all().map(({ opened_at, closed_at, upTo, ...gap }) => {
        return { ...gap, upTo, openedAt: isoOf(opened_at), closedAt: closed_at === null ? null : isoOf(closed_at) };
      }),
    arrivals: () => arrivals.all().map((sum) => ({ ...sum, week: isoOf(sum.week * 86_400_000).slice(0, 10) })),
    counters: counterMap,
  };
}

/** State that the main process writes and reads again when it starts. */
export function keptHealthOf(session: Session): KeptHealth {
  const read = (name: StateKey): unknown => JSON.parse(String(session.state(name)));
  return {
    failureRun: Number(session.state('failure_run')),
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

/** The names that people use for an event: its key (`c:…`, `i:…`), its cursor or its id. */
function nameOf(text: string): { cursor: bigint | null; id: string | null } {
  const cursor = parseCursor(text.startsWith('c:') ? text.slice(2) : text);
  const id = text.startsWith('i:') ? text.slice(2) : text.startsWith('c:') ? null : text;
  return { cursor: cursor === undefined ? null : BigInt(cursor), id };
}

/** The two usual ways to write a `message_id` in JSON: without a space after the colon, and with one. */
function messageId(q: string | undefined): { compact: Uint8Array | null; spaced: Uint8Array | null } {
  if (q === undefined) return { compact: null, spaced: null };
  const [compact, spaced] = ['', ' '].map((space) => Buffer.from(`"message_id":${space}${JSON.stringify(q)}`));
  return { compact: compact ?? null, spaced: spaced ?? null };
}

function toQuarantined<Row extends AsideRow>({ received_at: at, ...row }: Row): Omit<Row, 'received_at'> & Quarantined {
  return { ...row, receivedAt: isoOf(at) };
}

function toTask({ held, state, late, due_at, started_at, changed_at, ...task }: TaskRow): ShownTask {
  return {
    ...task,
    state: held ? 'held' : state,
    late: late === 1,
    dueAt: isoOf(due_at),
    startedAt: task.attempts === 0 ? null : isoOf(started_at),
    finishedAt: state === 'ready' || state === 'running' ? null : isoOf(changed_at),
  };
}
