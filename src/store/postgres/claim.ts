// Due lanes are claimed, oldest first, and of each lane its due tasks from the head on. Lanes that another process holds or
// looks at are passed over. Nothing is written to the tasks.
import type { Cursor } from '../../wire/cursor.ts';
import type { Claim, Claimed } from '../work.ts';
import type { Tx } from './connection.ts';
import { rows } from './rows.ts';

/** What one handler can take, of what was due then. */
export type Wish = Record<'handler' | 'chain' | 'tasks' | 'upTo', number>;

interface Head extends Omit<Claimed, 'late' | 'notes'> {
  lane: number;
  handler: number;
  cursor: Cursor;
  late: 0 | 1;
  dueAt: number;
  notes: string | null;
}

const WISHES = rows({ bigint: 'handler tasks upTo' });
/** A lane is locked in one statement, and its tasks are read in the next: together they would be those of before. */
const LANES = `select l.* from ${WISHES.from} cross join lateral (select id as lane, handler from lanes
  where handler = v.handler and suspect = @suspect and due_at <= v."upTo" order by due_at limit v.tasks
  for update skip locked) l`;
const CHAINS = rows({ bigint: 'lane chain' });
const HEADS = `select l.id as lane, l.handler, t.event, cast(t.cursor as text) as cursor, t.due_at as "dueAt", t.crashes,
    t.attempts, t.failed_at as "failedAt", t.notes, t.rerun = 0 and (t.late = 1 or t.cursor < l.done_cursor) as late
  from ${CHAINS.from} join lanes l on l.id = v.lane cross join lateral
    (select * from tasks where lane = l.id and state = 0 order by cursor limit v.chain) t order by v.n, t.cursor`;
const CLAIMS = rows({ bigint: 'lane claim to' });
const CLAIM = `update lanes set due_at = null, boot = @boot, claim = v.claim, claimed_to = v."to"
  from ${CLAIMS.from} where lanes.id = v.lane`;

/** The claims are numbered from `first` on. */
export async function claim(tx: Tx, boot: number, first: number, wishes: Wish[], suspect: 0 | 1): Promise<Claim[]> {
  if (wishes.length === 0) return [];
  const of = new Map(wishes.map((wish) => [wish.handler, wish]));
  const lanes = await tx.all<{ lane: number; handler: number }>(LANES, { ...WISHES.of(wishes), suspect });
  const chains = lanes.map(({ lane, handler }) => ({ lane, chain: of.get(handler)?.chain }));
  const heads = lanes.length === 0 ? [] : await tx.all<Head>(HEADS, CHAINS.of(chains));
  const { claims, ends } = chainsOf(heads, of, boot, first);
  if (claims.length > 0) tx.last(CLAIM, { ...CLAIMS.of(claims.map((one, n) => ({ ...one, to: ends[n] }))), boot });
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
  const room = new Map([...wishes].map(([handler, { tasks }]) => [handler, tasks]));
  let before: number | undefined;
  let isOpen = false;
  for (const { lane, handler, cursor, dueAt, late, notes, ...task } of heads) {
    const left = room.get(handler) ?? 0;
    const isHead = lane !== before;
    before = lane;
    isOpen = dueAt <= (wishes.get(handler)?.upTo ?? 0) && left > 0 && (isHead || (isOpen && task.crashes === 0));
    if (!isOpen) continue;
    if (isHead) claims.push({ lane, boot, claim: first + claims.length, handler, tasks: [] });
    ends[claims.length - 1] = cursor;
    room.set(handler, left - 1);
    const noted = notes === null ? {} : (JSON.parse(notes) as Claimed['notes']);
    claims.at(-1)?.tasks.push({ ...task, late: late === 1, notes: noted });
  }
  return { claims, ends };
}
