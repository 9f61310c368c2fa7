// What people read: lists, and one snapshot of facts, which is by index only.
import { setImmediate } from 'node:timers/promises';
import type { Clock } from '../../base/clock.ts';
import type { Cursor } from '../../wire/cursor.ts';
import type { Origin } from '../../wire/event.ts';
import type {
  EventFilter,
  EventLine,
  Facts,
  HandlerFacts,
  QuarantineLine,
  ReadStore,
  TaskFilter,
  TaskLine,
} from './read.ts';
import { STATES } from '../../store/sqlite/counters.ts';
import type { Db } from '../../store/sqlite/database.ts';
import { NEVER } from '../../store/sqlite/lanes.ts';
import { ORIGINS, originOf } from '../../store/sqlite/rows.ts';
import type { State } from '../../store/sqlite/state.ts';

/** Failing tasks that are looked at to count their lanes. */
const FAILING = 1_000;
/** Events that one statement of a search passes. */
const STRETCH = 10_000;
const KEY = `case when e.cursor is null then 'i:' || e.id else 'c:' || e.cursor end`;
const LINE = `e.seq, ${KEY} as key, e.id, cast(e.cursor as text) as cursor, e.type, e.session, e.created_at as createdAt,
  e.received_at as receivedAt, e.origin, e.origins, e.deliveries, e.body is null as erased`;
const TASK = `h.name as handler, t.event, ${KEY} as key, e.type, t.state, t.attempts, t.crashes, t.failed_at as failedAt,
  t.ended_at as endedAt, t.late, t.error, case when t.due_at < ${NEVER} then t.due_at end as dueAt,
  t.state = 0 and coalesce(t.cursor <= l.claimed_to, 0) as running`;
const TASKS = `tasks t join handlers h on h.id = t.handler join events e on e.seq = t.event left join lanes l on l.id = t.lane`;

type Judged = Pick<HandlerFacts, 'failing' | 'dueSince' | 'heldSince'>;
type EventRow = Omit<EventLine, 'origin' | 'origins' | 'erased'> & { origin: number; origins: number; erased: number };
type TaskRow = Omit<TaskLine, 'state' | 'running' | 'late'> & { state: number; running: number; late: number };

type Statement<Row> = ReturnType<typeof Db.prototype.sql<Row>>;

const toLine = ({ origin, origins, erased, ...row }: EventRow): EventLine => {
  const all = (Object.keys(ORIGINS) as Origin[]).filter((name) => (origins & ORIGINS[name]) > 0);
  return { ...row, origin: originOf(origin), origins: all, erased: erased === 1 };
};

