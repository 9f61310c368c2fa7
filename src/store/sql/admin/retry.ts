// Retries and discards: dead, skipped or waiting tasks run again or become skipped, in the order of their lanes.
import { readDelivery, readItem, type Origin } from '../../../wire/event.ts';
import type { Cursor } from '../../../wire/cursor.ts';
import type { Accepted, Batch } from '../../ingest.ts';
import { addTo, type Counts } from '../../state.ts';
import type { AdminStore } from '../../admin.ts';
import { createAttempts } from '../work/attempts.ts';
import { createMarkDirty } from '../work/waiting.ts';
import { createByTime } from '../read/by-time.ts';
import { matchOf, selectionOf } from '../read/selection.ts';
import type { Session } from '../session.ts';

type State = 'done' | 'dead' | 'skipped' | 'ready';
interface MovableRow {
  id: number;
  state: State;
  handler: string;
  lane: number | null;
  /** The same; null: the lane was removed. */
  inLane: number | null;
  deadGroup: number | null;
}

type Fixing = Pick<AdminStore, 'matching' | 'retry' | 'discard' | 'closeGap' | 'retryQuarantined'>;

// oxlint-disable-next-line max-lines-per-function -- one statement each, beside the method that runs it
export function createRetry(session: Session, readmit: (batch: Batch) => Promise<Accepted[]>): Fixing {
  const { dialect } = session;
  const { MATCHING, OLD, idsOf } = selectionOf(dialect);
  const listed = dialect.oneOf('@ids', 'bigint');
  const markDirty = createMarkDirty(session);
  const attemptLog = createAttempts(session);
  const { lastBefore } = createByTime(session);
  const matching = (ids: string) =>
    session.value<number>(`
      select t.id from tasks t
      where t.id in (${ids}) and not exists (select 1 from claims where task = t.id) and ${MATCHING}
      order by t.cursor nulls first, t.id`);
  // Dead tasks need no check for claims, and there can be so many that further conditions would cost time.
  const dead = (which: string) =>
    session.value<number>(`
      select t.id from tasks t where ${which} and ${OLD} and t.changed_at <= @changedBy
        and (cast(@handler as text) is null or t.handler = (select id from handlers where name = @handler))
        and (@all = 1 or t.id ${listed}) order by t.cursor nulls first, t.id`);
  const lists = {
    dead: dead(`state in ('dead', 'skipped') and state = 'dead'`),
    skipped: matching(idsOf.skipped),
    ready: matching(idsOf.ready),
    group: dead(`state = 'dead' and dead_group = @group`),
    any: matching([idsOf.dead, idsOf.skipped, idsOf.ready].join(' union all ')),
    // A done task runs again only by its id, and only if its event still has its body.
    done: session.value<number>(`
      select t.id from tasks t join events e on e.seq = t.event and e.body is not null
      where t.state = 'done' and t.id ${listed} and ${OLD} and t.changed_at <= @changedBy
        and (cast(@handler as text) is null or t.handler = (select id from handlers where name = @handler)) order by t.cursor nulls first, t.id`),
  };
  const movable = session.statement<MovableRow>(`
    select t.id, t.state, h.name as handler, t.lane, l.id as "inLane", t.dead_group as "deadGroup"
    from tasks t join handlers h on h.id = t.handler left join lanes l on l.id = t.lane
    where t.id ${listed} and t.state ${dialect.oneOf('@states', 'text')} and not exists (select 1 from claims where task = t.id)
      and (t.state <> 'done' or exists (select 1 from events where seq = t.event and body is not null))
    order by t.id`);
  // The task goes back into its lane, in cursor order. If the lane was removed meanwhile, it runs alone.
  const revive = session.statement(`
    update tasks set state = 'ready', alone = case when exists (select 1 from lanes where id = tasks.lane) then 0 else 1 end,
      release_at = @now, due_at = @now, hold_until = null, attempts = 0, crashes = 0, losses = 0, deferred = 0, dead_group = null,
      changed_at = @now
    where id ${listed}`);
  // A strict task that a person retries does not wait for the watermark. Nor do its lane's tasks with a lower cursor.
  const waive = session.statement(`
    update lane_progress set unproven = ${dialect.max}(unproven, retried.cursor) from (
      select lane, max(cursor) as cursor from tasks
      where id ${listed} and strict = 1 and cursor is not null and lane in (select id from lanes) group by lane) as retried
    where lane_progress.lane = retried.lane`);
  const skip = session.statement(`
    update tasks set state = 'skipped', changed_at = @now, error = @error, dead_group = null where id ${listed}`);

  const closeGap = session.statement('update gaps set closed_at = ?, closed_by = ? where id = ? and closed_at is null');
  const aside = session.statement<{ origin: Origin; cursor: Cursor | null; body: Uint8Array }>(
    'select origin, cast(cursor as text) as cursor, body from quarantine where id = ?',
  );
  const leave = session.statement('delete from quarantine where id = ?');
  const explain = session.statement('update quarantine set reason = ? where id = ?');

  type Step = (ids: number[], rows: MovableRow[]) => Promise<void>;
  const move = (given: number[], states: State[], to: 'ready' | 'skipped', step: Step): Promise<number> =>
    session.write(async () => {
      const rows = await movable.all({ ids: given, states });
      if (rows.length === 0) return 0;
      const ids = rows.map(({ id }) => id);
      await step(ids, rows);
      for (const [group, { length }] of Map.groupBy(rows, ({ deadGroup }) => deadGroup))
        if (group !== null) await attemptLog.leaveGroup(group, length);
      const counts: Counts = {};
      for (const { state, handler } of rows) {
        addTo(counts, `tasks.${state}`, -1);
        addTo(counts, `tasks.${to}`);
        addTo(counts, `waiting.${handler}`, Number(to === 'ready') - Number(state === 'ready'));
      }
      await session.count(counts);
      return rows.length;
    }, 'work');

  return {
    async matching(filter, now) {
      const { receivedBefore } = filter;
      const match = matchOf(filter, now, receivedBefore === undefined ? undefined : await lastBefore(receivedBefore));
      const { state } = match;
      const known = state === 'dead' || state === 'skipped' || state === 'ready' || state === 'done';
      const list = match.group !== null ? lists.group : known ? lists[state] : lists.any;
      return list.all(match);
    },
    retry: (given, now, done = false) =>
      move(given, done ? ['done'] : ['dead', 'skipped', 'ready'], 'ready', async (ids, rows) => {
        const [oldest = Infinity] = ids;
        if (oldest < Number(await session.state('oldest'))) await session.setState('oldest', oldest);
        await revive.run({ ids, now });
        await attemptLog.retried(ids, now);
        await waive.run({ ids });
        await markDirty(rows.flatMap(({ inLane }) => inLane ?? []));
      }),
    discard: (given, reason, now) =>
      move(given, ['dead', 'ready'], 'skipped', async (ids, rows) => {
        await skip.run({ ids, error: `discarded: ${reason}`, now });
        await markDirty(rows.flatMap(({ lane }) => lane ?? []));
      }),
    closeGap: (id, by, now) => session.write(async () => (await closeGap.run(now, by, id)) === 1, 'door'),
    retryQuarantined: (id, now) =>
      session.write(async (): Promise<Accepted | undefined> => {
        const row = await aside.get(id);
        if (!row) return undefined;
        const { origin, cursor, body } = row;
        const item = origin === 'replay' || origin === 'stream';
        // Nothing can make an item readable that has no cursor, so it keeps its reason.
        if (item && cursor === null) return { verdict: 'quarantined' };
        const reading = item && cursor !== null ? readItem(origin, cursor, Buffer.from(body)) : readDelivery(body);
        if ('unreadable' in reading) {
          await explain.run(reading.unreadable.reason, id);
          return { verdict: 'quarantined' };
        }
        const [accepted] = await readmit({ readings: [reading], now });
        if (accepted?.verdict === 'quarantined') return accepted;
        await leave.run(id);
        await session.count({ quarantined: -1 });
        return accepted;
      }, 'door'),
  };
}
