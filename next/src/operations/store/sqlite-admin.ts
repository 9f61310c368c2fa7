// What people change, and what `keep` does: every change of a waiting task touches its lane.
import type { Clock } from '../../base/clock.ts';
import type { AdminStore, Rerun, Sample } from './admin.ts';
import type { Alarm, TaskFilter } from './read.ts';
import { createCounters, STATES } from '../../store/sqlite/counters.ts';
import { BLOCKING_MS, type Db } from '../../store/sqlite/database.ts';
import type { Lanes } from '../../store/sqlite/lanes.ts';
import { Pruning } from './sqlite-prune.ts';
import type { State } from '../../store/sqlite/state.ts';

const PAGE = 500;
const HIGHEST = '9223372036854775807';
/** A checkpoint that restarts the log waits this long for writers and readers. */
const CHECKPOINT_MS = 100;
const WEEK_MS = 7 * 86_400_000;

const statements = (db: Db) => ({
  pause: db.sql('update handlers set paused = ? where name = ?'),
  handler: db.sql<{ id: number; state: string }>('select id, state from handlers where name = ?'),
  waiting: db.sql<{ event: number; handler: number; lane: number }>(`select t.event, t.handler, t.lane from tasks t
    join handlers h on h.id = t.handler join events e on e.seq = t.event where t.state = 0
    and (@handler is null or h.name = @handler) and (@seq is null or t.event = @seq)
    and (@type is null or e.type = @type) and (@session is null or e.session = @session)
    and (@error is null or t.error like @error || '%') limit ${PAGE}`),
  skip: db.sql(
    "update tasks set state = 2, ended_at = ?, error = 'discarded' where event = ? and handler = ? and state = 0",
  ),
  task: db.sql<{ lane: number; state: number }>('select lane, state from tasks where event = ? and handler = ?'),
  again: db.sql(`update tasks set state = 0, due_at = @now, failed_at = null, attempts = 0, crashes = 0, error = null,
    ended_at = null, rerun = max(rerun, state > 0) where event = @event and handler = @handler`),
  addRerun:
    db.value<number>(`insert into reruns (handler, only, filter, after_cursor, until_cursor, until_seq, per_minute, next_at, asked_at)
    select id, @only, @filter, cast(@after as integer), cast(@until as integer), (select coalesce(max(seq), 0) from events),
      @perMinute, @now, @now from handlers where name = @handler returning id`),
  alarms: db.sql<Alarm>('select name, about, level, text from alarms'),
  raise: db.sql(`insert into alarms (name, about, level, text, raised_at) values (@name, @about, @level, @text, @now)
    on conflict (name, about) do update set level = excluded.level, text = excluded.text`),
  clear: db.sql('delete from alarms where name = ? and about = ?'),
  sample: db.sql(`insert into samples values (@at, @events, @duplicates, @refused, @done, @failed, @waiting, @dead)
    on conflict (at) do nothing`),
  oldSamples: db.sql('delete from samples where at < ?'),
});

const OF_HANDLER = [
  'tasks where handler = ?',
  'lanes where handler = ?',
  'attempts where handler = ?',
  'reruns where handler = ?',
];

export class Admin implements AdminStore {
  readonly #db: Db;
  readonly #state: State;
  readonly #lanes: Lanes;
  readonly #clock: Clock;
  readonly #sql: ReturnType<typeof statements>;
  readonly #counters: ReturnType<typeof createCounters>;
  readonly #pruning: Pruning;

  constructor(db: Db, state: State, lanes: Lanes, clock: Clock) {
    this.#db = db;
    this.#state = state;
    this.#lanes = lanes;
    this.#clock = clock;
    this.#sql = statements(db);
    this.#counters = createCounters(db);
    this.#pruning = new Pruning(db, state);
  }

  pause(handler: string, paused: boolean): Promise<boolean> {
    return this.#db.write(() => this.#sql.pause.run(Number(paused), handler).changes > 0);
  }

