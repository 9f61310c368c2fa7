// A turn of `run`: settle, fan out and claim, each a transaction. They work on what `look` has read before. Statements for
// several handlers are sent at once.
import type { Clock } from '../../base/clock.ts';
import { checkBoot, giveBack } from '../boots.ts';
import { Counts } from '../counts.ts';
import { chainsOf, dueAt, NEVER, type Chains, type Head } from '../lanes.ts';
import { eventsOf, seqsOf } from '../rows.ts';
import type { HandlerRow, Look, Room, Turn, TurnResult, WorkStore } from '../work.ts';
import type { Connections, Tx } from './connection.ts';
import { addTasks, release } from './lanes.ts';
import { rows } from './rows.ts';
import { settle } from './settle.ts';
import type { Signs } from './signs.ts';

/** Events that a handler takes up in one turn. */
const PAGE = 256;

/** `behindAt`: when the first event after the position was received. Later events were received later. */
const HANDLERS = `select h.id, h.name, h.position, h.paused,
    (select received_at from events where seq > h.position order by seq limit 1) as "behindAt",
    exists (select 1 from tasks t where t.handler = h.id and t.state = 0 and t.due_at = ${NEVER}) as held
  from handlers h where h.state = 'loaded' order by h.id`;
type Row = Omit<HandlerRow, 'paused'> & { paused: 0 | 1; behindAt: number | null; held: 0 | 1 };
const FACTS = `select (select coalesce(max(seq), 0) from events) as newest,
  (select value from state where name = 'watermark') as watermark`;
const PAGES = `select seq, coalesce(octet_length(body), 0) as bytes from events where seq > @position
  order by seq limit ${PAGE}`;
/** A lane is locked in one statement, and its tasks are read in the next: together they would be those of before. */
const LANES = `select id from lanes where handler = @handler and suspect = @suspect and due_at <= @upTo
  order by due_at limit @tasks for update skip locked`;
const HEADS = `select l.id, t.event, cast(t.cursor as text) as cursor,
    cast(t.rerun = 0 and (t.late = 1 or t.cursor < l.done_cursor) as int) as late, t.due_at, t.crashes, t.attempts, t.failed_at, t.notes
  from unnest(cast(@lanes as bigint[])) with ordinality as v (id, n) join lanes l on l.id = v.id cross join lateral
    (select * from tasks where lane = l.id and state = 0 order by cursor limit @chain) t order by v.n, t.cursor`;
const CLAIMS = rows({ bigint: 'lane claim to' });
const CLAIM = `update lanes set due_at = null, boot = @boot, claim = v.claim, claimed_to = v."to"
  from ${CLAIMS.from} where lanes.id = v.lane`;
/** Suspects: the lanes that wait for a process, plus the number of the last process of this instance with a lane. */
const AFTER = `select (select min(n.due_at) from unnest(cast(@open as bigint[])) v cross join lateral (select due_at from lanes
    where handler = v and suspect = 0 and due_at > @now and due_at < ${NEVER} order by due_at limit 1) n) as "nextAt",
  (select count(*) from unnest(cast(@all as bigint[])) v cross join lateral
    (select 1 from lanes where handler = v and suspect = 1 and due_at <= @now limit 8) s)
  + (select coalesce(max(cast(substring(role from 9) as int)), 0) from boots b where instance = @instance
    and role <> 'live' and exists (select 1 from lanes where boot = b.id)) as suspects,
  coalesce((select cast(value as int) from state where name = 'erased'), 0) as erased`;

export interface TurnParts {
  clock: Clock;
  instance: string;
  laneKey: string;
  signs: Signs;
}

export class Turns implements Pick<WorkStore, 'look' | 'turn'> {
  readonly #db: Connections;
  readonly #parts: TurnParts;
  /** A claim may have been committed without an answer. */
  #isUnsure = false;

  constructor(db: Connections, parts: TurnParts) {
    this.#db = db;
    this.#parts = parts;
  }

