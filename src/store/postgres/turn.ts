// A turn of `run`: settle, fan out and claim, each a transaction, over what `look` has seen before them.
import type { Clock } from '../../base/clock.ts';
import type { FanOut, NewTask, Room, Turn, TurnResult } from '../work.ts';
import type { Boots } from './boots.ts';
import { claim, type Wish } from './claim.ts';
import { lockKey, type Connections, type Tx } from './connection.ts';
import { Counts } from './counts.ts';
import { addTasks, NEVER, release } from './lanes.ts';
import { idsOf, rows } from './rows.ts';
import { settle } from './settle.ts';

type Result = Omit<TurnResult, 'fenced'>;

interface Row {
  id: number;
  position: number;
  paused: 0 | 1;
  /** When the first event was received that it has not taken up. What arrives later is received later. */
  behindAt: number | null;
  /** Tasks wait for the watermark, which has passed them. */
  isHeld: 0 | 1;
}

const MOVES = rows({ bigint: 'handler from upTo' });
const MOVE = `update handlers h set position = v."upTo" from ${MOVES.from} where h.id = v.handler and h.position = v."from"`;
const KNOWN = 'select id, position from handlers where id = any(cast(@all as bigint[])) for key share';
const LIMITS = rows({ bigint: 'handler passed' });
const HANDLERS = `select h.id, h.position, h.paused,
    (select received_at from events where seq > h.position order by seq limit 1) as "behindAt",
    exists (select 1 from tasks t where t.handler = h.id and t.state = 0 and t.due_at = ${NEVER} and t.cursor <= v.passed) as "isHeld"
  from ${LIMITS.from} join handlers h on h.id = v.handler`;