  async forget(handler: string): Promise<'forgotten' | 'loaded' | 'unknown'> {
    const row = await this.#db.query(() => this.#sql.handler.get(handler));
    if (!row) return 'unknown';
    if (row.state === 'loaded') return 'loaded';
    while ((await this.discard({ handler, limit: PAGE })) > 0);
    await this.#db.write(() => {
      for (const what of OF_HANDLER) this.#db.sql(`delete from ${what}`).run(row.id);
      this.#db.sql('delete from setup_steps where handler = ?').run(handler);
      this.#db.sql('delete from handlers where id = ?').run(row.id);
    });
    return 'forgotten';
  }

  discard({
    handler = null,
    type = null,
    session = null,
    error = null,
    event,
  }: { [Name in keyof TaskFilter]: TaskFilter[Name] | null }): Promise<number> {
    return this.#db.write(() => {
      const now = this.#clock.now();
      const counts = this.#counters();
      const tasks = this.#sql.waiting.all({ handler, type, session, error, seq: event ? Number(event) : null });
      for (const task of tasks) {
        this.#sql.skip.run(now, task.event, task.handler);
        counts.add(task.handler, 'waiting', -1);
        counts.add(task.handler, 'skipped', 1);
      }
      for (const lane of new Set(tasks.map((task) => task.lane))) this.#lanes.touch(lane);
      counts.write();
      return tasks.length;
    });
  }

  retry(name: string, event: number): Promise<boolean> {
    return this.#db.write(() => {
      const now = this.#clock.now();
      const { id: handler = 0 } = this.#sql.handler.get(name) ?? {};
      const task = this.#sql.task.get(event, handler);
      const was = task && STATES[task.state];
      if (!task || !was || was === 'done') return false;
      this.#sql.again.run({ event, handler, now });
      const counts = this.#counters();
      counts.add(handler, was, -1);
      counts.add(handler, 'waiting', 1);
      counts.write();
      if (!this.#lanes.place(task.lane, handler, now)) this.#lanes.touch(task.lane);
      return true;
    });
  }

  rerun({ from, to, filter, ...rest }: Rerun): Promise<number | null> {
    // Events without a cursor come first, as -1; a range of cursors leaves them out.
    const after = from === null ? '-1' : String(BigInt(from) - 1n);
    const row = { ...rest, filter: JSON.stringify(filter), after, until: to ?? HIGHEST, now: this.#clock.now() };
    return this.#db.write(() => this.#sql.addRerun.get(row) ?? null);
  }

  tell(name: string, value: unknown): Promise<void> {
    return this.#db.write(() => this.#state.set(name, value));
  }

  alarms(list: Alarm[]): Promise<{ raised: Alarm[]; cleared: Alarm[] }> {
    return this.#db.write(() => {
      const known = this.#sql.alarms.all();
      const isIn = (all: Alarm[], { name, about }: Alarm): boolean =>
        all.some((one) => one.name === name && one.about === about);
      const cleared = known.filter((one) => !isIn(list, one));
      for (const { name, about } of cleared) this.#sql.clear.run(name, about);
      for (const alarm of list) this.#sql.raise.run({ ...alarm, now: this.#clock.now() });
      return { raised: list.filter((one) => !isIn(known, one)), cleared };
    });
  }

  sample(sample: Sample): Promise<void> {
    return this.#db.write(() => {
      const at = Math.floor(this.#clock.now() / 60_000) * 60_000;
      this.#sql.sample.run({ ...sample, at });
      this.#sql.oldSamples.run(at - WEEK_MS);
    });
  }

  prune(before: number): Promise<number> {
    return this.#db.write(() => this.#pruning.page(before));
  }

  checkpoint(how: 'passive' | 'restart' | 'truncate'): Promise<boolean> {
    return this.#db.query(() => {
      this.#db.raw.pragma(`busy_timeout = ${CHECKPOINT_MS}`);
      const [result] = this.#db.raw.pragma(`wal_checkpoint(${how})`) as { busy: number }[];
      this.#db.raw.pragma(`busy_timeout = ${BLOCKING_MS}`);
      return result?.busy === 0;
    });
  }
}