  look(wanted: number[]): Promise<Look> {
    return this.#db.read(async (tx) => {
      const [found, facts] = await Promise.all([
        tx.all<Row>(HANDLERS),
        tx.get<{ newest: number; watermark: string | null }>(FACTS),
      ]);
      const { newest = 0, watermark = null } = facts ?? {};
      const handlers = found.map((row) => ({ ...row, paused: row.paused === 1 }));
      const mine = handlers.filter(({ id, position }) => wanted.includes(id) && position < newest);
      const behind = [...new Set(mine.map(({ position }) => position))];
      const pages = behind.map(async (position) => {
        const keys = await tx.all<{ seq: number; bytes: number }>(PAGES, { position });
        const events = await eventsOf(tx, seqsOf(keys));
        return [position, { events, upTo: events.at(-1)?.seq ?? newest }] as const;
      });
      return { watermark: JSON.parse(watermark ?? 'null'), newest, handlers, pages: new Map(await Promise.all(pages)) };
    });
  }

  async turn(turn: Turn): Promise<TurnResult> {
    const { ended, fanOut } = turn;
    await this.#parts.signs(turn.boot);
    // They touch different tasks, and wait for each other's lanes at most.
    const [settled, fannedOut] = await Promise.allSettled([
      ended.length > 0 ? this.#write(turn, (tx, counts, now) => settle(tx, ended, now, counts)) : 0,
      fanOut.length > 0 && this.#write(turn, (tx, counts) => this.#fanOut(tx, turn, counts)),
    ]);
    if (settled.status === 'rejected') throw settled.reason;
    if (fannedOut.status === 'rejected') throw fannedOut.reason;
    const isUnsure = this.#isUnsure;
    this.#isUnsure = true;
    const result = await this.#write(turn, async (tx, _, now) => {
      if (isUnsure) await giveBack(tx, turn.boot, turn.claim);
      return this.#claim(tx, turn, now);
    });
    this.#isUnsure = false;
    return { ...result, fenced: settled.value };
  }

  #write<R>({ boot }: Turn, work: (tx: Tx, counts: Counts, now: number) => Promise<R>): Promise<R> {
    return this.#db.write(async (tx) => {
      const counts = new Counts();
      const [, result] = await Promise.all([checkBoot(tx, boot), work(tx, counts, this.#parts.clock.now())]);
      await counts.write(tx);
      return result;
    });
  }

  /** A handler that another instance fans out for is left to it. */
  async #fanOut(tx: Tx, { fanOut, rooms }: Turn, counts: Counts): Promise<void> {
    const lock = this.#db.lock('fan-out', 'cast(@handler as int)', 'try_');
    const mine = fanOut.map(async ({ handler, from }) => {
      // The position is read once the lock is held, and nobody forgets the handler now.
      const [held, known] = await Promise.all([
        tx.get<{ mine: 0 | 1 }>(lock, { handler }),
        tx.get<{ position: number }>('select position from handlers where id = @handler for key share', { handler }),
      ]);
      return held?.mine === 1 && known?.position === from;
    });
    const isMine = await Promise.all(mine);
    const taken = fanOut.filter((_, n) => isMine[n]);
    const tasks = taken.flatMap((one) => {
      const room = rooms.find(({ handler }) => handler === one.handler);
      return one.tasks.map((task) => ({ ...task, dueAt: room ? dueAt(task, room) : NEVER }));
    });
    if (tasks.length > 0) await addTasks(tx, this.#parts.laneKey, tasks, counts);
    const move = 'update handlers set position = @upTo where id = @handler';
    for (const { handler, upTo } of taken) tx.last(move, { handler, upTo });
  }

  async #claim(tx: Tx, turn: Turn, now: number): Promise<Omit<TurnResult, 'fenced'>> {
    const { rooms, suspects } = turn;
    const rowOf = new Map((await tx.all<Row>(HANDLERS)).map((row) => [row.id, row]));
    let claim = turn.claim;
    const number = (): number => claim++;
    const result: Pick<TurnResult, 'claims' | 'more' | 'spare' | 'held'> = {
      claims: [],
      more: false,
      spare: [],
      held: false,
    };
    const open = rooms.map(async (room) => {
      const row = rowOf.get(room.handler);
      if (!row || suspects) return row?.paused === 0 ? room.handler : [];
      // Once caught up, every event up to `look.watermark` has its tasks.
      const isCaughtUp = row.position >= turn.look.newest;
      const passed = room.order === 'strict' ? turn.look.watermark : undefined;
      result.held ||= room.order === 'strict' && row.held === 1;
      result.more ||= row.behindAt !== null;
      if (row.held === 1 && isCaughtUp && passed !== null && (await release(tx, row.id, passed ?? null, now)))
        result.more = true;
      if (row.paused === 1 || (room.order === 'strict' && !isCaughtUp)) return [];
      const upTo = Math.min(now, row.behindAt ?? now);
      const { claims, tasks } = await this.#chains(tx, turn, room, { upTo, suspect: 0, number });
      result.claims.push(...claims);
      if (tasks < room.tasks) result.spare.push(row.id);
      return row.id;
    });
    const ids = (await Promise.all(open)).flat();
    for (const room of suspects ? rooms.filter(({ handler }) => ids.includes(handler)) : [])
      if (result.claims.length === 0)
        ({ claims: result.claims } = await this.#chains(
          tx,
          turn,
          { ...room, tasks: Math.min(1, room.tasks) },
          { upTo: now, suspect: 1, number },
        ));
    const all = rooms.map(({ handler }) => handler);
    const after = await tx.get<Pick<TurnResult, 'nextAt' | 'suspects' | 'erased'>>(AFTER, {
      open: suspects ? [] : ids,
      all,
      now,
      instance: this.#parts.instance,
    });
    return { ...result, nextAt: null, suspects: 0, erased: 0, ...after };
  }

  async #chains(
    tx: Tx,
    { boot }: Turn,
    room: Room,
    { upTo, suspect, number }: { upTo: number; suspect: 0 | 1; number: () => number },
  ): Promise<Chains> {
    const { handler, chain, tasks } = room;
    const found = tasks > 0 ? await tx.all<{ id: number }>(LANES, { handler, suspect, upTo, tasks }) : [];
    const lanes = found.map(({ id }) => id);
    const heads =
      lanes.length > 0 ? (await tx.all<object>(HEADS, { lanes, chain })).map((row) => Object.values(row) as Head) : [];
    const chains = chainsOf(heads, room, { boot, first: number, upTo });
    const claims = chains.claims.map((one, n) => ({ ...one, to: chains.ends[n] }));
    if (claims.length > 0) tx.last(CLAIM, { ...CLAIMS.of(claims), boot });
    return chains;
  }
}
