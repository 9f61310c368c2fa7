// A turn of `run`: settle, fan out and claim, each a transaction, over what `look` has seen before them.
import type { Clock } from '../../base/clock.ts';
import type { Cursor } from '../../wire/cursor.ts';
import type { Sql } from '../sql.ts';
import { StoreError } from '../store.ts';
import type { FanOut, NewTask, Room, Turn, TurnResult } from '../work.ts';
import type { Boots } from './boots.ts';
import { claim, type Wish } from './claim.ts';
import { lockKey, type Connections } from './connection.ts';
import { Counts } from './counts.ts';
import { addTasks, NEVER, release } from './lanes.ts';
import { settle } from './settle.ts';
import { columnsOf } from './values.ts';

type Result = Omit<TurnResult, 'fenced'>;

interface Row {
  id: number;
  position: number;
  paused: 0 | 1;
  /** When the first event was received that it has not taken up. What arrives later is received later. */
  behindAt: number | null;
  /** Tasks that the watermark has passed wait for it. */
  isHeld: 0 | 1;
}

const HANDLERS = `select h.id, h.position, h.paused,
    (select received_at from events where seq > h.position order by seq limit 1) as "behindAt",
    exists (select 1 from tasks t where t.handler = h.id and t.state = 0 and t.due_at = ${NEVER} and t.cursor <= v.up_to) as "isHeld"
  from unnest(cast(@handler as bigint[]), cast(@upTo as bigint[])) as v (handler, up_to) join handlers h on h.id = v.handler`;

/** `open`: handlers that claim. `suspects`: lanes that wait for a process, and the last process here that holds a lane. */
const AFTER = `select
  (select min(n.due_at) from unnest(cast(@open as bigint[])) as v (handler) cross join lateral (select due_at from lanes
    where handler = v.handler and suspect = 0 and due_at > @now and due_at < ${NEVER} order by due_at limit 1) n) as "nextAt",
  (select count(*) from unnest(cast(@all as bigint[])) as v (handler) cross join lateral (select 1 from lanes
    where handler = v.handler and suspect = 1 and due_at <= @now limit 8) s)
  + (select coalesce(max(cast(nullif(substring(role from 9), '') as int)), 0) from boots b
    where instance = @instance and exists (select 1 from lanes where boot = b.id)) as suspects,
  exists (select 1 from unnest(cast(@strict as bigint[])) as v (handler) join tasks t on t.handler = v.handler
    where t.state = 0 and t.due_at = ${NEVER}) as held`;

export interface TurnParts {
  clock: Clock;
  boots: Boots;
  instance: string;
  laneKey: string;
}

export class Turns {
  readonly #db: Connections;
  readonly #parts: TurnParts;
  /** A claim may have been committed without an answer. */
  #isUnsure = false;

  constructor(db: Connections, parts: TurnParts) {
    this.#db = db;
    this.#parts = parts;
  }

  async turn(turn: Turn): Promise<TurnResult> {
    await this.#parts.boots.sign(turn.boot);
    const { ended } = turn;
    const fenced = ended.length > 0 ? await this.#write(turn, (tx, counts, now) => settle(tx, ended, now, counts)) : 0;
    if (turn.fanOut.length > 0) await this.#write(turn, (tx, counts) => this.#fanOut(tx, turn, counts));
    try {
      const result = await this.#write(turn, (tx, _, now) => this.#claim(tx, turn, now));
      this.#isUnsure = false;
      return { ...result, fenced };
    } catch (error) {
      this.#isUnsure = true;
      throw error;
    }
  }

