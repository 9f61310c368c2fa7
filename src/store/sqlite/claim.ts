// Third step of a turn: claims due lanes, oldest first. A claim takes the lane's due tasks, from the head on. It is written
// to the lane, not to the tasks.
import { chainsOf, NEVER, type Head } from '../lanes.ts';
import type { Claim, Room } from '../work.ts';
import type { Db } from './database.ts';

const statements = (db: Db) => ({
  // One select for many lanes, because each costs as much as ten rows. The cross join keeps the order of lanes and of tasks.
  // The pluses stop SQLite from compiling the statement again for each new value in a limit or beside an `order by`.
  heads: db
    .sql<Head>(`select l.id, t.event, cast(t.cursor as text),
      t.rerun = 0 and (t.late = 1 or t.cursor < l.done_cursor), t.due_at, t.crashes, t.attempts, t.failed_at, t.notes
    from (select id, done_cursor from lanes where handler = +@handler and suspect = +@suspect and due_at <= @upTo
      order by due_at limit +@lanes) l
    cross join tasks t on t.lane = l.id and t.state = 0 and t.cursor <= coalesce(
      (select cursor from tasks where lane = l.id and state = 0 order by cursor limit 1 offset @chain - 1),
      9223372036854775807)`)
    .raw(),
  claim: db.sql(`update lanes set due_at = null, boot = ?, claim = ?, claimed_to = cast(? as integer)
    where id = ?`),
  next: db.value<number>(`select due_at from lanes where handler = +? and suspect = 0 and due_at > ? and due_at < ${NEVER}
    order by due_at limit 1`),
  waiting: db.value<number>(`select count(*) from (select 1 from lanes
    where handler = ? and suspect = 1 and due_at <= ? limit 8)`),
  last: db.value<number>(`select max(substr(role, 9) + 0) from boots b
    where exists (select 1 from lanes where boot = b.id)`),
});

export class Claiming {
  readonly #sql: ReturnType<typeof statements>;

  constructor(db: Db) {
    this.#sql = statements(db);
  }

  /** Claims for one handler the lanes that were due at `upTo`. The claims are numbered from `first` on. */
  live(boot: number, first: number, room: Room, upTo: number): { claims: Claim[]; tasks: number } {
    return room.tasks > 0 ? this.#claim(boot, first, room, upTo, 0) : { claims: [], tasks: 0 };
  }

  /** Claims one task whose process died, of any of these handlers. */
  suspect(boot: number, claim: number, rooms: Room[], now: number): Claim | null {
    for (const room of rooms) {
      const [claimed] = this.#claim(boot, claim, { ...room, tasks: 1 }, now, 1).claims;
      if (claimed) return claimed;
    }
    return null;
  }

  /** When the next lane will be due, of those that are not due now. */
  nextAt(handler: number, now: number): number | null {
    return this.#sql.next.get(handler, now) ?? null;
  }

  /** How many processes for suspects must run: the lanes that wait for one, plus the number of the last one with a lane. */
  suspects(handlers: number[], now: number): number {
    const waiting = handlers.map((handler) => this.#sql.waiting.get(handler, now) ?? 0);
    return waiting.reduce((sum, n) => sum + n, this.#sql.last.get() ?? 0);
  }

  #claim(boot: number, first: number, room: Room, upTo: number, suspect: 0 | 1): { claims: Claim[]; tasks: number } {
    const { handler, chain, tasks: lanes } = room;
    let next = first;
    const heads = this.#sql.heads.iterate({ handler, suspect, upTo, lanes, chain });
    const { claims, ends, tasks } = chainsOf(heads, room, { boot, first: () => next++, upTo });
    for (const [n, { lane, claim }] of claims.entries()) this.#sql.claim.run(boot, claim, ends[n], lane);
    return { claims, tasks };
  }
}
