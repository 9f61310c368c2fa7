// Third step of a turn: due lanes are claimed, oldest first, and of each lane its due tasks from the head on. Nothing is
// written to the tasks.
import type { Cursor } from '../../wire/cursor.ts';
import type { Claim, Claimed, Hold, Room } from '../work.ts';
import type { Db } from './database.ts';
import { NEVER, type Lanes } from './lanes.ts';

/** A tuple, which costs half of an object. */
type Head = [
  event: number,
  cursor: Cursor,
  dueAt: number,
  late: 0 | 1,
  crashes: number,
  attempts: number,
  failedAt: number | null,
  notes: string | null,
];

const statements = (db: Db) => ({
  due: db.value<number>(
    'select id from lanes where handler = ? and suspect = ? and due_at <= ? order by due_at limit ?',
  ),
  heads: db
    .sql<Head>(`select event, cast(cursor as text), due_at,
      rerun = 0 and (late = 1 or cursor < (select done_cursor from lanes where id = @lane)), crashes, attempts, failed_at, notes
    from tasks where lane = @lane and state = 0 order by cursor limit @limit`)
    .raw(),
  claim: db.sql(`update lanes set due_at = null, boot = @boot, claim = @claim, claimed_to = cast(@to as integer)
    where id = @lane`),
  next: db.value<number>(`select due_at from lanes where handler = ? and suspect = 0 and due_at > ? and due_at < ${NEVER}
    order by due_at limit 1`),
  waiting: db.value<number>(
    'select count(*) from (select 1 from lanes where handler = ? and suspect = 1 and due_at <= ? limit 8)',
  ),
  apart: db.value<number>("select count(*) from lanes where boot in (select id from boots where role <> 'live')"),
});

export class Claiming {
  readonly #lanes: Lanes;
  readonly #sql: ReturnType<typeof statements>;

  constructor(db: Db, lanes: Lanes) {
    this.#lanes = lanes;
    this.#sql = statements(db);
  }

  /** Claims for one handler what was due at `upTo`. The claims are numbered from `first` on. */
  live(boot: number, first: number, room: Room, upTo: number): { claims: Claim[]; tasks: number } {
    const claims: Claim[] = [];
    let tasks = 0;
    for (const lane of room.tasks > 0 ? this.#sql.due.all(room.handler, 0, upTo, room.tasks) : []) {
      if (tasks >= room.tasks) break;
      const claimed = this.#one({ lane, boot, claim: first + claims.length }, room, upTo);
      if (!claimed) continue;
      claims.push(claimed);
      tasks += claimed.tasks.length;
    }
    return { claims, tasks };
  }

  /** One task whose process died, of any of these handlers. */
  suspect(boot: number, claim: number, rooms: Room[], now: number): Claim | null {
    for (const room of rooms) {
      const [lane] = this.#sql.due.all(room.handler, 1, now, 1);
      if (lane !== undefined) return this.#one({ lane, boot, claim }, { ...room, chain: 1 }, now);
    }
    return null;
  }

  /** When the next lane is due that is not due now. */
  nextAt(handler: number, now: number): number | null {
    return this.#sql.next.get(handler, now) ?? null;
  }

  /** Lanes that wait for a process of their own, at most 8 a handler, and those that have one. */
  suspects(handlers: number[], now: number): number {
    const waiting = handlers.map((handler) => this.#sql.waiting.get(handler, now) ?? 0);
    return waiting.reduce((sum, n) => sum + n, this.#sql.apart.get() ?? 0);
  }

  /** The due tasks of a lane from its head on. It ends before one that is not due, and before a suspect. */
  #one(hold: Hold, room: Room, upTo: number): Claim | null {
    const tasks: Claimed[] = [];
    let to = '-1';
    for (const row of this.#sql.heads.all({ lane: hold.lane, limit: room.chain })) {
      const [event, cursor, dueAt, late, crashes, attempts, failedAt, notes] = row;
      if (dueAt > upTo || (crashes > 0 && tasks.length > 0)) break;
      const noted = notes === null ? {} : (JSON.parse(notes) as Claimed['notes']);
      tasks.push({ event, late: late === 1, crashes, attempts, failedAt, notes: noted });
      to = cursor;
    }
    if (tasks.length === 0) this.#lanes.touch(hold.lane);
    else this.#sql.claim.run({ ...hold, to });
    return tasks.length === 0 ? null : { ...hold, handler: room.handler, tasks };
  }
}
