// Who runs handlers: one living boot for each role of an instance. Every transaction of a boot holds its row, so one whose row
// is gone writes nothing. A boot without a sign of life is judged by another one.
import type { Clock } from '../../base/clock.ts';
import { StoreError } from '../store.ts';
import type { Role } from '../work.ts';
import type { Connections, Tx } from './connection.ts';
import { Counts } from './counts.ts';
import { setStates } from './handlers.ts';
import { free, lock } from './lanes.ts';
import { idsOf } from './rows.ts';

/** The weight of a death for the tasks that were running. */
const WEIGHT = { ofRun: 4, ofKit: 1, most: 12 };
/** Between two signs; a longer silence than `gap` is no life; after `lost`, others judge. */
const SIGN_MS = { apart: 1_000, gap: 3_000, lost: 10_000 };
/** By the database's clock, because those of the instances differ. */
const NOW = 'cast(extract(epoch from clock_timestamp()) * 1000 as bigint)';
const STALE = `seen_at < ${NOW} - ${SIGN_MS.lost}`;

const IS_DEAD = `t.crashes + @weight >= ${WEIGHT.most}`;
const BLAME = `update tasks t set crashes = t.crashes + @weight, state = case when ${IS_DEAD} then 3 else 0 end,
    ended_at = case when ${IS_DEAD} then cast(@now as bigint) end,
    error = case when ${IS_DEAD} then 'its process died each time that it ran' else t.error end
  from lanes l where l.id = any(cast(@ids as bigint[])) and t.lane = l.id and t.state = 0 and t.due_at <= @now
    and t.cursor <= l.claimed_to
  returning t.handler, t.lane as id, cast(t.cursor as text) as cursor, t.state`;

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
  begin(role: Role, restart: boolean): Promise<{ boot: number; suspects: number; dead: number }> {
    return this.#db.write(async (tx) => {
      const about = { instance: this.#instance, role, all: Number(!restart) };
      const before = await tx.all<{ id: number; role: string; handlers: string }>(
        'delete from boots where instance = @instance and (role = @role or @all = 1) returning id, role, handlers',
        about,
      );
      const judged = await this.#judge(tx, before, restart ? WEIGHT.ofRun : WEIGHT.ofKit);
      // Its handlers are those of its predecessor until it has loaded its own.
      const { handlers = '[]' } = before.find((one) => one.role === role) ?? {};
      const text = `insert into boots (role, instance, handlers, seen_at) values (@role, @instance, @handlers, ${NOW}) returning id`;
      const row = await tx.get<{ id: number }>(text, { ...about, handlers });
      return { boot: row?.id ?? 0, ...judged };
    });
  }

  /** The row stays until others judge it, so that handlers are not missing while a kit is started anew. */
  end(boot: number): Promise<void> {
    return this.#db.write((tx) => this.giveBack(tx, boot));
  }

  /** Holds the row of the boot until the transaction ends. */
  async check(tx: Tx, boot: number): Promise<void> {
    if (!(await tx.get('select 1 from boots where id = @boot for key share', { boot })))
      throw new StoreError('orphan', 'another run has taken over');
  }

  /** Its lanes are free again, those of claims from this number on. */
  async giveBack(tx: Tx, boot: number, from = 0): Promise<void> {
    const text = 'select id from lanes where boot = @boot and claim >= @from order by id for update';
    const lanes = await tx.all<{ id: number }>(text, { boot, from });
    free(tx, idsOf(lanes));
  }

  /** A sign of life, once a second. Who gives it regularly judges those who do not. */
  async sign(boot: number): Promise<void> {
    if (this.#clock.monotonic() - this.#signedAt < SIGN_MS.apart) return;
    const stale = await this.#db.all<{ id: number }>(
      `with mine as (update boots set seen_at = ${NOW} where id = @boot) select id from boots where id <> @boot and ${STALE}`,
      { boot },
    );
    const now = this.#clock.monotonic();
    if (now - this.#signedAt > SIGN_MS.gap) this.#since = now;
    this.#signedAt = now;
    if (stale.length === 0 || now - this.#since < SIGN_MS.lost) return;
    await this.#db.write(async (tx) => {
      const text = `delete from boots where id = any(cast(@ids as bigint[])) and ${STALE} returning id`;
      await this.#judge(tx, await tx.all(text, { ids: idsOf(stale) }), WEIGHT.ofKit);
      setStates(tx);
    });
  }

  /** What the boots had claimed goes back, and what was running then is a suspect. */
  async #judge(tx: Tx, boots: { id: number }[], weight: number): Promise<{ suspects: number; dead: number }> {
    const of = idsOf(boots);
    const ids = (await lock(tx, of, 'boot = any(cast(@ids as bigint[]))')).map(({ id }) => id);
    const blamed = await tx.all<{ handler: number; id: number; cursor: string; state: 0 | 3 }>(BLAME, {
      ids,
      weight,
      now: this.#clock.now(),
    });
    const dead = blamed.filter(({ state }) => state === 3);
    const counts = new Counts();
    for (const { handler } of dead) counts.move(handler, 0, 3);
    free(tx, ids, dead);
    counts.write(tx);
    return { suspects: blamed.length, dead: dead.length };
  }
}
