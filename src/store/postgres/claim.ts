// Due lanes are claimed, oldest first, and of each lane its due tasks from the head on. Lanes that another process holds
// or looks at are passed over. Nothing is written to the tasks.
import type { Cursor } from '../../wire/cursor.ts';
import type { Sql } from '../sql.ts';
import type { Claim, Claimed } from '../work.ts';
import { columnsOf } from './values.ts';

/** What one handler can take: tasks that were due then. */
export interface Wish {
  handler: number;
  chain: number;
  tasks: number;
  upTo: number;
}

interface Head extends Omit<Claimed, 'late' | 'notes'> {
  lane: number;
  handler: number;
  cursor: Cursor;
  late: 0 | 1;
  dueAt: number;
  notes: string | null;
}

/** A lane is locked in one statement, and its tasks are read in the next: together they would be those of before. */
const LANES = `select l.id, l.handler from unnest(cast(@handler as bigint[]), cast(@tasks as bigint[]), cast(@upTo as bigint[]))
    as v (handler, tasks, up_to)
  cross join lateral (select id, handler from lanes
    where handler = v.handler and suspect = @suspect and due_at <= v.up_to order by due_at limit v.tasks
    for update skip locked) l`;

const HEADS = `select l.id as lane, l.handler, t.event, cast(t.cursor as text) as cursor, t.due_at as "dueAt", t.crashes,
    t.attempts, t.failed_at as "failedAt", t.notes, t.rerun = 0 and (t.late = 1 or t.cursor < l.done_cursor) as late
  from unnest(cast(@lane as bigint[]), cast(@chain as bigint[])) with ordinality as v (lane, chain, n)
  join lanes l on l.id = v.lane
  cross join lateral (select * from tasks where lane = l.id and state = 0 order by cursor limit v.chain) t
  order by v.n, t.cursor`;

/** The claims are numbered from `first` on. */
export async function claim(tx: Sql, boot: number, first: number, wishes: Wish[], suspect: 0 | 1): Promise<Claim[]> {
  if (wishes.length === 0) return [];
  const lanes = await tx.all<{ id: number; handler: number }>(LANES, {
    ...columnsOf(wishes, 'handler', 'tasks', 'upTo'),
    suspect,
  });
  const of = new Map(wishes.map((wish) => [wish.handler, wish]));
  const asked = lanes.map(({ id: lane, handler }) => ({ lane, chain: of.get(handler)?.chain ?? 1 }));
  const heads = lanes.length === 0 ? [] : await tx.all<Head>(HEADS, columnsOf(asked, 'lane', 'chain'));
  const { claims, ends } = chainsOf(heads, of, boot, first);
  if (claims.length === 0) return [];
  const rows = claims.map((one, n) => ({ ...one, to: ends[n] }));
  await tx.run(
    `update lanes set due_at = null, boot = @boot, claim = v.claim, claimed_to = v.to
    from unnest(cast(@lane as bigint[]), cast(@claim as bigint[]), cast(@to as bigint[])) as v (lane, claim, "to")
    where lanes.id = v.lane`,
    { ...columnsOf(rows, 'lane', 'claim', 'to'), boot },
  );
  return claims;
}

/** A chain ends before a task that is not due, before a suspect, and where the room ends. */
function chainsOf(
  heads: Head[],
  wishes: Map<number, Wish>,
  boot: number,
  first: number,
): { claims: Claim[]; ends: Cursor[] } {
  const claims: Claim[] = [];
  const ends: Cursor[] = [];
  const taken = new Map<number, number>();
  let lane: number | undefined;
  let isOpen = false;
  for (const { lane: id, handler, cursor, dueAt, late, notes, ...task } of heads) {
    const { tasks: most = 0, upTo = 0 } = wishes.get(handler) ?? {};
    const n = taken.get(handler) ?? 0;
    const isHead = id !== lane;
    lane = id;
    isOpen = dueAt <= upTo && n < most && (isHead || (isOpen && task.crashes === 0));
    if (!isOpen) continue;
    if (isHead) claims.push({ lane: id, boot, claim: first + claims.length, handler, tasks: [] });
    ends[claims.length - 1] = cursor;
    const noted = notes === null ? {} : (JSON.parse(notes) as Claimed['notes']);
    claims.at(-1)?.tasks.push({ ...task, late: late === 1, notes: noted });
    taken.set(handler, n + 1);
  }
  return { claims, ends };
}
