// The suite's store on PostgreSQL, in a schema of its own.
import { randomBytes } from 'node:crypto';
import { inject, onTestFinished } from 'vitest';
import type { PeopleStore } from '../../src/operations/store/open.ts';
import { createReruns } from '../../src/operations/store/reruns.ts';
import { openPostgres, type PostgresStore } from '../../src/store/postgres/open.ts';
import { AnyWorld, type HandlerDef } from '../store/fixture.ts';

/** It is dropped when the test has ended. */
export async function createPostgresWorld(defs: HandlerDef[]): Promise<PostgresWorld> {
  const url = new URL(inject('postgres') ?? '');
  url.searchParams.set('schema', `test_${randomBytes(8).toString('hex')}`);
  const world = new PostgresWorld(url.href, defs);
  onTestFinished(() => world.drop());
  await world.open();
  return world;
}

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

  get people(): PeopleStore {
    return this.store.db;
  }

  get reruns(): ReturnType<typeof createReruns> {
    return createReruns(this.people, this.clock);
  }

  async open(instance = 'first'): Promise<this> {
    this.#store = await openPostgres(this.url, { instance, clock: this.clock, max: 4 });
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

  async exec(sql: string): Promise<void> {
    await this.store.db.write((tx) => tx.query(sql));
  }

  refuse(table: string, when: string): Promise<void> {
    return this.exec(`create function no() returns trigger language plpgsql as $$ begin raise 'no'; end $$;
      create trigger no before insert on ${table} for each row when (${when}) execute function no()`);
  }

  async clear(): Promise<void> {
    await this
      .exec(`delete from events; delete from quarantine; delete from handlers; delete from reruns; delete from lanes;
      delete from tasks; delete from attempts; delete from boots;
      delete from state where name not in ('lane_key', 'schema')`);
    this.now = 1_000_000;
  }

  async drop(): Promise<void> {
    await this.exec(`drop schema if exists ${this.store.db.schema} cascade`);
    await Promise.all([this, ...this.#others].map(({ store }) => store.db.close()));
  }
}
