// Moves a handler's tasks to another handler, for example after a rename, together with its lanes and their progress.
import type { Counts } from '../../state.ts';
import type { AdminStore } from '../../admin.ts';
import { createAttempts } from '../work/attempts.ts';
import type { Session, Sync } from '../session.ts';
import { createMarkDirty, HANDLERS } from '../work/waiting.ts';

interface GivenRow {
  id: number;
  event: number;
  state: 'ready' | 'dead' | 'skipped';
  lane: number | null;
  deadGroup: number | null;
}

export function createMove(session: Session): Sync<Pick<AdminStore, 'giveTo' | 'giveLanes'>> {
  const { db } = session;
  const markDirty = createMarkDirty(session);
  const attemptLog = createAttempts(session);
  const idOf = session.value<number>('select id from handlers where name = ?');
  const given = db.prepare<unknown[], GivenRow>(`
    select id, event, state, lane, dead_group as deadGroup from tasks where id in (select value from json_each(?)) and state <> 'done'
      and not exists (select 1 from claims where task = tasks.id)`);
  const taken = session.value<number>('select 1 from tasks where id = ?');
  const give = db.prepare('update tasks set id = @to, handler = @handler, lane = @lane where id = @id');
  const skip = db.prepare(
    `update tasks set state = 'skipped', changed_at = ?, error = ?, dead_group = null where id = ?`,
  );
  const lane = session.value<number>(`
    insert into lanes (handler, name, rerun) select @handler, name, rerun from lanes where id = @lane
    on conflict (name, handler, rerun) do update set name = excluded.name returning id`);
  const progress = db.prepare(`
    insert into lane_progress select @id, finished, unproven, @now from lane_progress where lane = @lane
    on conflict (lane) do update set finished = max(finished, excluded.finished),
      unproven = max(unproven, excluded.unproven), used_at = excluded.used_at`);
  const lanesOf = session.value<number>('select id from lanes where handler = ? and id > ? order by id limit ?');

  /** The id of the handler's lane named like lane `old`. If that lane was removed: `old`, an id never reused. */
  function laneFor(old: number, handler: number, now: number): number {
    const id = lane.get({ lane: old, handler }) ?? old;
    if (id !== old) progress.run({ id, lane: old, now });
    markDirty(old);
    markDirty(id);
    return id;
  }

  function handlerOf(name: string): number {
    const id = idOf.get(name);
    if (id === undefined) throw new Error(`there is no handler ${name}: npx kit tasks shows whose tasks there are`);
    return id;
  }

  return {
    giveTo: (ids, name, now) =>
      session.write(() => {
        const handler = handlerOf(name);
        const counts: Counts = {};
        let moved = 0;
        for (const { id, event, state, lane: old, deadGroup } of given.all(JSON.stringify(ids))) {
          const to = event * HANDLERS + handler;
          if (taken.get(to) === undefined) {
            give.run({ id, to, handler, lane: old === null ? null : laneFor(old, handler, now) });
            attemptLog.given(id, to, handler, deadGroup);
            moved++;
          } else if (state !== 'skipped') {
            skip.run(now, `${name} has its own task of this event`, id);
            if (deadGroup !== null) attemptLog.leaveGroup(deadGroup, 1);
            if (old !== null) markDirty(old);
            counts[`tasks.${state}`] = (counts[`tasks.${state}`] ?? 0) - 1;
            counts['tasks.skipped'] = (counts['tasks.skipped'] ?? 0) + 1;
          }
        }
        session.count(counts);
        return moved;
      }),
    giveLanes: (from, to, after, limit, now) =>
      session.write(() => {
        const handler = handlerOf(to);
        const ids = lanesOf.all(handlerOf(from), after, limit);
        for (const id of ids) laneFor(id, handler, now);
        return ids.length === limit ? (ids.at(-1) ?? null) : null;
      }),
  };
}
