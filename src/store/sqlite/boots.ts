// Who runs handlers: one living boot per role. An ended boot frees its lanes. A death makes suspects of its running tasks.
import { StoreError } from '../store.ts';
import type { Role } from '../work.ts';
import type { Db } from './database.ts';
import type { Counters } from './counters.ts';
import type { Lanes } from './lanes.ts';

/** What a death adds to `crashes` of the tasks that were running. At `most` a task is dead. */
const WEIGHT = { ofRun: 4, ofKit: 1, most: 12 };

export type Boots = ReturnType<typeof createBoots>;

export function createBoots(db: Db, lanes: Lanes) {
  const standing = db.value<number>('select 1 from boots where id = ?');
  const ofRole = db.value<number>('select id from boots where role = ?');
  const all = db.value<number>('select id from boots');
  const insert = db.value<number>('insert into boots (role, seen_at) values (?, ?) returning id');
  const remove = db.sql('delete from boots where id = ?');
  const held = db.value<number>('select id from lanes where boot = ?');
  const free = db.sql('update lanes set boot = null, claim = null, claimed_to = null where id = ?');
  const blame = db.sql<{
    event: number;
    handler: number;
    crashes: number;
  }>(`update tasks set crashes = crashes + @weight
    where lane = @lane and state = 0 and due_at <= @now and cursor <= (select claimed_to from lanes where id = @lane)
    returning event, handler, crashes`);
  const kill = db.sql(`update tasks set state = 3, ended_at = @now, error = 'its process died each time that it ran'
    where event = @event and handler = @handler`);
  const passed = db.sql(`update lanes set done_cursor = max(done_cursor,
    (select cursor from tasks where event = @event and handler = @handler)) where id = @lane`);

  function giveBack(boot: number): void {
    for (const lane of held.all(boot)) {
      free.run(lane);
      lanes.touch(lane);
    }
    remove.run(boot);
  }

  return {
    /** Throws `orphan` if a newer process has this boot's role. */
    check(boot: number): void {
      if (standing.get(boot) === undefined) throw new StoreError('orphan', 'another run has taken over');
    },
    giveBack,
    take(
      role: Role,
      restart: boolean,
      now: number,
      counters: Counters,
    ): { boot: number; suspects: number; dead: number } {
      const judged = { suspects: 0, dead: 0 };
      const weight = restart ? WEIGHT.ofRun : WEIGHT.ofKit;
      for (const boot of restart ? ofRole.all(role) : all.all()) {
        for (const lane of held.all(boot))
          for (const { event, handler, crashes } of blame.all({ lane, weight, now })) {
            judged.suspects++;
            if (crashes < WEIGHT.most) continue;
            judged.dead++;
            kill.run({ event, handler, now });
            passed.run({ event, handler, lane });
            counters.add(handler, 'waiting', -1);
            counters.add(handler, 'dead', 1);
          }
        giveBack(boot);
      }
      return { boot: insert.get(role, now) ?? 0, ...judged };
    },
  };
}
