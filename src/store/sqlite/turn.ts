// A turn of `run`: one transaction that settles, fans out and claims. It works on what `look` has read before.
import type { Clock } from '../../base/clock.ts';
import type { Cursor } from '../../wire/cursor.ts';
import { COUNT, Counts } from '../counts.ts';
import { dueAt } from '../lanes.ts';
import { EVENT, pageOf, toEvent, type EventRow } from '../rows.ts';
import { StoreError } from '../store.ts';
import type { HandlerRow, Look, StoredEvent, Turn, TurnResult, WorkStore } from '../work.ts';
import type { Claiming } from './claim.ts';
import type { Db } from './database.ts';
import type { Lanes, Tasks } from './lanes.ts';
import type { Settle } from './settle.ts';
import type { State } from './state.ts';

/** Events that a handler takes up in one turn. */
const PAGE = 256;

export interface TurnParts {
  clock: Clock;
  state: State;
  lanes: Lanes;
  settle: Settle;
  tasks: Tasks;
  claiming: Claiming;
}

type Claimed = Omit<TurnResult, 'fenced' | 'erased' | 'suspects'>;

const statements = (db: Db) => ({
  handlers: db.sql<Omit<HandlerRow, 'paused'> & { paused: number }>(
    "select id, name, position, paused from handlers where state = 'loaded' order by id",
  ),
  stands: db.value<number>('select 1 from boots where id = ?'),
  count: db.sql(COUNT),
  newest: db.value<number>('select coalesce(max(seq), 0) from events'),
  page: db.sql<EventRow>(`select ${EVENT} from events e where seq > ? order by seq limit ${PAGE}`),
  event: db.sql<EventRow>(`select ${EVENT} from events e where seq = ?`),
  /** When the first event after a handler's position was received. Later events were received later. */
  receipt: db.value<number>('select received_at from events where seq > ? order by seq limit 1'),
});

export class Turns implements Pick<WorkStore, 'look' | 'turn' | 'events'> {
  readonly #db: Db;
  readonly #parts: TurnParts;
  readonly #sql: ReturnType<typeof statements>;

  constructor(db: Db, parts: TurnParts) {
    this.#db = db;
    this.#parts = parts;
    this.#sql = statements(db);
  }

  look(wanted: number[]): Promise<Look> {
    return this.#db.read(() => {
      const newest = this.#sql.newest.get() ?? 0;
      const handlers = this.#handlers();
      const mine = handlers.filter(({ id, position }) => wanted.includes(id) && position < newest);
      const behind = new Set(mine.map(({ position }) => position));
      const pages = new Map([...behind].map((position) => [position, this.#page(position, newest)]));
      const watermark = this.#parts.state.get('watermark') as Cursor | null;
      return { watermark, newest, handlers, pages };
    });
  }

  events(seqs: number[]): Promise<StoredEvent[]> {
    return this.#db.query(() => seqs.flatMap((seq) => this.#sql.event.all(seq).map(toEvent)));
  }

  turn(turn: Turn): Promise<TurnResult> {
    const { settle, claiming } = this.#parts;
    return this.#db.write(
      () => {
        const now = this.#parts.clock.now();
        if (this.#sql.stands.get(turn.boot) === undefined) throw new StoreError('orphan', 'another run has taken over');
        const counts = new Counts();
        const fenced = settle.all(turn.ended, now, counts);
        this.#fanOut(turn, counts);
        const result = turn.suspects ? this.#claimSuspect(turn, now) : this.#claim(turn, now);
        for (const changes of counts.list()) this.#sql.count.run(changes);
        const wanted = turn.rooms.map(({ handler }) => handler);
        return {
          ...result,
          suspects: claiming.suspects(wanted, now),
          fenced,
          erased: Number(this.#parts.state.get('erased')),
        };
      },
      { synced: false },
    );
  }

  #handlers(): HandlerRow[] {
    return this.#sql.handlers.all().map((row) => ({ ...row, paused: row.paused === 1 }));
  }

  #page(position: number, newest: number): { events: StoredEvent[]; upTo: number } {
    const { events, isWhole } = pageOf(this.#sql.page.iterate(position), PAGE);
    return { events, upTo: isWhole ? newest : (events.at(-1)?.seq ?? newest) };
  }

  #fanOut({ fanOut, rooms }: Turn, counts: Counts): void {
    const { tasks, lanes } = this.#parts;
    const touched = new Set<number>();
    for (const { handler, from, upTo, tasks: list } of fanOut) {
      const room = rooms.find((one) => one.handler === handler);
      if (room && tasks.move(handler, from, upTo))
        for (const task of list) tasks.add(task, dueAt(task, room), counts, touched);
    }
    for (const lane of touched) lanes.touch(lane);
  }

  #claim(turn: Turn, now: number): Claimed {
    const { tasks, claiming } = this.#parts;
    const result: Claimed = { claims: [], more: false, nextAt: null, spare: [], held: false };
    const rows = new Map(this.#handlers().map((row) => [row.id, row]));
    for (const room of turn.rooms) {
      const row = rows.get(room.handler);
      if (!row) continue;
      // Once caught up, every event up to `look.watermark` has its tasks.
      const isCaughtUp = row.position >= turn.look.newest;
      if (isCaughtUp && tasks.release(row.id, room.order, turn.look.watermark, now) === 'more') result.more = true;
      if (room.order === 'strict') result.held ||= tasks.areHeld(row.id);
      const behindAt = this.#sql.receipt.get(row.position);
      result.more ||= behindAt !== undefined;
      if (row.paused || (room.order === 'strict' && !isCaughtUp)) continue;
      const first = turn.claim + result.claims.length;
      const { claims, tasks: taken } = claiming.live(turn.boot, first, room, Math.min(now, behindAt ?? now));
      result.claims.push(...claims);
      if (taken < room.tasks) result.spare.push(row.id);
      const nextAt = claiming.nextAt(row.id, now);
      if (nextAt !== null) result.nextAt = Math.min(nextAt, result.nextAt ?? Infinity);
    }
    return result;
  }

  #claimSuspect(turn: Turn, now: number): Claimed {
    const open = this.#handlers().filter(({ paused }) => !paused);
    const rooms = turn.rooms.filter(({ handler, tasks }) => tasks > 0 && open.some(({ id }) => id === handler));
    const claimed = this.#parts.claiming.suspect(turn.boot, turn.claim, rooms, now);
    return { claims: claimed ? [claimed] : [], more: false, nextAt: null, spare: [], held: false };
  }
}
