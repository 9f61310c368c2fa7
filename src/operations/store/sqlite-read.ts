// What people read: lists of events, tasks and quarantine, each in steps that leave time to others.
import { setImmediate } from 'node:timers/promises';
import type { Clock } from '../../base/clock.ts';
import type { Origin } from '../../wire/event.ts';
import type { Cause, EventFilter, EventLine, QuarantineLine, Facts, Sample, TaskFilter, TaskLine } from './shapes.ts';
import { STATES } from '../../store/sqlite/counters.ts';
import type { Db } from '../../store/sqlite/database.ts';
import { NEVER } from '../../store/sqlite/lanes.ts';
import { ORIGINS, originOf } from '../../store/sqlite/rows.ts';
import { createFacts } from './sqlite-facts.ts';

/** At most so many tasks of a handler are grouped by cause. */
const CAUSES = 10_000;
/** Events that one statement of a search passes. */
const STRETCH = 10_000;
const KEY = `case when e.cursor is null then 'i:' || e.id else 'c:' || e.cursor end`;
const LINE = `e.seq, ${KEY} as key, e.id, cast(e.cursor as text) as cursor, e.type, e.session, e.created_at as createdAt,
  e.received_at as receivedAt, e.origin, e.origins, e.deliveries, e.body is null as erased,
  (select json_group_object(h.name, t.state) from tasks t join handlers h on h.id = t.handler where t.event = e.seq) as outcomes`;
const TASK = `h.name as handler, t.event, ${KEY} as key, e.type, t.state, t.attempts, t.crashes / 4.0 as crashes, t.failed_at as failedAt,
  t.ended_at as endedAt, t.late, t.error, case when t.state = 0 and t.due_at < ${NEVER} then t.due_at end as dueAt,
  t.state = 0 and coalesce(t.cursor <= l.claimed_to, 0) as running`;
const TASKS = `tasks t join handlers h on h.id = t.handler join events e on e.seq = t.event left join lanes l on l.id = t.lane`;

type Numbers = Record<'origin' | 'origins' | 'erased', number>;
type EventRow = Omit<EventLine, keyof Numbers | 'outcomes'> & Numbers & { outcomes: string };
type TaskRow = Omit<TaskLine, 'state' | 'running' | 'late'> & { state: number; running: number; late: number };

type CauseRow = Omit<Cause, 'handler' | 'state'>;

type Statement<Row> = ReturnType<typeof Db.prototype.sql<Row>>;

const toLine = ({ origin, origins, erased, outcomes, ...row }: EventRow): EventLine => {
  const all = (Object.keys(ORIGINS) as Origin[]).filter((name) => (origins & ORIGINS[name]) > 0);
  const states = Object.entries(JSON.parse(outcomes) as Record<string, number>);
  const named = Object.fromEntries(states.map(([name, at]) => [name, STATES[at] ?? 'waiting'] as const));
  return { ...row, origin: originOf(origin), origins: all, erased: erased === 1, outcomes: named };
};

/** The newest tasks by the first line of their error. */
const causesOf = (which: string): string => `select substr(error, 1, instr(error || char(10), char(10)) - 1) as error,
  count(*) as tasks, max(coalesce(ended_at, failed_at)) as newestAt
  from (select error, ended_at, failed_at from tasks where handler = ? and ${which} desc limit ${CAUSES})
  where error is not null group by 1`;

const tasksIn = (
  order: 'asc' | 'desc',
): string => `select ${TASK} from ${TASKS} where t.event >= @from and t.event < @to
  and (@handler is null or h.name = @handler) and (@state is null or t.state = @state)
  and (@type is null or e.type = @type) and (@session is null or e.session = @session)
  and (@error is null or instr(t.error, @error) = 1) order by t.event ${order}, h.name limit @limit`;

