// The suite's store on PostgreSQL, in a schema of its own.
import { randomBytes } from 'node:crypto';
import { inject, onTestFinished } from 'vitest';
import { lock, place, touch } from '../../src/store/postgres/lanes.ts';
import { Counts, STATES } from '../../src/store/postgres/counts.ts';
import { openPostgres, type PostgresStore } from '../../src/store/postgres/open.ts';
import { AnyWorld, type HandlerDef, type People } from '../store/fixture.ts';

/** It is dropped when the test has ended. */
export async function createPostgresWorld(defs: HandlerDef[]): Promise<PostgresWorld> {
  const url = new URL(inject('postgres') ?? '');
  url.searchParams.set('schema', `test_${randomBytes(8).toString('hex')}`);
  const world = new PostgresWorld(url.href, defs);
  onTestFinished(() => world.drop());
  await world.open();
  return world;
}

type Admin = People['admin'];

export class PostgresWorld extends AnyWorld {
  readonly url: string;
  #store: PostgresStore | undefined;
  #others: PostgresWorld[] = [];

  constructor(url: string, defs: HandlerDef[]) {
    super(defs);
    this.url = url;
  }

  get store(): PostgresStore {
    if (!this.#store) throw new Error('the store is not open');
    return this.#store;
  }

  get reruns(): PostgresStore['reruns'] {
    return this.store.reruns;
  }

  async open(instance = 'first'): Promise<this> {
    this.#store = await openPostgres(this.url, { instance, clock: this.clock, connections: 4 });
    return this;
  }

  /** Another instance of the kit on the same tables, with a clock of its own. */
  beside(defs = this.defs): Promise<PostgresWorld> {
    const other = new PostgresWorld(this.url, defs);
    this.#others.push(other);
    return other.open(`other ${this.#others.length}`);
  }

  all(sql: string): Promise<unknown[]> {
    return this.store.db.all(sql);
  }

  exec(sql: string): Promise<void> {
    return this.store.db.script(sql);
  }

  refuse(table: string, when: string): Promise<void> {
    return this.exec(`create function no() returns trigger language plpgsql as $$ begin raise 'no'; end $$;
      create trigger no before insert on ${table} for each row when (${when}) execute function no()`);
  }

  async clear(): Promise<void> {
    await this
      .exec(`delete from events; delete from quarantine; delete from handlers; delete from reruns; delete from lanes;
      delete from tasks; delete from attempts; delete from daily; delete from boots;
      delete from state where name not in ('lane_key', 'schema')`);
    this.now = 1_000_000;
  }

  async drop(): Promise<void> {
    await this.exec(`drop schema if exists ${this.store.db.schema} cascade`);
    await Promise.all([this, ...this.#others].map(({ store }) => store.db.close()));
  }

  readonly people: People = {
    admin: {
      pause: async (name, isPaused) =>
        (await this.store.db.run('update handlers set paused = @isPaused where name = @name', { name, isPaused })) > 0,
      retry: (name, event) => this.#retry(name, event),
      discard: (filter) => this.#discard(filter),
      rerun: (asked) => this.#rerun(asked),
      prune: (before) => this.#prune(before),
    },
  };

  #retry(name: string, event: number): Promise<boolean> {
    return this.store.db.write(async (tx) => {
      const about = { name, event, now: this.now };
      const task = await tx.get<{ handler: number; lane: number; state: 0 | 1 | 2 | 3 }>(
        'select t.handler, t.lane, t.state from tasks t join handlers h on h.id = t.handler where h.name = @name and t.event = @event',
        about,
      );
      if (!task || task.state === 1) return false;
      await place(tx, [{ id: task.lane, handler: task.handler, dueAt: this.now }]);
      await tx.run(
        `update tasks set state = 0, due_at = @now, failed_at = null, attempts = 0, crashes = 0, error = null, ended_at = null,
        rerun = greatest(rerun, cast(state > 0 as int)) where event = @event and handler = @handler`,
        { ...about, ...task },
      );
      touch(tx, [task.lane]);
      const counts = new Counts();
      counts.move(task.handler, task.state, 0);
      counts.write(tx);
      return true;
    });
  }

  #discard({ handler, event }: Parameters<Admin['discard']>[0]): Promise<number> {
    return this.store.db.write(async (tx) => {
      const wish = { name: handler, event: Number(event), now: this.now };
      const where = 'event = @event and state = 0 and handler = (select id from handlers where name = @name)';
      const rows = await tx.all<{ lane: number; handler: number }>(
        `select lane, handler from tasks where ${where}`,
        wish,
      );
      const lanes = rows.map(({ lane }) => lane);
      await lock(tx, lanes);
      await tx.run(`update tasks set state = 2, ended_at = @now, error = 'discarded' where ${where}`, wish);
      touch(tx, lanes);
      const counts = new Counts();
      for (const row of rows) counts.move(row.handler, 0, 2);
      counts.write(tx);
      return rows.length;
    });
  }

  async #rerun({ from, to, only, handler }: Parameters<Admin['rerun']>[0]): Promise<number> {
    const [after, seq] = from === null ? ['-1', 0] : [String(BigInt(from) - 1n), Number.MAX_SAFE_INTEGER];
    const values = { only, handler, after, seq, until: to ?? '9223372036854775807', now: this.now };
    return this.store.db.run(
      `insert into reruns (handler, "only", after_cursor, after_seq, until_cursor, until_seq, next_at, asked_at)
      select id, @only, cast(@after as bigint), @seq, cast(@until as bigint), (select coalesce(max(seq), 0) from events), @now, @now
      from handlers where name = @handler`,
      values,
    );
  }

  #prune(before: number): Promise<null> {
    return this.store.db.write(async (tx) => {
      const gone = await tx.all<{ seq: number; cursor: string | null }>(
        `delete from events e where received_at < @before and seq <= (select coalesce(min(position), 9e15) from handlers)
          and (cursor is null or coalesce(cursor <= (select cast(value as bigint) from state where name = 'watermark'), true))
          and not exists (select 1 from tasks t where t.event = e.seq and t.state = 0) returning seq, cast(cursor as text) as cursor`,
        { before },
      );
      const events = gone.map(({ seq }) => seq);
      const counts = new Counts();
      for (const { handler, state } of await tx.all<{ handler: number; state: 1 | 2 | 3 }>(
        'delete from tasks where event = any(cast(@events as bigint[])) returning handler, state',
        { events },
      ))
        counts.add(handler, STATES[state], -1);
      counts.write(tx);
      const floor = gone.reduce((top, { cursor }) => Math.max(top, Number(cursor ?? -1)), -1);
      if (floor >= 0)
        await tx.run(
          `insert into state values ('floor', @floor) on conflict (name) do update
          set value = cast(greatest(cast(state.value as bigint), cast(excluded.value as bigint)) as text)`,
          { floor: String(floor) },
        );
      await tx.run(`delete from lanes where due_at is null and boot is null
        and done_cursor <= (select cast(value as bigint) from state where name = 'floor')
        and not exists (select 1 from tasks t where t.lane = lanes.id and t.state = 0)`);
      return null;
    });
  }
}
