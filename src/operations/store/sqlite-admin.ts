// What people change, and what `keep` does: every change of a waiting task touches its lane.
import type { Clock } from '../../base/clock.ts';
import type { Alarm, Rerun, Sample, TaskFilter } from './shapes.ts';
import { createErasing } from './sqlite-erase.ts';
import { createWalk } from './walk.ts';
import { createCounters, STATES } from '../../store/sqlite/counters.ts';
import { BLOCKING_MS, type Db } from '../../store/sqlite/database.ts';
import type { Lanes } from '../../store/sqlite/lanes.ts';
import { createPruning } from './sqlite-prune.ts';
import type { State } from '../../store/sqlite/state.ts';

/** A checkpoint that restarts the log waits this long for writers and readers. */
const CHECKPOINT_MS = 100;
/** One page in the log. */
const FRAME_BYTES = 4_096 + 24;

type Wish = { [Name in keyof TaskFilter]?: TaskFilter[Name] | null };
type WaitingRow = { event: number; handler: number };

const statements = (db: Db) => ({
  pause: db.sql('update handlers set paused = ? where name = ?'),
  handler: db.sql<{ id: number; state: string }>('select id, state from handlers where name = ?'),
  waiting: db.sql<WaitingRow>(`select t.event, t.handler from tasks t
    join handlers h on h.id = t.handler join events e on e.seq = t.event where t.state = 0
    and t.event > @from and t.event <= @to and (@handler is null or h.name = @handler)
    and (@type is null or e.type = @type) and (@session is null or e.session = @session)
    and (@error is null or instr(t.error, @error) = 1)`),
  forgetTasks: db.sql<{ state: number }>(
    'delete from tasks where event > ? and event <= ? and handler = ? returning state',
  ),
  forgetAttempts: db.sql('delete from attempts where event > ? and event <= ? and handler = ?'),
  forgetLanes: db.sql('delete from lanes where id > ? and id <= ? and handler = ?'),
  skip: db.value<number>(`update tasks set state = 2, ended_at = ?, error = 'discarded'
    where event = ? and handler = ? and state = 0 returning lane`),
  task: db.sql<{ lane: number; state: number }>('select lane, state from tasks where event = ? and handler = ?'),
  again: db.sql(`update tasks set state = 0, due_at = @now, failed_at = null, attempts = 0, crashes = 0, error = null,
    ended_at = null, rerun = max(rerun, state > 0) where event = @event and handler = @handler`),
  addRerun:
    db.value<number>(`insert into reruns (handler, only, filter, after_cursor, after_seq, until_cursor, until_seq, per_minute, next_at, asked_at)
    select id, @only, @filter, cast(@after as integer), @afterSeq, cast(@until as integer), (select coalesce(max(seq), 0) from events),
      @perMinute, @now, @now from handlers where name = @handler returning id`),
  alarms: db.sql<Alarm>('select name, about, level, text from alarms'),
  raise: db.sql(`insert into alarms (name, about, level, text, raised_at) values (@name, @about, @level, @text, @now)
    on conflict (name, about) do update set level = excluded.level, text = excluded.text`),
  clear: db.sql('delete from alarms where name = ? and about = ?'),
  posted: db.sql('update alarms set posted_at = ? where name = ? and about = ?'),
  sample: db.sql(`insert into samples values (@at, @events, @duplicates, @refused, @done, @failed, @waiting, @dead)
    on conflict (at) do nothing`),
  oldSamples: db.sql('delete from samples where at < ?'),
});

export class Admin {
  readonly prune: ReturnType<typeof createPruning>;
  readonly erase: ReturnType<typeof createErasing>;
  readonly #db: Db;
  readonly #state: State;
  readonly #lanes: Lanes;
  readonly #clock: Clock;
  readonly #sql: ReturnType<typeof statements>;
  readonly #counters: ReturnType<typeof createCounters>;
  readonly #walk: Record<'tasks' | 'attempts' | 'lanes', ReturnType<typeof createWalk>>;

  constructor(db: Db, state: State, lanes: Lanes, clock: Clock) {
    this.#db = db;
    this.#state = state;
    this.#lanes = lanes;
    this.#clock = clock;
    this.#sql = statements(db);
    this.#counters = createCounters(db);
    this.prune = createPruning(db, state);
    this.erase = createErasing(db);
    const [tasks, attempts] = [createWalk(db, 'event', 'tasks'), createWalk(db, 'event', 'attempts')];
    this.#walk = { tasks, attempts, lanes: createWalk(db, 'id', 'lanes') };
  }

  /** False: no handler has this name. */
  pause(handler: string, paused: boolean): Promise<boolean> {
    return this.#db.write(() => this.#sql.pause.run(Number(paused), handler).changes > 0);
  }