const EACH = (name: string): string => `unnest(cast(@${name} as bigint[])) as v (id)`;
/** Lanes that wait for a process, and the number of the last process of this instance that holds one. */
const AFTER = `select
  (select min(n.due_at) from ${EACH('open')} cross join lateral (select due_at from lanes where handler = v.id and suspect = 0
    and due_at > @now and due_at < ${NEVER} order by due_at limit 1) n) as "nextAt",
  (select count(*) from ${EACH('all')} cross join lateral (select 1 from lanes where handler = v.id and suspect = 1
    and due_at <= @now limit 8) s)
  + (select coalesce(max(cast(nullif(substring(role from 9), '') as int)), 0) from boots b
    where instance = @instance and exists (select 1 from lanes where boot = b.id)) as suspects,
  exists (select 1 from ${EACH('strict')} join tasks t on t.handler = v.id where t.state = 0 and t.due_at = ${NEVER}) as held`;

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
    const { ended, fanOut } = turn;
    await this.#parts.boots.sign(turn.boot);
    // They touch different tasks, and wait for each other's lanes at most.
    const [settled, fannedOut] = await Promise.allSettled([
      ended.length > 0 ? this.#write(turn, (tx, counts, now) => settle(tx, ended, now, counts)) : 0,
      fanOut.length > 0 && this.#write(turn, (tx, counts) => this.#fanOut(tx, turn, counts)),
    ]);
    if (settled.status === 'rejected') throw settled.reason;
    if (fannedOut.status === 'rejected') throw fannedOut.reason;
    const fenced = settled.value;
    try {
      const result = await this.#write(turn, (tx, _, now) => this.#claim(tx, turn, now));
      this.#isUnsure = false;
      return { ...result, fenced };
    } catch (error) {
      this.#isUnsure = true;
      throw error;
    }
  }

  #write<R>({ boot }: Turn, work: (tx: Tx, counts: Counts, now: number) => Promise<R>): Promise<R> {
    const { boots, clock } = this.#parts;
    return this.#db.write(async (tx) => {
      const counts = new Counts();
      // Both are sent at once. An error of the work may only follow from that of the check.
      const [check, done] = await Promise.allSettled([boots.check(tx, boot), work(tx, counts, clock.now())]);
      if (check.status === 'rejected') throw check.reason;
      if (done.status === 'rejected') throw done.reason;
      counts.write(tx);
      return done.value;
    });
  }

  /** A handler that another instance fans out for is left to it. */
  async #fanOut(tx: Tx, { fanOut, rooms }: Turn, counts: Counts): Promise<void> {
    const all = fanOut.map(({ handler }) => handler);
    const mine = `pg_try_advisory_xact_lock(${lockKey(this.#db, 'fan-out')}, cast(id as int)) as mine`;
    const [locked, known] = await Promise.all([
      tx.all<{ id: number; mine: 0 | 1 }>(`select id, ${mine} from ${EACH('all')}`, { all }),
      // In a statement of its own, because a position of before could have moved meanwhile. Nobody forgets them now.
      tx.all<{ id: number; position: number }>(KNOWN, { all }),
    ]);
    const isMine = ({ handler, from }: FanOut): boolean =>
      locked.some(({ id, mine: is }) => id === handler && is === 1) &&
      known.some(({ id, position }) => id === handler && position === from);
    const taken = fanOut.filter(isMine).flatMap((one) => {
      const room = rooms.find(({ handler }) => handler === one.handler);
      return room ? { ...one, room } : [];
    });
    if (taken.length === 0) return;
    const tasks = taken.flatMap(({ tasks: list, room }) => list.map((task) => ({ ...task, dueAt: dueAt(task, room) })));
    await addTasks(tx, this.#parts.laneKey, tasks, counts);
    tx.last(MOVE, MOVES.of(taken.toSorted((a, b) => a.handler - b.handler)));
  }

  async #claim(tx: Tx, turn: Turn, now: number): Promise<Result> {
    const { boots, instance } = this.#parts;
    const { boot, look, rooms, suspects } = turn;
    if (this.#isUnsure) await boots.giveBack(tx, boot, turn.claim);
    const limits = rooms.map(({ handler, order }) => ({ handler, passed: passedOf(order, look.watermark) }));
    const found = await tx.all<Row>(HANDLERS, LIMITS.of(limits));
    const known = rooms.flatMap((room, n) => {
      const row = found.find(({ id }) => id === room.handler);
      return row ? { ...room, ...row, isCaughtUp: row.position >= look.newest, passed: limits[n]?.passed ?? '-1' } : [];
    });
    let more = known.some(({ behindAt }) => behindAt !== null);
    // All events at or below the watermark that was looked at have their tasks by then.
    for (const { id, passed, isCaughtUp, isHeld } of suspects ? [] : known)
      if (isCaughtUp && isHeld === 1 && (await release(tx, id, passed, now))) more = true;
    const open = known.filter((one) => one.paused === 0 && (suspects || one.order !== 'strict' || one.isCaughtUp));
    const wishes = open
      .map((one) => ({ ...one, upTo: suspects ? now : Math.min(now, one.behindAt ?? now) }))
      .filter(({ tasks }) => tasks > 0);
    const claims = suspects ? await claimOne(tx, turn, wishes) : await claim(tx, boot, turn.claim, wishes, 0);
    const after = await tx.get<{ nextAt: number | null; suspects: number; held: 0 | 1 }>(AFTER, {
      open: suspects ? [] : idsOf(open),
      all: rooms.map(({ handler }) => handler),
      strict: suspects ? [] : known.flatMap(({ id, order }) => (order === 'strict' ? id : [])),
      now,
      instance,
    });
    const isSpare = ({ id, tasks }: { id: number; tasks: number }): boolean =>
      claims.reduce((sum, one) => sum + (one.handler === id ? one.tasks.length : 0), 0) < tasks;
    const { nextAt = null, suspects: waiting = 0, held } = after ?? {};
    const spare = suspects ? [] : open.filter(isSpare).map(({ id }) => id);
    return { claims, more: more && !suspects, nextAt, suspects: waiting, spare, held: held === 1 };
  }
}

/** One task whose process died, of any of these handlers. */
async function claimOne(tx: Tx, { boot, claim: first }: Turn, wishes: Wish[]): Promise<Result['claims']> {
  for (const wish of wishes) {
    const claims = await claim(tx, boot, first, [{ ...wish, tasks: 1 }], 1);
    if (claims.length > 0) return claims;
  }
  return [];
}

/** The highest cursor whose tasks wait no longer for the watermark: of a handler that is not strict, all. */
const passedOf = (order: Room['order'], watermark: string | null): string =>
  order === 'strict' ? (watermark ?? '-1') : '9223372036854775807';

/** When a task of a new event is due. One without a cursor waits for nothing. */
function dueAt({ cursor, receivedAt }: NewTask, { order, windowMs }: Room): number {
  if (cursor === null || order === 'arrival') return receivedAt;
  return order === 'window' ? receivedAt + windowMs : NEVER;
}
