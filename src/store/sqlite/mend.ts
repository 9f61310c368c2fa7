// How people mend: dead, skipped or waiting tasks run again, or never. In small transactions, and in the order of lanes.
import type { Counts, MendStore, TaskFilter } from '../store.ts';
import { createRouse } from './lanes.ts';
import { idsOf, MATCHING, matchOf } from './selection.ts';
import type { Session, Sync } from './session.ts';

/** Tasks that one transaction of retry or discard moves. */
const STEP = 1_000;

interface MovableRow {
  id: number;
  state: 'dead' | 'skipped' | 'ready';
  lane: number | null;
  name: string | null;
}

export function createMend(session: Session): Sync<MendStore> {
  const { db } = session;
  const rouse = createRouse(session);
  const movable = (...states: (keyof typeof idsOf)[]) =>
    db.prepare<unknown[], MovableRow>(`
    select t.id, t.state, t.lane, l.name
    from tasks t left join lanes l on l.id = t.lane
    where not exists (select 1 from claims where task = t.id) and t.id in (${states.map((state) => idsOf[state]).join(' union all ')}) and t.id > @after and ${MATCHING}
    order by t.id limit ${STEP}`);
  const retriable = movable('dead', 'skipped', 'ready');
  const discardable = movable('dead', 'ready');
  const revive = db.prepare(`
    update tasks set state = 'ready', alone = ?, release_at = ?, due_at = ?, hold_until = null, attempts = 0, deferred = 0,
      changed_at = ? where id = ?`);
  const skip = db.prepare(`update tasks set state = 'skipped', changed_at = ?, error = ? where id = ?`);

  /** Moves tasks in small transactions, so that a hundred thousand of them do not keep deliveries waiting. */
  function move(
    list: typeof retriable,
    filter: TaskFilter,
    now: number,
    step: (row: MovableRow, counts: Counts) => void,
  ): number {
    let moved = 0;
    let after = 0;
    const match = matchOf(filter, now);
    for (;;) {
      const rows = session.write(() => {
        const found = list.all({ ...match, after });
        const counts: Counts = {};
        for (const row of found) step(row, counts);
        session.count(counts);
        return found;
      });
      moved += rows.length;
      after = rows.at(-1)?.id ?? after;
      if (rows.length < STEP) return moved;
    }
  }

  return {
    retry: (filter, now) =>
      move(retriable, filter, now, (row, counts) => {
        counts[`tasks.${row.state}`] = (counts[`tasks.${row.state}`] ?? 0) - 1;
        counts['tasks.ready'] = (counts['tasks.ready'] ?? 0) + 1;
        if (row.id < Number(session.fact('oldest'))) session.setFact('oldest', row.id);
        // Back in its lane, where its cursor decides whose turn it is. Its lane may have been swept meanwhile.
        const inLane = row.lane !== null && row.name !== null;
        revive.run(inLane ? 0 : 1, now, now, now, row.id);
        if (inLane && row.lane !== null) rouse(row.lane);
      }),
    discard: (filter, reason, now) =>
      move(discardable, filter, now, (row, counts) => {
        counts[`tasks.${row.state}`] = (counts[`tasks.${row.state}`] ?? 0) - 1;
        counts['tasks.skipped'] = (counts['tasks.skipped'] ?? 0) + 1;
        skip.run(now, `discarded: ${reason}`, row.id);
        if (row.lane !== null) rouse(row.lane);
      }),
  };
}