  /** Ends a handler that will not come back: its waiting tasks are skipped, its rows deleted. */
  async forget(handler: string): Promise<'forgotten' | 'loaded' | 'unknown'> {
    const row = await this.#db.query(() => this.#sql.handler.get(handler));
    if (!row) return 'unknown';
    if (row.state === 'loaded') return 'loaded';
    const { forgetTasks, forgetAttempts, forgetLanes } = this.#sql;
    await this.#walk.tasks((from, to) =>
      this.#db.write(() => {
        const counts = this.#counters();
        for (const { state } of forgetTasks.all(from, to, row.id)) counts.add(row.id, STATES[state] ?? 'waiting', -1);
        counts.write();
      }),
    );
    await this.#walk.attempts((from, to) => this.#db.write(() => forgetAttempts.run(from, to, row.id)));
    await this.#walk.lanes((from, to) => this.#db.write(() => forgetLanes.run(from, to, row.id)));
    await this.#db.write(() => {
      this.#db.sql('delete from reruns where handler = ?').run(row.id);
      this.#db.sql('delete from setup_steps where handler = ?').run(handler);
      this.#db.sql('delete from handlers where id = ?').run(row.id);
    });
    return 'forgotten';
  }

  /** Waiting tasks end as skipped. `event` is a number. Resolves with how many. */
  async discard({ handler = null, type = null, session = null, error = null, event }: Wish): Promise<number> {
    const filter = { handler, type, session, error };
    let discarded = 0;
    // It is looked for outside of the transaction, because most tasks may be others.
    const stretch = async (from: number, to: number): Promise<void> => {
      const tasks = await this.#db.query(() => this.#sql.waiting.all({ ...filter, from, to }));
      if (tasks.length > 0) discarded += await this.#db.write(() => this.#skip(tasks));
    };
    if (event) await stretch(Number(event) - 1, Number(event));
    else await this.#walk.tasks(stretch);
    return discarded;
  }

  #skip(tasks: WaitingRow[]): number {
    const now = this.#clock.now();
    const counts = this.#counters();
    const lanes = tasks.flatMap(({ event, handler }) => {
      const lane = this.#sql.skip.get(now, event, handler);
      if (lane === undefined) return [];
      counts.add(handler, 'waiting', -1);
      counts.add(handler, 'skipped', 1);
      return [lane];
    });
    for (const lane of new Set(lanes)) this.#lanes.touch(lane);
    counts.write();
    return lanes.length;
  }

  /** One task is due now, with all its attempts. False: there is none that waits or is dead. */
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

  /** Resolves with its number. Null: no handler has this name. */
  rerun({ from, to, filter, ...rest }: Rerun): Promise<number | null> {
    // Events without a cursor come first, as -1; a range begins behind all that have the cursor before it.
    const [after, afterSeq] = from === null ? ['-1', 0] : [String(BigInt(from) - 1n), Number.MAX_SAFE_INTEGER];
    const until = to ?? '9223372036854775807';
    const row = { ...rest, filter: JSON.stringify(filter), after, afterSeq, until, now: this.#clock.now() };
    return this.#db.write(() => this.#sql.addRerun.get(row) ?? null);
  }

  /** Leaves a word for a process. */
  tell(name: string, value: unknown): Promise<void> {
    return this.#db.write(() => this.#state.set(name, value));
  }

  /** These alarms stand, and no others. Resolves with those that were raised and cleared. */
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

  /** People were told of it. */
  posted({ name, about }: Alarm): Promise<void> {
    return this.#db.write(() => void this.#sql.posted.run(this.#clock.now(), name, about));
  }

  /** Keeps one sample a minute for a week. */
  sample(sample: Sample): Promise<void> {
    return this.#db.write(() => {
      const at = Math.floor(this.#clock.now() / 60_000) * 60_000;
      this.#sql.sample.run({ ...sample, at });
      this.#sql.oldSamples.run(at - 7 * 86_400_000);
    });
  }

  /**
   * Copies the log into the store. `restart` and `truncate` wait shortly for writers and readers. Resolves to the bytes
   * that were in use in the log's file, which may be longer. Null: in vain.
   */
  checkpoint(how: 'passive' | 'restart' | 'truncate'): Promise<number | null> {
    return this.#db.query(() => {
      this.#db.raw.pragma(`busy_timeout = ${CHECKPOINT_MS}`);
      const [result] = this.#db.raw.pragma(`wal_checkpoint(${how})`) as { busy: number; log: number }[];
      this.#db.raw.pragma(`busy_timeout = ${BLOCKING_MS}`);
      return result?.busy === 0 ? result.log * FRAME_BYTES : null;
    });
  }
}
