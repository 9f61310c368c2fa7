// A store of a test's own, with a clock that the test sets, and a driver that plays `run` in plain steps.
import { rerun } from '../../src/operations/store/tasks.ts';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { onTestFinished } from 'vitest';
import { openForPeople, type PeopleStore } from '../../src/operations/store/open.ts';
import { createReruns } from '../../src/operations/store/reruns.ts';
import { openSqlite } from '../../src/store/sqlite/open.ts';
import type { Store } from '../../src/store/store.ts';
import type { Claim, Ended, Look, NewTask, Order, Outcome, StoredEvent, TurnResult } from '../../src/store/work.ts';
import type { Cursor } from '../../src/wire/cursor.ts';
import type { Origin, Reading } from '../../src/wire/event.ts';

export const WINDOW = 100;

export interface Wanted {
  id?: string | null;
  cursor?: number | null;
  type?: string;
  session?: string | null;
  origin?: Origin;
  data?: object;
}

export interface TurnOptions {
  tasks?: number;
  chain?: number;
  suspects?: boolean;
  boot?: number;
  /** What an earlier look saw. */
  seen?: Look | undefined;
}

let ids = 0;

export function reading({
  id = `i${++ids}`,
  cursor = null,
  type = 'A',
  session = null,
  origin = 'webhook',
  data = {},
}: Wanted = {}): Reading {
  const isReplayed = origin === 'replay' || origin === 'stream';
  const own = { [type]: data };
  const body = Buffer.from(JSON.stringify(isReplayed ? own : { id, type, data: own }));
  const text = cursor === null ? null : (String(cursor) as Cursor);
  return { event: { origin, cursor: text, id: isReplayed ? null : id, type, session, createdAt: null, body } };
}

export interface HandlerDef {
  name: string;
  order?: Order;
  on?: string[];
  lane?: (event: StoredEvent) => string | null;
}

export function createWorld(defs: HandlerDef[] = [{ name: 'h' }], file = join(createFolder(), 'events.db')) {
  const world = new World(file, defs);
  onTestFinished(() => world.close());
  return world;
}

/** On the store that the suite runs for. */
export async function openWorld(defs: HandlerDef[] = [{ name: 'h' }]): Promise<AnyWorld> {
  if (process.env['TEST_STORE'] !== 'postgres') return createWorld(defs);
  const { createPostgresWorld } = await import('../postgres/world.ts');
  return createPostgresWorld(defs);
}

/** It is removed when the test has ended. */
export function createFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'kit-store-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

export abstract class AnyWorld {
  now = 1_000_000;
  boot = 0;
  readonly defs: HandlerDef[];
  abstract readonly store: Store;
  abstract readonly people: PeopleStore;
  abstract readonly reruns: ReturnType<typeof createReruns>;
  readonly clock = { now: (): number => this.now, monotonic: (): number => this.now };
  ids = new Map<string, number>();
  #claim = 1;

  constructor(defs: HandlerDef[]) {
    this.defs = defs;
  }

  /** The rows of one `select`. */
  abstract all(sql: string): Promise<unknown[]>;
  /** Statements without values. */
  abstract exec(sql: string): Promise<unknown>;
  /** Rows for which this holds are refused. */
  abstract refuse(table: string, when: string): Promise<unknown>;
  /** As if it were new, which would take ten times as long. */
  abstract clear(): Promise<unknown>;

  async begin(restart = false): Promise<this> {
    ({ boot: this.boot } = await this.store.work.begin('live', restart));
    await this.load();
    return this;
  }

  async load(present: HandlerDef[] = this.defs, broken: HandlerDef[] = []): Promise<void> {
    const newest = await this.number('select coalesce(max(seq), 0) from events');
    const files = present.map(({ name }) => ({
      name,
      file: `/${name}.ts`,
      fault: broken.some((one) => one.name === name) ? 'broken' : null,
    }));
    this.ids = await this.store.work.register(files, newest, this.boot);
  }

  accept(...list: (Wanted | Reading)[]): ReturnType<Store['ingest']['accept']> {
    const readings = list.map((one) => ('event' in one || 'unreadable' in one ? one : reading(one)));
    return this.store.ingest.accept({ readings });
  }

  plan(id: number, events: StoredEvent[]): NewTask[] {
    const def = this.defs.find(({ name }) => this.ids.get(name) === id);
    return events
      .filter(({ type }) => def?.on === undefined || def.on.includes(type))
      .map((event) => ({
        handler: id,
        event: event.seq,
        cursor: event.cursor,
        receivedAt: event.receivedAt,
        lane: def?.lane ? def.lane(event) : 'lane',
      }));
  }

