// One snapshot of facts, by index only, so that it is cheap with any number of rows.
import type { Clock } from '../../base/clock.ts';
import type { Cursor } from '../../wire/cursor.ts';
import type { Facts, HandlerFacts } from './shapes.ts';
import type { Db } from '../../store/sqlite/database.ts';
import { NEVER } from '../../store/sqlite/lanes.ts';
import { createState } from '../../store/sqlite/state.ts';

/** Failing tasks that are looked at to count their lanes. */
const FAILING = 1_000;
const RECENT = { events: 1_000, ms: 3_600_000 };

type Judged = Pick<HandlerFacts, 'failing' | 'recent' | 'dueSince' | 'heldSince'>;
type HandlerRow = Omit<HandlerFacts, keyof Judged | 'paused'> & { paused: number };

const statements = (db: Db) => ({
  handlers: db.sql<HandlerRow>(
    'select id, name, file, state, fault, position, paused, waiting, done, skipped, dead, failed from handlers order by name',
  ),
  failing: db.sql<{
    lanes: number;
    aside: number;
    since: number | null;
  }>(`select count(distinct max(lane, -1)) as lanes, min(failed_at) as since
    from (select lane, failed_at from tasks where handler = ? and state = 0 and failed_at is not null
      order by failed_at limit ${FAILING})`),
  recent: db.sql<HandlerFacts['recent']>(`select count(*) as ended, coalesce(sum(state = 3), 0) as dead
    from tasks where event > ? - ${RECENT.events} and handler = ? and ended_at > ?`),
  due: db.value<number | null>(`select min(due_at) from (
    select * from (select due_at from lanes where handler = @id and suspect = 0 and due_at is not null order by due_at limit 1)
    union all select * from (select due_at from lanes where handler = @id and suspect = 1 and due_at is not null order by due_at limit 1))`),
  held: db.value<number>(`select e.received_at from tasks t join events e on e.seq = t.event
    where t.handler = ? and t.state = 0 and t.due_at = ${NEVER} order by t.cursor limit 1`),
  receipt: db.value<number>('select received_at from events where seq > ? order by seq limit 1'),
  state: db.sql<{ name: string; value: string | number; counts: 0 | 1 }>(
    "select name, value, typeof(value) = 'integer' as counts from state where name not in ('watermark', 'floor', 'beginning', 'lane_key')",
  ),
  newest: db.sql<{ seq: number; at: number }>('select seq, received_at as at from events order by seq desc limit 1'),
  newestCursor: db.value<Cursor | null>(
    'select cast(cursor as text) from events where cursor is not null order by cursor desc limit 1',
  ),
  running: db.value<number>(`select count(*) from lanes l cross join tasks t on t.lane = l.id and t.state = 0
    and t.cursor <= l.claimed_to where l.boot is not null`),
  gaps: db.value<number>('select count(*) from gaps where closed_at is null'),
  alarms: db.sql<Facts['alarms'][number]>(
    'select name, about, level, text, raised_at as raisedAt, posted_at as postedAt from alarms order by raised_at',
  ),
  conflict: db.value<number | null>("select max(received_at) from quarantine where reason = 'conflict'"),
  reruns: db.sql<Facts['reruns'][number]>(`select h.name as handler, r.tasks, r.asked_at as askedAt
    from reruns r join handlers h on h.id = r.handler where r.ended_at is null`),
});

export function createFacts(db: Db, clock: Clock): () => Promise<Facts> {
  const sql = statements(db);
  const state = createState(db);

  function handlerOf(row: HandlerRow, at: number): HandlerFacts {
    const { lanes = 0, since = null } = sql.failing.get(row.id) ?? {};
    const due = sql.due.get({ id: row.id }) ?? null;
    const times = [due, since, sql.receipt.get(row.position) ?? null].filter((time) => time !== null && time <= at);
    const dueSince = times.length > 0 ? Math.min(...times.map(Number)) : null;
    const failing = since === null ? null : { lanes, since };
    const recent = sql.recent.get(row.position, row.id, at - RECENT.ms) ?? { ended: 0, dead: 0 };
    return { ...row, paused: row.paused === 1, failing, recent, dueSince, heldSince: sql.held.get(row.id) ?? null };
  }

  return () =>
    db.read(() => {
      const at = clock.now();
      const rows = sql.state.all();
      const counters = Object.fromEntries(
        rows.flatMap(({ name, value, counts }) => (counts ? [[name, Number(value)]] : [])),
      );
      const told = Object.fromEntries(
        rows.flatMap(({ name, value, counts }) => (counts ? [] : [[name, parsed(value)]])),
      );
      const { seq = 0, at: newestAt = null } = sql.newest.get() ?? {};
      return {
        at,
        counters,
        state: told,
        watermark: state.cursor('watermark'),
        floor: state.cursor('floor'),
        newestCursor: sql.newestCursor.get() ?? null,
        newestAt,
        newest: seq,
        handlers: sql.handlers.all().map((row) => handlerOf(row, at)),
        running: sql.running.get() ?? 0,
        gaps: sql.gaps.get() ?? 0,
        alarms: sql.alarms.all(),
        conflictAt: sql.conflict.get() ?? null,
        reruns: sql.reruns.all(),
      };
    });
}

const parsed = (value: string | number): unknown => JSON.parse(String(value)) as unknown;
