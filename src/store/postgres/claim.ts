// Third step of a turn: claims due lanes, oldest first, and passes over those that another process holds or looks at.
// Statements for several handlers are sent at once.
import { chainsOf, NEVER, type Chains, type Head } from '../lanes.ts';
import type { Room, Turn, TurnResult } from '../work.ts';
import type { Tx } from './connection.ts';
import { release } from './lanes.ts';
import { HANDLERS, type Row } from './look.ts';
import { rows } from './rows.ts';

/** Lanes are locked in one statement, and their tasks are read in the next: one statement would read old tasks. */
const LANES = `select id from lanes where handler = @handler and suspect = @suspect and due_at <= @upTo
  order by due_at limit @tasks for update skip locked`;
const HEADS = `select l.id, t.event, cast(t.cursor as text) as cursor,
    cast(t.rerun = 0 and (t.late = 1 or t.cursor < l.done_cursor) as int) as late, t.due_at, t.crashes, t.attempts, t.failed_at, t.notes
  from unnest(cast(@lanes as bigint[])) with ordinality as v (id, n) join lanes l on l.id = v.id cross join lateral
    (select *, max(due_at) over (order by cursor) as latest from tasks where lane = l.id and state = 0
      order by cursor limit @chain) t
  where t.latest <= @upTo order by v.n, t.cursor limit @tasks`;
const CLAIMS = rows({ bigint: 'lane claim to' });
const CLAIM = `update lanes set due_at = null, boot = @boot, claim = v.claim, claimed_to = v."to"
  from ${CLAIMS.from} where lanes.id = v.lane`;
/** `suspects`: all processes of this instance up to the last one with a lane, and one for each waiting lane. */
const AFTER = `select (select min(n.due_at) from unnest(cast(@open as bigint[])) v cross join lateral (select due_at from lanes
    where handler = v and suspect = 0 and due_at > @now and due_at < ${NEVER} order by due_at limit 1) n) as "nextAt",
  (select count(*) from unnest(cast(@all as bigint[])) v join handlers h on h.id = v and h.paused = 0 cross join lateral
    (select 1 from lanes where handler = v and suspect = 1 and due_at <= @now limit 8) s)
  + (select coalesce(max(cast(substring(role from 9) as int)), 0) from boots b where instance = @instance
    and role <> 'live' and exists (select 1 from lanes where boot = b.id)) as suspects,
  coalesce((select cast(value as int) from state where name = 'erased'), 0) as erased`;

type By = Parameters<typeof chainsOf>[2];

async function chains(tx: Tx, room: Room, suspect: 0 | 1, by: By): Promise<Chains> {
  const [{ handler, chain, tasks }, { boot, upTo }] = [room, by];
  const found = tasks > 0 ? await tx.all<{ id: number }>(LANES, { handler, suspect, upTo, tasks }) : [];
  const lanes = found.map(({ id }) => id);
  const heads = lanes.length > 0 ? await tx.all<object>(HEADS, { lanes, chain, upTo, tasks }) : [];
  const rowsOf = heads.map((row) => Object.values(row) as Head);
  const taken = chainsOf(rowsOf, room, by);
  const claims = taken.claims.map((one, n) => ({ ...one, to: taken.ends[n] }));
  if (claims.length > 0) tx.last(CLAIM, { ...CLAIMS.of(claims), boot });
  return taken;
}

type Claimed = Pick<TurnResult, 'claims' | 'more' | 'spare' | 'held'>;

export async function claim(tx: Tx, turn: Turn, now: number, instance: string): Promise<Omit<TurnResult, 'fenced'>> {
  const { boot, look, rooms, suspects } = turn;
  const rowOf = new Map((await tx.all<Row>(HANDLERS)).map((row) => [row.id, row]));
  let n = turn.claim;
  const first = (): number => n++;
  const result: Claimed = { claims: [], more: false, spare: [], held: false };

  async function live(room: Room): Promise<number[]> {
    const row = rowOf.get(room.handler);
    if (!row) return [];
    // If the handler has caught up, it has taken up every event up to `look.watermark`.
    const isCaughtUp = row.position >= look.newest;
    const isStrict = room.order === 'strict';
    result.held ||= isStrict && row.held === 1;
    result.more ||= row.behindAt !== null;
    if (row.held === 1 && isCaughtUp && (look.watermark !== null || !isStrict))
      result.more = (await release(tx, row.id, isStrict ? look.watermark : null, now)) || result.more;
    if (row.paused === 1 || (isStrict && !isCaughtUp)) return [];
    const { claims, tasks } = await chains(tx, room, 0, { boot, first, upTo: Math.min(now, row.behindAt ?? now) });
    result.claims.push(...claims);
    if (tasks < room.tasks) result.spare.push(row.id);
    return [row.id];
  }

  const open = suspects ? [] : (await Promise.all(rooms.map(live))).flat();
  for (const room of suspects ? rooms : [])
    if (result.claims.length === 0 && room.tasks > 0 && rowOf.get(room.handler)?.paused === 0)
      result.claims = (await chains(tx, { ...room, tasks: 1 }, 1, { boot, first, upTo: now })).claims;
  const all = rooms.map(({ handler }) => handler);
  const after = await tx.get<Pick<TurnResult, 'nextAt' | 'suspects' | 'erased'>>(AFTER, { open, all, now, instance });
  return { ...result, nextAt: null, suspects: 0, erased: 0, ...after };
}
