// Who runs handlers: one living boot for each role of an instance. Every transaction of a boot holds its row, so one whose row
// is gone writes nothing. A boot without a sign of life is judged by another one.
import type { Clock } from '../../base/clock.ts';
import type { Sql } from '../sql.ts';
import { StoreError } from '../store.ts';
import type { Role } from '../work.ts';
import type { Connections } from './connection.ts';
import { Counts } from './counts.ts';
import { setStates } from './handlers.ts';
import { touch } from './lanes.ts';

/** The weight of a death for the tasks that were running. */
const WEIGHT = { ofRun: 4, ofKit: 1, most: 12 };
/** Between two signs; a longer silence than `gap` is no life; after `lost`, others judge. */
const SIGN_MS = { apart: 1_000, gap: 3_000, lost: 10_000 };
/** The database's clock, because those of the instances differ. */
const NOW = 'cast(extract(epoch from clock_timestamp()) * 1000 as bigint)';
const ERROR = 'its process died each time that it ran';

type Judged = Record<'suspects' | 'dead', number>;

export class Boots {
  readonly #db: Connections;
  readonly #clock: Clock;
  readonly #instance: string;
  #signedAt = -Infinity;
  /** Since when signs have come regularly. */
  #since = -Infinity;

  constructor(db: Connections, clock: Clock, instance: string) {
    this.#db = db;
    this.#clock = clock;
    this.#instance = instance;
  }

  /** Judges the role's dead predecessor in this instance; if the whole kit died, those of every role. */
  begin(role: Role, restart: boolean): Promise<{ boot: number } & Judged> {
    return this.#db.write(async (tx) => {
      const before = await tx.all<{ id: number; role: string; handlers: string }>(
        'delete from boots where instance = @instance and (role = @role or @all = 1) returning id, role, handlers',
        { instance: this.#instance, role, all: Number(!restart) },
      );
      const weight = restart ? WEIGHT.ofRun : WEIGHT.ofKit;
      const judged = await this.#judge(
        tx,
        before.map(({ id }) => id),
        weight,
      );
      // Its handlers are those of its predecessor until it has loaded its own.
      const { handlers = '[]' } = before.find((one) => one.role === role) ?? {};
      const row = await tx.get<{ id: number }>(
        `insert into boots (role, instance, handlers, seen_at) values (@role, @instance, @handlers, ${NOW}) returning id`,
        { role, instance: this.#instance, handlers },
      );
      return { boot: row?.id ?? 0, ...judged };
    });
  }

  /** The row stays until others judge it, so that handlers are not missing while a kit is started anew. */
  end(boot: number): Promise<void> {
    return this.#db.write((tx) => this.giveBack(tx, boot));
  }

  /** Holds the row of the boot until the transaction ends. */
  async check(tx: Sql, boot: number): Promise<void> {
    if (!(await tx.get('select 1 from boots where id = @boot for key share', { boot })))
      throw new StoreError('orphan', 'another run has taken over');
  }

  /** Its lanes are free again, those of claims from this number on. */
  async giveBack(tx: Sql, boot: number, from = 0): Promise<void> {
    const rows = await tx.all<{ id: number }>(
      'select id from lanes where boot = @boot and claim >= @from order by id for update',
      { boot, from },
    );
    await this.#free(
      tx,
      rows.map(({ id }) => id),
    );
  }

  /** A sign of life, once a second. Who gives it regularly judges those who do not. */
  async sign(boot: number): Promise<void> {
    if (this.#clock.monotonic() - this.#signedAt < SIGN_MS.apart) return;
    const stale = await this.#db.all<{ id: number }>(
      `with mine as (update boots set seen_at = ${NOW} where id = @boot)
      select id from boots where id <> @boot and seen_at < ${NOW} - ${SIGN_MS.lost}`,
      { boot },
    );
    const now = this.#clock.monotonic();
    if (now - this.#signedAt > SIGN_MS.gap) this.#since = now;
    this.#signedAt = now;
    if (stale.length > 0 && now - this.#since >= SIGN_MS.lost) await this.#bury(stale.map(({ id }) => id));
  }

  async #bury(ids: number[]): Promise<void> {
    await this.#db.write(async (tx) => {
      const rows = await tx.all<{ id: number }>(
        `delete from boots where id = any(cast(@ids as bigint[])) and seen_at < ${NOW} - ${SIGN_MS.lost} returning id`,
        { ids },
      );
      await this.#judge(
        tx,
        rows.map(({ id }) => id),
        WEIGHT.ofKit,
      );
      await setStates(tx);
    });
  }

  /** What the boots had claimed goes back, and what was running then is a suspect. */
  async #judge(tx: Sql, boots: number[], weight: number): Promise<Judged> {
    const lanes = await tx.all<{ id: number }>(
      'select id from lanes where boot = any(cast(@boots as bigint[])) order by id for update',
      { boots },
    );
    if (lanes.length === 0) return { suspects: 0, dead: 0 };
    const ids = lanes.map(({ id }) => id);
    const isDead = `t.crashes + @weight >= ${WEIGHT.most}`;
    const now = this.#clock.now();
    const blamed = await tx.all<{ handler: number; lane: number; cursor: string; state: 0 | 3 }>(
      `update tasks t set crashes = t.crashes + @weight, state = case when ${isDead} then 3 else 0 end,
        ended_at = case when ${isDead} then cast(@now as bigint) end, error = case when ${isDead} then '${ERROR}' else t.error end
      from lanes l where l.id = any(cast(@ids as bigint[])) and t.lane = l.id and t.state = 0 and t.due_at <= @now
        and t.cursor <= l.claimed_to
      returning t.handler, t.lane, cast(t.cursor as text) as cursor, t.state`,
      { ids, weight, now },
    );
    const dead = blamed.filter(({ state }) => state === 3);
    const counts = new Counts();
    for (const { handler, lane, cursor } of dead) {
      counts.ended(handler, 'dead');
      await tx.run('update lanes set done_cursor = greatest(done_cursor, cast(@cursor as bigint)) where id = @lane', {
        lane,
        cursor,
      });
    }
    await this.#free(tx, ids);
    await counts.write(tx);
    return { suspects: blamed.length, dead: dead.length };
  }

  async #free(tx: Sql, ids: number[]): Promise<void> {
    await tx.run(
      'update lanes set boot = null, claim = null, claimed_to = null where id = any(cast(@ids as bigint[]))',
      { ids },
    );
    await touch(tx, ids);
  }
}