const statements = (db: Db) => ({
  handlers: db.sql<Omit<HandlerFacts, keyof Judged | 'paused'> & { paused: number }>(
    'select id, name, file, state, fault, position, paused, waiting, done, skipped, dead, failed from handlers order by name',
  ),
  failing: db.sql<{
    lanes: number;
    since: number | null;
  }>(`select count(distinct lane) as lanes, min(failed_at) as since
    from (select lane, failed_at from tasks where handler = ? and state = 0 and failed_at is not null
      order by failed_at limit ${FAILING})`),
  due: db.value<number | null>(`select min(due_at) from (
    select * from (select due_at from lanes where handler = @id and suspect = 0 and due_at is not null order by due_at limit 1)
    union all select * from (select due_at from lanes where handler = @id and suspect = 1 and due_at is not null order by due_at limit 1))`),
  held: db.value<number>(`select e.received_at from tasks t join events e on e.seq = t.event
    where t.handler = ? and t.state = 0 and t.due_at = ${NEVER} order by t.cursor limit 1`),
  receipt: db.value<number>('select received_at from events where seq > ? order by seq limit 1'),
  state: db.sql<{ name: string; value: string | number; counts: 0 | 1 }>(
    "select name, value, typeof(value) = 'integer' as counts from state where name not in ('watermark', 'floor', 'beginning', 'lane_key')",
  ),
  oldest: db.value<number>('select seq from events order by seq limit 1'),
  newest: db.sql<{ seq: number; at: number }>('select seq, received_at as at from events order by seq desc limit 1'),
  newestCursor: db.value<Cursor | null>(
    'select cast(cursor as text) from events where cursor is not null order by cursor desc limit 1',
  ),
  running: db.value<number>(`select count(*) from lanes l cross join tasks t on t.lane = l.id and t.state = 0
    and t.cursor <= l.claimed_to where l.boot is not null`),
  gaps: db.value<number>('select count(*) from gaps where closed_at is null'),
  alarms: db.sql<Facts['alarms'][number]>(
    'select name, about, level, text, raised_at as raisedAt from alarms order by raised_at',
  ),
  conflict: db.value<number | null>("select max(received_at) from quarantine where reason = 'conflict'"),
  reruns: db.sql<Facts['reruns'][number]>(`select h.name as handler, r.tasks, r.asked_at as askedAt
    from reruns r join handlers h on h.id = r.handler where r.ended_at is null`),
  events: db.sql<EventRow>(`select ${LINE} from events e where e.seq >= @from and e.seq < @to
    and (@type is null or e.type = @type) and (@session is null or e.session = @session)
    and (@since is null or e.received_at >= @since) and (@until is null or e.received_at <= @until)
    and (@sender is null or instr(e.body, cast('"from":"' || @sender || '"' as blob)) > 0)
    and (@text is null or instr(e.body, cast(@text as blob)) > 0)
    and (@state is null or exists (select 1 from tasks t where t.event = e.seq and t.state = @state))
    order by e.seq desc limit @limit`),
  byId: db.sql<EventRow>(`select ${LINE} from events e where e.id = ?`),
  byCursor: db.sql<EventRow>(`select ${LINE} from events e where e.cursor = cast(? as integer)`),
  body: db.value<string | null>('select cast(body as text) from events where seq = ?'),
  tasks:
    db.sql<TaskRow>(`select ${TASK} from ${TASKS} where t.event >= @from and t.event < @to and (@handler is null or h.name = @handler)
    and (@state is null or t.state = @state) and (@type is null or e.type = @type) and (@session is null or e.session = @session)
    and (@error is null or instr(t.error, @error) = 1) order by t.event desc, h.name limit @limit`),
  attempts: db.sql<{ n: number; at: number; error: string | null }>(`select n, at, error from attempts
    where event = ? and handler = (select id from handlers where name = ?) order by n`),
  quarantine: db.sql<
    Omit<QuarantineLine, 'origin'> & { origin: number }
  >(`select id, reason, received_at as receivedAt, origin,
    cast(cursor as text) as cursor, event, copies, coalesce(octet_length(body), 0) as bytes from quarantine order by id desc limit ?`),
  quarantined: db.value<Buffer>('select body from quarantine where id = ?'),
});

export class Read implements ReadStore {
  readonly #db: Db;
  readonly #state: State;
  readonly #clock: Clock;
  readonly #sql: ReturnType<typeof statements>;

  constructor(db: Db, state: State, clock: Clock) {
    this.#db = db;
    this.#state = state;
    this.#clock = clock;
    this.#sql = statements(db);
  }

