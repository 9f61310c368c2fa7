// The alarm role of the store.
import type { AlarmStore, RaisedAlarm } from '../alarms.ts';
import { EVENT_KEY, type Session, type Sync } from './session.ts';

export function createAlarmStore({ db, value }: Session): Sync<Omit<AlarmStore, 'brokenHandlers'>> {
  const newestDeadGroup = db.prepare<[], { id: number; handler: string; error: string | null }>(`
    select c.id, h.name as handler, t.error from dead_groups c join handlers h on h.id = c.handler
      join tasks t on t.id = (select max(id) from tasks where dead_group = c.id and state = 'dead')
    where c.dead > 0 order by c.id desc limit 1`);
  const lastContradicted = value<string, []>(
    `select ${EVENT_KEY} from conflicts c join events e on e.seq = c.seq order by c.id desc limit 1`,
  );
  const raised = db.prepare<[], Omit<RaisedAlarm, 'cleared'> & { cleared: number }>(
    'select name, detail, since, told_at as toldAt, level, news, cleared from alarms',
  );
  const raise = db.prepare(`
    insert into alarms (name, since, detail) values (@name, @now, @detail) on conflict (name) do update set
      detail = @detail, since = case when cleared then @now else since end, cleared = 0`);
  const clear = db.prepare('update alarms set cleared = 1 where name = ?');
  const told = db.prepare('update alarms set told_at = ?, level = ?, news = ? where name = ?');
  const forget = db.prepare('delete from alarms where name = ?');

  return {
    raise: (name, detail, now) => void raise.run({ name, detail, now }),
    clear: (name) => void clear.run(name),
    told: (name, level, news, now) => void told.run(now, level, news, name),
    forget: (name) => void forget.run(name),
    raised: () => raised.all().map((alarm) => ({ ...alarm, cleared: alarm.cleared === 1 })),
    newestDeadGroup() {
      const row = newestDeadGroup.get();
      return row ? { id: row.id, handler: row.handler, error: row.error ?? '' } : null;
    },
    lastContradicted: () => lastContradicted.get() ?? null,
  };
}