const statements = (db: Db) => ({
  handlers: db.sql<{ id: number; name: string }>('select id, name from handlers order by name'),
  oldest: db.value<number>('select seq from events order by seq limit 1'),
  oldestWaiting: db.value<number | null>('select min(event) from tasks indexed by tasks_in_lane where state = 0'),
  newest: db.sql<{ seq: number; at: number }>('select seq, received_at as at from events order by seq desc limit 1'),
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
  tasks: db.sql<TaskRow>(tasksIn('desc')),
  waiting: db.sql<TaskRow>(tasksIn('asc')),
  failures: db.sql<CauseRow>(causesOf('state = 0 and failed_at is not null order by failed_at')),
  deaths: db.sql<CauseRow>(causesOf('state = 3 order by cursor')),
  samples: db.sql<Sample & { at: number }>('select * from samples where at >= ? order by at'),
  attempts: db.sql<{ n: number; at: number; error: string | null }>(`select n, at, error from attempts
    where event = ? and handler = (select id from handlers where name = ?) order by n`),
  quarantine: db.sql<
    Omit<QuarantineLine, 'origin'> & { origin: number }
  >(`select id, reason, received_at as receivedAt, origin,
    cast(cursor as text) as cursor, event, copies, coalesce(octet_length(body), 0) as bytes from quarantine order by id desc limit ?`),
  quarantined: db.value<Buffer>('select body from quarantine where id = ?'),
});

export class Read {
  readonly #db: Db;
  readonly facts: () => Promise<Facts>;
  readonly #sql: ReturnType<typeof statements>;

  constructor(db: Db, clock: Clock) {
    this.#db = db;
    this.facts = createFacts(db, clock);
    this.#sql = statements(db);
  }

  async events({ outcome, before, ...filter }: EventFilter): Promise<EventLine[]> {
    const given = { type: null, session: null, sender: null, text: null, since: null, until: null };
    const state = outcome === undefined ? null : STATES.indexOf(outcome);
    const rows = await this.#search(this.#sql.events, { ...given, ...defined(filter), state }, filter.limit, before);
    return rows.map(toLine);
  }

  /**
   * A stretch at a time, the newest first, or `up` from the oldest that waits: a rare one may be behind millions of
   * others, and the process must stay awake.
   */
  async #search<Row>(sql: Statement<Row>, filter: object, limit: number, before?: number, up = false): Promise<Row[]> {
    const rows: Row[] = [];
    const first = up ? this.#sql.oldestWaiting : this.#sql.oldest;
    const oldest = (await this.#db.query(() => first.get())) ?? Infinity;
    const end = before ?? (await this.#db.query(() => this.#sql.newest.get()?.seq ?? 0)) + 1;
    for (let passed = 0; passed < end - oldest && rows.length < limit; passed += STRETCH) {
      const from = up ? oldest + passed : end - passed - STRETCH;
      const stretch = { ...filter, from, to: from + STRETCH, limit: limit - rows.length };
      rows.push(...(await this.#db.query(() => sql.all(stretch))));
      await setImmediate();
    }
    return rows;
  }

  /** By key, id or cursor. */
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

  /** Waiting ones oldest first, others newest first. */
  async tasks({ event, state, ...filter }: TaskFilter): Promise<TaskLine[]> {
    const found = event === undefined ? undefined : await this.event(event);
    if (found === null) return [];
    const given = { handler: null, type: null, session: null, error: null };
    const asked = { ...given, ...defined(filter), state: state === undefined ? null : STATES.indexOf(state) };
    const up = state === 'waiting';
    const rows = found
      ? await this.#db.query(() => this.#sql.tasks.all({ ...asked, from: found.seq, to: found.seq + 1 }))
      : await this.#search(up ? this.#sql.waiting : this.#sql.tasks, asked, filter.limit, undefined, up);
    return rows.map(({ state: at, running, late, ...row }) => ({
      ...row,
      state: STATES[at] ?? 'waiting',
      running: running === 1,
      late: late === 1,
    }));
  }

  /** Of failing tasks and dead letters, the most frequent first. */
  causes({ handler, state, limit }: Pick<TaskFilter, 'handler' | 'state' | 'limit'>): Promise<Cause[]> {
    const of = (name: 'waiting' | 'dead', id: number, rows: Statement<CauseRow>) =>
      state === undefined || state === name ? rows.all(id).map((row) => ({ state: name, ...row })) : [];
    return this.#db.query(() =>
      this.#sql.handlers
        .all()
        .filter(({ name }) => handler === undefined || name === handler)
        .flatMap(({ id, name }) =>
          [...of('waiting', id, this.#sql.failures), ...of('dead', id, this.#sql.deaths)].map((row) => ({
            handler: name,
            ...row,
          })),
        )
        .toSorted((a, b) => b.tasks - a.tasks)
        .slice(0, limit),
    );
  }

  /** Oldest first. */
  samples(since: number): Promise<(Sample & { at: number })[]> {
    return this.#db.query(() => this.#sql.samples.all(since));
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
}

const defined = (filter: object): object =>
  Object.fromEntries(Object.entries(filter).filter(([, value]) => value !== undefined));