  async turn(
    ended: Ended[] = [],
    { tasks = 100, chain = 8, suspects = false, boot = this.boot, seen }: TurnOptions = {},
  ): Promise<TurnResult> {
    const look = seen ?? (await this.store.work.look(suspects ? [] : [...this.ids.values()]));
    const fanOut = look.handlers.flatMap(({ id, position }) => {
      const page = look.pages.get(position);
      return page && [...this.ids.values()].includes(id)
        ? [{ handler: id, from: position, upTo: page.upTo, tasks: this.plan(id, page.events) }]
        : [];
    });
    const rooms = [...this.ids].map(([name, handler]) => {
      const { order = 'window' } = this.defs.find((def) => def.name === name) ?? {};
      return { handler, order, windowMs: WINDOW, chain, tasks };
    });
    const result = await this.store.work.turn({ boot, look, ended, fanOut, rooms, claim: this.#claim, suspects });
    this.#claim += result.claims.length;
    return result;
  }

  /** Until everything is fanned out. */
  async settle(ended: Ended[] = []): Promise<Claim[]> {
    const claims: Claim[] = [];
    for (let list = ended; ; list = []) {
      const { claims: found, more } = await this.turn(list);
      claims.push(...found);
      if (!more) return claims;
    }
  }

  async pause(handler: string, on: boolean): Promise<void> {
    await this.people.run('update handlers set paused = @on where name = @handler', { handler, on: Number(on) });
  }

  /** A rerun, to its end. */
  async rerun(handler: string, only: 'all' | 'dead' = 'all', from: Cursor | null = null): Promise<void> {
    await rerun(this.people, { handler, only, filter: {}, from, to: null, perMinute: null });
    const id = this.ids.get(handler) ?? 0;
    for (let page = await this.reruns.page([id]); page; page = await this.reruns.page([id]))
      await this.reruns.apply(this.boot, page, this.plan(id, page.events));
  }

  async cursors(claim: Claim | undefined): Promise<(string | null)[]> {
    const events = (claim?.tasks ?? []).map(({ event }) => event);
    const list = events.join() || 'null';
    const rows = await this.all(`select seq, cast(cursor as text) as cursor from events where seq in (${list})`);
    const of = new Map((rows as { seq: number; cursor: string | null }[]).map(({ seq, cursor }) => [seq, cursor]));
    return events.map((event) => of.get(event) ?? null);
  }

  /** The first column of the first row. */
  async one(sql: string): Promise<unknown> {
    const [row] = await this.all(sql);
    return Object.values((row as object | undefined) ?? {})[0];
  }

  async number(sql: string): Promise<number> {
    return Number(await this.one(sql));
  }
}

/** On a file of its own. Tests of SQLite read it without waiting. */
export class World extends AnyWorld {
  readonly file: string;
  readonly store: ReturnType<typeof openSqlite>;
  readonly people: PeopleStore;
  readonly reruns: ReturnType<typeof createReruns>;
  readonly #statements = new Map<string, ReturnType<typeof this.store.db.sql<object>>>();

  constructor(file: string, defs: HandlerDef[]) {
    super(defs);
    this.file = file;
    this.store = openSqlite(file, { clock: this.clock });
    this.people = openForPeople(this.store.db, this.store.db, this.clock);
    this.reruns = createReruns(this.people, this.clock);
  }

  async all(sql: string): Promise<unknown[]> {
    return this.rows(sql);
  }

  async exec(sql: string): Promise<void> {
    this.store.db.raw.exec(sql);
  }

  async refuse(table: string, when: string): Promise<void> {
    this.store.db.raw.exec(
      `create trigger no before insert on ${table} when ${when} begin select raise(abort, 'no'); end`,
    );
  }

  value(sql: string): unknown {
    return Object.values(this.#statement(sql).get() ?? {})[0];
  }

  count(sql: string): number {
    return Number(this.value(sql));
  }

  rows(sql: string): unknown[] {
    return this.#statement(sql).all();
  }

  #statement(sql: string): ReturnType<typeof this.store.db.sql<object>> {
    const known = this.#statements.get(sql) ?? this.store.db.sql<object>(sql);
    this.#statements.set(sql, known);
    return known;
  }

  async clear(): Promise<void> {
    const tables = this.rows("select name from sqlite_master where type = 'table' and name not like 'sqlite%'");
    for (const { name } of tables as { name: string }[])
      this.store.db.raw.exec(`delete from ${name} ${name === 'state' ? "where name <> 'lane_key'" : ''}`);
    this.now = 1_000_000;
  }

  close(): void {
    this.store.close();
  }
}

/** The next claim. */
export async function claimed(world: AnyWorld): Promise<Claim> {
  const [claim] = await world.settle();
  if (!claim) throw new Error('nothing was claimed');
  return claim;
}

/** How all tasks of a claim ended. */
export function over(claim: Claim, as: 'done' | 'skipped' | 'dead' = 'done'): Ended {
  return { claim, outcomes: claim.tasks.map(({ event }) => ({ event, as, error: null })), free: true };
}

/** The first task fails, and is due again then. */
export function failed(claim: Claim, dueAt: number, { aside = false, spent = true } = {}): Ended {
  const event = claim.tasks[0]?.event ?? 0;
  const outcome: Outcome = { event, as: 'again', error: 'no', dueAt, spent, aside };
  return { claim, outcomes: [outcome], free: true };
}