  facts(): Promise<Facts> {
    return this.#db.read(() => {
      const at = this.#clock.now();
      const rows = this.#sql.state.all();
      const counters = Object.fromEntries(
        rows.flatMap(({ name, value, counts }) => (counts ? [[name, Number(value)]] : [])),
      );
      const state = Object.fromEntries(
        rows.flatMap(({ name, value, counts }) => (counts ? [] : [[name, parsed(value)]])),
      );
      const { seq = 0, at: newestAt = null } = this.#sql.newest.get() ?? {};
      return {
        at,
        counters,
        state,
        watermark: this.#state.cursor('watermark'),
        floor: this.#state.cursor('floor'),
        newestCursor: this.#sql.newestCursor.get() ?? null,
        newestAt,
        newest: seq,
        handlers: this.#sql.handlers.all().map((row) => this.#handler(row, at)),
        running: this.#sql.running.get() ?? 0,
        gaps: this.#sql.gaps.get() ?? 0,
        alarms: this.#sql.alarms.all(),
        conflictAt: this.#sql.conflict.get() ?? null,
        reruns: this.#sql.reruns.all(),
      };
    });
  }

  async events({ outcome, before, ...filter }: EventFilter): Promise<EventLine[]> {
    const given = { type: null, session: null, sender: null, text: null, since: null, until: null };
    const state = outcome === undefined ? null : STATES.indexOf(outcome);
    const rows = await this.#search(this.#sql.events, { ...given, ...defined(filter), state }, filter.limit, before);
    return rows.map(toLine);
  }

  /** Newest first, a stretch at a time: a rare one may be behind millions of others, and the process must stay awake. */
  async #search<Row>(sql: Statement<Row>, filter: object, limit: number, before?: number): Promise<Row[]> {
    const rows: Row[] = [];
    const oldest = await this.#db.query(() => this.#sql.oldest.get() ?? Infinity);
    let to = before ?? (await this.#db.query(() => this.#sql.newest.get()?.seq ?? 0)) + 1;
    for (; to > oldest && rows.length < limit; to -= STRETCH) {
      const stretch = { ...filter, from: to - STRETCH, to, limit: limit - rows.length };
      rows.push(...(await this.#db.query(() => sql.all(stretch))));
      await setImmediate();
    }
    return rows;
  }

  event(name: string): Promise<EventLine | null> {
    const [, kind, rest = name] = /^([ci]):(.*)$/s.exec(name) ?? [];
    const isCursor = /^\d{1,19}$/.test(rest);
    return this.#db.query(() => {
      const byId = kind === 'c' ? undefined : this.#sql.byId.get(rest);
      const row = byId ?? (isCursor && kind !== 'i' ? this.#sql.byCursor.get(rest) : undefined);
      return row ? toLine(row) : null;
    });
  }

  body(seq: number): Promise<string | null> {
    return this.#db.query(() => this.#sql.body.get(seq) ?? null);
  }

  async tasks({ event, state, ...filter }: TaskFilter): Promise<TaskLine[]> {
    const found = event === undefined ? undefined : await this.event(event);
    if (found === null) return [];
    const given = { handler: null, type: null, session: null, error: null };
    const asked = { ...given, ...defined(filter), state: state === undefined ? null : STATES.indexOf(state) };
    const rows = found
      ? await this.#db.query(() => this.#sql.tasks.all({ ...asked, from: found.seq, to: found.seq + 1 }))
      : await this.#search(this.#sql.tasks, asked, filter.limit);
    return rows.map(({ state: at, running, late, ...row }) => ({
      ...row,
      state: STATES[at] ?? 'waiting',
      running: running === 1,
      late: late === 1,
    }));
  }

  attempts(event: number, handler: string): Promise<{ n: number; at: number; error: string | null }[]> {
    return this.#db.query(() => this.#sql.attempts.all(event, handler));
  }

  quarantine(limit: number): Promise<QuarantineLine[]> {
    return this.#db.query(() =>
      this.#sql.quarantine.all(limit).map((row) => ({ ...row, origin: originOf(row.origin) })),
    );
  }

  quarantined(id: number): Promise<Buffer | null> {
    return this.#db.query(() => this.#sql.quarantined.get(id) ?? null);
  }

  #handler(row: Omit<HandlerFacts, keyof Judged | 'paused'> & { paused: number }, at: number): HandlerFacts {
    const { lanes = 0, since = null } = this.#sql.failing.get(row.id) ?? {};
    const due = this.#sql.due.get({ id: row.id }) ?? null;
    const times = [due, since, this.#sql.receipt.get(row.position) ?? null].filter(
      (time) => time !== null && time <= at,
    );
    const dueSince = times.length > 0 ? Math.min(...times.map(Number)) : null;
    const failing = since === null ? null : { lanes, since };
    return { ...row, paused: row.paused === 1, failing, dueSince, heldSince: this.#sql.held.get(row.id) ?? null };
  }
}

const parsed = (value: string | number): unknown => JSON.parse(String(value)) as unknown;
const defined = (filter: object): object =>
  Object.fromEntries(Object.entries(filter).filter(([, value]) => value !== undefined));
