// How attempts ended. A task that ended never waits again by itself; a lane that is free again is due when its head is.
import type { Sql } from '../sql.ts';
import type { Claim, Ended, Outcome } from '../work.ts';
import type { Counts } from './counts.ts';
import { dropOwn, HEAD, lock, ownLane, place, touch } from './lanes.ts';
import { columnsOf } from './values.ts';

/** Of a task, by how it ended. */
export const STATE = { again: 0, done: 1, skipped: 2, dead: 3 } as const;

/** By the state of a task. */
export const NAMES = { 1: 'done', 2: 'skipped', 3: 'dead' } as const;

/** What an outcome makes of its task. */
interface Change {
  event: number;
  handler: number;
  /** The claimed one. */
  lane: number;
  state: (typeof STATE)[keyof typeof STATE];
  error: string | null;
  dueAt: number | null;
  spent: number;
  /** Where the task goes if it steps aside, and whether it does so in any case. */
  own: number;
  aside: boolean;
}

type Changed = Pick<Change, 'event' | 'handler' | 'lane' | 'state' | 'error'> & {
  /** The lane that it is in now. */
  now: number;
  dueAt: number;
  cursor: bigint;
  failed: number;
};

/** Resolves with the number of outcomes whose claim no longer held. They changed nothing. */
export async function settle(tx: Sql, ended: Ended[], now: number, counts: Counts): Promise<number> {
  const locked = new Map((await lock(tx, new Set(ended.map(({ claim }) => claim.lane)))).map((row) => [row.id, row]));
  const holds = ({ lane, boot, claim }: Claim): boolean =>
    locked.get(lane)?.boot === boot && locked.get(lane)?.claim === claim;
  const held = ended.filter(({ claim }) => holds(claim));
  const changed = await change(
    tx,
    held.flatMap(({ claim, outcomes }) => outcomes.flatMap((outcome) => changeOf(outcome, claim))),
    now,
  );
  for (const { handler, state, failed } of changed) {
    if (state === 0) counts.add(handler, 'failed', failed);
    else counts.ended(handler, NAMES[state]);
  }
  await addAttempts(tx, changed, now);
  const aside = changed.filter((task) => task.lane !== task.now);
  if (aside.length > 0)
    await touch(
      tx,
      await place(
        tx,
        aside.map(({ now: id, ...task }) => ({ ...task, id })),
      ),
    );
  await free(tx, held, [...changed.filter(({ state }) => state > 0), ...aside]);
  return ended.filter(({ claim }) => !holds(claim)).reduce((sum, { outcomes }) => sum + outcomes.length, 0);
}

/** None: it is written already. */
function changeOf(outcome: Outcome, { handler, lane }: Claim): Change[] {
  if (outcome.as === 'completed') return [];
  const { event, error, as } = outcome;
  const { dueAt = null, spent = true, aside = false } = outcome as Partial<Outcome & { as: 'again' }>;
  return [
    { event, handler, lane, state: STATE[as], error, dueAt, spent: Number(spent), own: ownLane(handler, event), aside },
  ];
}

/** A task of a rerun that fails holds up no live work, and steps aside. */
export async function change(tx: Sql, changes: Change[], now: number): Promise<Changed[]> {
  if (changes.length === 0) return [];
  const goes = 'v.state = 0 and t.lane >= 0 and (v.aside = 1 or t.rerun = 1)';
  const rows = await tx.all<Changed & { cursor: string }>(
    `update tasks t set state = v.state, attempts = t.attempts + v.spent, due_at = coalesce(v.due_at, t.due_at),
      ended_at = case when v.state > 0 then cast(@now as bigint) end,
      failed_at = case when v.state > 0 then t.failed_at else coalesce(t.failed_at, @now) end,
      error = case when (select body is null from events where seq = t.event) then 'erased' else v.error end,
      lane = case when ${goes} then v.own else t.lane end, late = case when ${goes} then 1 else t.late end
    from unnest(cast(@event as bigint[]), cast(@handler as bigint[]), cast(@lane as bigint[]), cast(@state as bigint[]),
      cast(@error as text[]), cast(@dueAt as bigint[]), cast(@spent as bigint[]), cast(@own as bigint[]), cast(@aside as int[]))
      as v (event, handler, lane, state, error, due_at, spent, own, aside)
    where t.event = v.event and t.handler = v.handler and t.state = 0
    returning t.event, t.handler, v.lane, t.lane as now, t.state, t.due_at as "dueAt", t.error,
      cast(t.cursor as text) as cursor, case when t.state = 0 then v.spent else cast(t.state = 3 as int) end as failed`,
    {
      ...columnsOf(changes, 'event', 'handler', 'lane', 'state', 'error', 'dueAt', 'spent', 'own', 'aside'),
      now,
    },
  );
  return rows.map((row) => ({ ...row, cursor: BigInt(row.cursor) }));
}

/** Those that failed and count. */
export async function addAttempts(tx: Sql, changed: Changed[], now: number): Promise<void> {
  const failed = changed.filter((one) => one.failed === 1);
  if (failed.length === 0) return;
  await tx.run(
    `insert into attempts select event, handler,
      coalesce((select max(n) from attempts a where a.event = v.event and a.handler = v.handler), 0) + 1, @now, error
    from unnest(cast(@event as bigint[]), cast(@handler as bigint[]), cast(@error as text[])) as v (event, handler, error)`,
    { ...columnsOf(failed, 'event', 'handler', 'error'), now },
  );
}

/** Lanes note how far they have come, and those whose chain is over are free. */
async function free(tx: Sql, held: Ended[], passed: Changed[]): Promise<void> {
  const highest = new Map<number, bigint>();
  for (const { lane, cursor } of passed) if (cursor > (highest.get(lane) ?? -1n)) highest.set(lane, cursor);
  const freed = new Set(held.flatMap(({ claim, free: isOver }) => (isOver ? claim.lane : [])));
  const rows = [...new Set([...freed, ...highest.keys()])].map((id) => ({ id, cursor: highest.get(id) ?? -1n }));
  const update = (ids: typeof rows, more: string): Promise<unknown> | undefined =>
    ids.length === 0
      ? undefined
      : tx.run(
          `update lanes set done_cursor = greatest(done_cursor, v.cursor)${more}
          from unnest(cast(@id as bigint[]), cast(@cursor as bigint[])) as v (id, cursor) where lanes.id = v.id`,
          columnsOf(ids, 'id', 'cursor'),
        );
  const over = `, boot = null, claim = null, claimed_to = null, (due_at, suspect) = ${HEAD}`;
  await update(
    rows.filter(({ id }) => !freed.has(id)),
    '',
  );
  await update(
    rows.filter(({ id }) => freed.has(id)),
    over,
  );
  await dropOwn(tx, [...freed]);
}
