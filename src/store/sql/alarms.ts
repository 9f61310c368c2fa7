// The alarm role of the store.
import type { AlarmStore, RaisedAlarm } from '../alarms.ts';
import { EVENT_KEY, type Session } from './session.ts';

export function createAlarmStore(session: Session): Omit<AlarmStore, 'brokenHandlers' | 'failingHeads'> {
  const newestDeadGroup = session.statement<{ id: number; handler: string; error: string | null }>(`
    select c.id, h.name as handler, t.error from dead_groups c join handlers h on h.id = c.handler
      join tasks t on t.id = (select id from tasks where dead_group = c.id and state = 'dead' order by changed_at desc, id desc limit 1)
    where c.dead > 0 order by c.id desc limit 1`);
  const lastContradicted = session.value<string>(
    `select ${EVENT_KEY} from conflicts c join events e on e.seq = c.seq order by c.id desc limit 1`,
  );
  const raised = session.statement<Omit<RaisedAlarm, 'cleared'> & { cleared: number }>(
    'select name, detail, since, told_at as "toldAt", level, news, cleared from alarms',
  );
  const raise = session.statement(`
    insert into alarms (name, since, detail) values (@name, @now, @detail) on conflict (name) do update set
      detail = excluded.detail, since = case when alarms.cleared = 1 then excluded.since else alarms.since end, cleared = 0`);
  const clear = session.statement('update alarms set cleared = 1 where name = ?');
  const told = session.statement('update alarms set told_at = ?, level = ?, news = ? where name = ?');
  const forget = session.statement('delete from alarms where name = ?');

  return {
    raise: async (name, detail, now) => void (await raise.run({ name, detail, now })),
    clear: async (name) => void (await clear.run(name)),
    told: async (name, level, news, now) => void (await told.run(now, level, news, name)),
    forget: async (name) => void (await forget.run(name)),
    raised: async () => (await raised.all()).map((alarm) => ({ ...alarm, cleared: alarm.cleared === 1 })),
    async newestDeadGroup() {
      const row = await newestDeadGroup.get();
      return row ? { id: row.id, handler: row.handler, error: row.error ?? '' } : null;
    },
    lastContradicted: async () => (await lastContradicted.get()) ?? null,
  };
}
