// Third step of a turn: claims due lanes, oldest first. A claim takes the lane's due tasks, from the head on. It is written
// to the lane, not to the tasks.
import { chainsOf, HIGHEST, NEVER, type Chains, type Head } from '../lanes.ts';
import type { Claim, HandlerRow, Room, Turn, TurnResult } from '../work.ts';
import type { Db } from './database.ts';
import type { Tasks } from './lanes.ts';

const statements = (db: Db) => ({
  handlers: db.sql<Omit<HandlerRow, 'paused'> & { paused: number }>(
    "select id, name, position, paused from handlers where state = 'loaded' order by id",
  ),
  /** When the first event after a handler's position was received. Later events were received later. */
  receipt: db.value<number>('select received_at from events where seq > ? order by seq limit 1'),
  // One select for many lanes, because a select costs as much as ten rows. The cross join keeps the order of lanes and of
  // tasks. Without a plus before these parameters, SQLite would compile the statement again whenever their values change.
  heads: db
    .sql<Head>(`select l.id, t.event, cast(t.cursor as text),
      t.rerun = 0 and (t.late = 1 or t.cursor < l.done_cursor), t.due_at, t.crashes, t.attempts, t.failed_at, t.notes
    from (select id, done_cursor from lanes where handler = +@handler and suspect = +@suspect and due_at <= @upTo
      order by due_at limit +@lanes) l
    cross join tasks t on t.lane = l.id and t.state = 0 and t.cursor <= coalesce(
      (select cursor from tasks where lane = l.id and state = 0 order by cursor limit 1 offset @chain - 1),
      ${HIGHEST})`)
    .raw(),
  claim: db.sql(`update lanes set due_at = null, boot = ?, claim = ?, claimed_to = cast(? as integer)
    where id = ?`),
  next: db.value<number>(`select due_at from lanes where handler = +? and suspect = 0 and due_at > ? and due_at < ${NEVER}
    order by due_at limit 1`),
  waiting: db.value<number>(`select count(*) from (select 1 from lanes
    where handler = (select id from handlers where id = ? and paused = 0) and suspect = 1 and due_at <= ? limit 8)`),
  last: db.value<number>(`select max(substr(role, 9) + 0) from boots b
    where exists (select 1 from lanes where boot = b.id)`),
});

type Claimed = Omit<TurnResult, 'fenced' | 'erased' | 'suspects'>;

export function createClaiming(db: Db, tasks: Tasks) {
  const sql = statements(db);
  const loaded = (): HandlerRow[] => sql.handlers.all().map((row) => ({ ...row, paused: row.paused === 1 }));

  /** Claims for one handler the lanes that were due at `upTo`. The claims are numbered from `first` on. */
  function claim(boot: number, first: number, room: Room, upTo: number, suspect: 0 | 1): Chains {
    const { handler, chain, tasks: lanes } = room;
    let next = first;
    const heads = lanes > 0 ? sql.heads.iterate({ handler, suspect, upTo, lanes, chain }) : [];
    const chains = chainsOf(heads, room, { boot, first: () => next++, upTo });
    for (const [n, one] of chains.claims.entries()) sql.claim.run(boot, one.claim, chains.ends[n], one.lane);
    return chains;
  }

  return {
    loaded,
    live(turn: Turn, now: number): Claimed {
      const result: Claimed = { claims: [], more: false, nextAt: null, spare: [], held: false };
      const rows = new Map(loaded().map((row) => [row.id, row]));
      for (const room of turn.rooms) {
        const row = rows.get(room.handler);
        if (!row) continue;
        // If the handler has caught up, it has taken up every event up to `look.watermark`.
        const isCaughtUp = row.position >= turn.look.newest;
        if (isCaughtUp && tasks.release(row.id, room.order, turn.look.watermark, now) === 'more') result.more = true;
        if (room.order === 'strict') result.held ||= tasks.areHeld(row.id);
        const behindAt = sql.receipt.get(row.position);
        result.more ||= behindAt !== undefined;
        if (row.paused || (room.order === 'strict' && !isCaughtUp)) continue;
        const first = turn.claim + result.claims.length;
        const { claims, tasks: taken } = claim(turn.boot, first, room, Math.min(now, behindAt ?? now), 0);
        result.claims.push(...claims);
        if (taken < room.tasks) result.spare.push(row.id);
        const nextAt = sql.next.get(row.id, now) ?? Infinity;
        if (nextAt < Infinity) result.nextAt = Math.min(nextAt, result.nextAt ?? Infinity);
      }
      return result;
    },
    suspect({ boot, claim: first, rooms }: Turn, now: number): Claimed {
      const claims: Claim[] = [];
      const open = loaded().flatMap(({ id, paused }) => (paused ? [] : id));
      for (const room of rooms)
        if (claims.length === 0 && room.tasks > 0 && open.includes(room.handler))
          claims.push(...claim(boot, first, { ...room, tasks: 1 }, now, 1).claims);
      return { claims, more: false, nextAt: null, spare: [], held: false };
    },
    /** How many processes for suspects must run: all up to the last one with a lane, and one for each waiting lane. */
    suspects(handlers: number[], now: number): number {
      const waiting = handlers.map((handler) => sql.waiting.get(handler, now) ?? 0);
      return waiting.reduce((sum, n) => sum + n, sql.last.get() ?? 0);
    },
  };
}
