// Retries and discards: dead, skipped or waiting tasks run again or become skipped, in the order of their lanes.
import { readDelivery, readItem, type Origin } from '../../../wire/event.ts';
import type { Cursor } from '../../../wire/cursor.ts';
import type { Accepted, Batch } from '../../ingest.ts';
import type { Counts } from '../../state.ts';
import type { AdminStore } from '../../admin.ts';
import { createAttempts } from '../work/attempts.ts';
import { createMarkDirty } from '../work/waiting.ts';
import { idsOf, MATCHING, matchOf } from '../read/selection.ts';
import type { Session, Sync } from '../session.ts';

type State = 'dead' | 'skipped' | 'ready';
interface MovableRow {
  id: number;
  state: State;
  lane: number | null;
  deadGroup: number | null;
  /** The lane's name; null: the lane was removed. */
  name: string | null;
}

type Fixing = Pick<AdminStore, 'matching' | 'retry' | 'discard' | 'closeGap' | 'retryQuarantined'>;

export function createRetry(session: Session, readmit: (batch: Batch) => Accepted[]): Sync<Fixing> {
  const { db } = session;
  const markDirty = createMarkDirty(session);
  const attemptLog = createAttempts(session);
  const matching = (ids: string) =>
    session.value<number>(`
      select t.id from tasks t
      where t.id in (${ids}) and not exists (select 1 from claims where task = t.id) and ${MATCHING}
      order by t.cursor, t.id`);
  // Dead tasks need no check for claims, and there can be so many that further conditions would cost time.
  const dead = (which: string) =>
    session.value<number>(`
      select id from tasks where ${which} and (@handler is null or handler = (select id from handlers where name = @handler))
        and (@ids is null or id in (select value from json_each(@ids))) order by cursor, id`);
  const lists = {
    dead: dead(`state in ('dead', 'skipped') and state = 'dead'`),
    skipped: matching(idsOf.skipped),
    ready: matching(idsOf.ready),
    group: dead(`state = 'dead' and dead_group = @group`),
    any: matching([idsOf.dead, idsOf.skipped, idsOf.ready].join(' union all ')),
  };
  const movable = db.prepare<unknown[], MovableRow>(`
    select t.id, t.state, t.lane, t.dead_group as deadGroup, l.name from json_each(@ids) as chosen cross join tasks t on t.id = chosen.value
      left join lanes l on l.id = t.lane
    where t.state in (select value from json_each(@states)) and not exists (select 1 from claims where task = t.id)`);
  const revive = db.prepare(`
    update tasks set state = 'ready', alone = ?, release_at = ?, due_at = ?, hold_until = null, attempts = 0, crashes = 0, deferred = 0,
      dead_group = null, changed_at = ? where id = ?`);
  // A strict task that a person retries does not wait for the watermark. Nor do its lane's tasks with a lower cursor.
  const waive = db.prepare(`
    update lane_progress set unproven = max(unproven, t.cursor) from tasks t
    where t.id = ? and t.strict = 1 and lane_progress.lane = t.lane`);
  const skip = db.prepare(
    `update tasks set state = 'skipped', changed_at = ?, error = ?, dead_group = null where id = ?`,
  );

  const closeGap = db.prepare('update gaps set closed_at = ?, closed_by = ? where id = ? and closed_at is null');
  const aside = db.prepare<unknown[], { origin: Origin; cursor: Cursor | null; body: Uint8Array }>(
    'select origin, cast(cursor as text) as cursor, body from quarantine where id = ?',
  );
  const leave = db.prepare('delete from quarantine where id = ?');
  const explain = db.prepare('update quarantine set reason = ? where id = ?');

  function move(ids: number[], states: State[], to: 'ready' | 'skipped', step: (row: MovableRow) => void): number {
    return session.write(() => {
      const rows = movable.all({ ids: JSON.stringify(ids), states: JSON.stringify(states) });
      const counts: Counts = { [`tasks.${to}`]: rows.length };
      const left = new Map<number, number>();
      for (const row of rows) {
        step(row);
        if (row.deadGroup !== null) left.set(row.deadGroup, (left.get(row.deadGroup) ?? 0) + 1);
        counts[`tasks.${row.state}`] = (counts[`tasks.${row.state}`] ?? 0) - 1;
      }
      for (const [group, tasks] of left) attemptLog.leaveGroup(group, tasks);
      session.count(counts);
      return rows.length;
    });
  }

  return {
    matching(filter, now) {
      const match = matchOf(filter, now);
      const { state } = match;
      const known = state === 'dead' || state === 'skipped' || state === 'ready';
      const list = match.group !== null ? lists.group : known ? lists[state] : lists.any;
      return list.all(match);
    },
    retry: (ids, now) =>
      move(ids, ['dead', 'skipped', 'ready'], 'ready', ({ id, lane, name }) => {
        if (id < Number(session.state('oldest'))) session.setState('oldest', id);
        // The task goes back into its lane, in cursor order. If the lane was removed meanwhile, it runs alone.
        const inLane = lane !== null && name !== null;
        revive.run(inLane ? 0 : 1, now, now, now, id);
        attemptLog.retried(id, now);
        if (!inLane) return;
        waive.run(id);
        markDirty(lane);
      }),
    closeGap: (id, by, now) => closeGap.run(now, by, id).changes === 1,
    retryQuarantined: (id, now) =>
      session.write(() => {
        const row = aside.get(id);
        if (!row) return undefined;
        const { origin, cursor, body } = row;
        const item = origin === 'replay' || origin === 'stream';
        const reading =
          item && cursor !== null ? readItem(origin, cursor, Buffer.from(body).toString()) : readDelivery(body);
        if ('unreadable' in reading) {
          explain.run(reading.unreadable.reason, id);
          return { verdict: 'quarantined' };
        }
        const [accepted] = readmit({ readings: [reading], now });
        if (accepted?.verdict === 'quarantined') return accepted;
        leave.run(id);
        session.count({ quarantined: -1 });
        return accepted;
      }),
    discard: (ids, reason, now) =>
      move(ids, ['dead', 'ready'], 'skipped', ({ id, lane }) => {
        skip.run(now, `discarded: ${reason}`, id);
        if (lane !== null) markDirty(lane);
      }),
  };
}