  #write<R>({ boot }: Turn, work: (tx: Sql, counts: Counts, now: number) => Promise<R>): Promise<R> {
    return this.#db.write(async (tx) => {
      const counts = new Counts();
      await this.#parts.boots.check(tx, boot);
      const result = await work(tx, counts, this.#parts.clock.now());
      await counts.write(tx);
      return result;
    });
  }

  /** A handler that another instance fans out for is left to it. */
  async #fanOut(tx: Sql, { fanOut, rooms }: Turn, counts: Counts): Promise<void> {
    const all = fanOut.map(({ handler }) => handler);
    const lock = `pg_try_advisory_xact_lock(${lockKey(this.#db, 'fan-out')}, cast(id as int))`;
    const [locked, rows] = await Promise.all([
      tx.all<{ id: number; mine: number }>(`select id, ${lock} as mine from unnest(cast(@all as bigint[])) as v (id)`, {
        all,
      }),
      // In a statement of its own, because a position of before could have moved meanwhile.
      tx.all<{ id: number; position: number }>(
        'select id, position from handlers where id = any(cast(@all as bigint[]))',
        { all },
      ),
    ]);
    const isMine = ({ handler, from }: FanOut): boolean =>
      rooms.some((room) => room.handler === handler) &&
      locked.some(({ id, mine }) => id === handler && mine === 1) &&
      rows.some(({ id, position }) => id === handler && position === from);
    const mine = fanOut.filter(isMine).toSorted((a, b) => a.handler - b.handler);
    if (mine.length === 0) return;
    const tasks = mine.flatMap(({ handler, tasks: list }) => {
      const room = rooms.find((one) => one.handler === handler);
      return room ? list.map((task) => ({ ...task, dueAt: dueAt(task, room) })) : [];
    });
    await addTasks(tx, this.#parts.laneKey, tasks, counts);
    const moved = await tx.run(
      `update handlers h set position = v.up_to from unnest(cast(@handler as bigint[]), cast(@from as bigint[]),
        cast(@upTo as bigint[])) as v (handler, "from", up_to) where h.id = v.handler and h.position = v."from"`,
      columnsOf(mine, 'handler', 'from', 'upTo'),
    );
    if (moved < mine.length) throw new StoreError('busy', 'a handler was forgotten while it took up events');
  }

  async #claim(tx: Sql, turn: Turn, now: number): Promise<Result> {
    const { boots, instance } = this.#parts;
    const { boot, look, rooms, suspects } = turn;
    if (this.#isUnsure) await boots.giveBack(tx, boot, turn.claim);
    const limits = rooms.map(({ handler, order }) => ({
      handler,
      upTo: order === 'strict' ? (look.watermark ?? '-1') : HIGHEST,
    }));
    const rows = new Map(
      (await tx.all<Row>(HANDLERS, columnsOf(limits, 'handler', 'upTo'))).map((row) => [row.id, row]),
    );
    const known = rooms.flatMap((room) => {
      const row = rows.get(room.handler);
      return row ? { ...room, ...row, isCaughtUp: row.position >= look.newest } : [];
    });
    let more = false;
    for (const { id, isCaughtUp, isHeld } of suspects ? [] : known) {
      const upTo = limits.find(({ handler }) => handler === id)?.upTo;
      // All events at or below the watermark that was looked at have their tasks by then.
      if (isCaughtUp && isHeld === 1 && (await release(tx, id, upTo, now)) === 'more') more = true;
    }
    const open = known.filter(
      ({ paused, order, isCaughtUp }) => paused === 0 && (suspects || order !== 'strict' || isCaughtUp),
    );
    const wishes = open.flatMap(({ behindAt, ...room }) =>
      room.tasks > 0 ? { ...room, upTo: Math.min(now, behindAt ?? now) } : [],
    );
    const claims = suspects
      ? await this.#claimSuspect(tx, turn, wishes, now)
      : await claim(tx, boot, turn.claim, wishes, 0);
    const after = await tx.get<{ nextAt: number | null; suspects: number; held: 0 | 1 }>(AFTER, {
      open: suspects ? [] : open.map(({ id }) => id),
      all: rooms.map(({ handler }) => handler),
      strict: suspects ? [] : known.flatMap(({ id, order }) => (order === 'strict' ? id : [])),
      now,
      instance,
    });
    const taken = (id: number): number =>
      claims.reduce((sum, { handler, tasks }) => sum + (handler === id ? tasks.length : 0), 0);
    return {
      claims,
      more: !suspects && (more || known.some(({ behindAt }) => behindAt !== null)),
      nextAt: after?.nextAt ?? null,
      suspects: after?.suspects ?? 0,
      spare: suspects ? [] : open.flatMap(({ id, tasks }) => (taken(id) < tasks ? id : [])),
      held: after?.held === 1,
    };
  }

  /** One task whose process died, of any of these handlers. */
  async #claimSuspect(tx: Sql, { boot, claim: first }: Turn, wishes: Wish[], now: number): Promise<Result['claims']> {
    for (const wish of wishes) {
      const claims = await claim(tx, boot, first, [{ ...wish, tasks: 1, upTo: now }], 1);
      if (claims.length > 0) return claims;
    }
    return [];
  }
}

const HIGHEST = '9223372036854775807' as Cursor;

/** When a task of a new event is due. One without a cursor waits for nothing. */
function dueAt({ cursor, receivedAt }: NewTask, { order, windowMs }: Room): number {
  if (cursor === null || order === 'arrival') return receivedAt;
  return order === 'window' ? receivedAt + windowMs : NEVER;
}
