// The instances of the kit that share the store, and which of them leads: its `run` runs handlers, and its `keep`
// reconciles, prunes and raises alarms. All times are the database's, so the clocks of the instances may differ.
import { readFileSync } from 'node:fs';
import { hostname } from 'node:os';
import type { Instance, ProcessStore, Standing } from '../processes.ts';
import { isoOf, type Session } from '../sql/session.ts';
import { NOW, requireAdmitted } from './connection.ts';

const { version: VERSION } = JSON.parse(readFileSync(new URL('../../../package.json', import.meta.url), 'utf8')) as {
  version: string;
};
/** An instance without a sign of life for this long is lost. */
const LIVES_MS = 3_000;
/** Milliseconds between two signs of life. */
const AGAIN_MS = 250;
/**
 * An instance that got no answer for longer than `gap` takes no other for lost before `patience` has passed: the server may
 * have been away for all of them.
 */
const AWAY_MS = { gap: 2_000, patience: 1_000 };
/** Handlers are noted as seen no more often than this. */
const SEEN_MS = 60_000;
/** Lost instances are shown for this long, and so many instances at most. */
const SHOWN_MS = 86_400_000;
const SHOWN = 100;

/**
 * The name of the row that gives the right to lead. A transaction that needs the right locks it for key share, and whoever
 * takes the right away deletes it. So the taker waits for these transactions, and later ones find no row.
 */
export const fenceOf = (schema: string, instance: number): string => `; select cast(case when count(*) = 1
  then '1' else 'not leading' end as int) from (
    select 1 from ${schema}.lead l join ${schema}.instances i on i.instance = l.instance
    where l.instance = ${instance} and i.until_at > ${NOW} for key share of l) as mine`;

interface Seen {
  mine: number;
  leader: number | null;
  until: number | null;
  now: number;
  version: number;
  oldest: number;
}

type InstanceRow = Pick<Instance, 'instance' | 'name' | 'version' | 'handlers'> &
  Record<'since' | 'leads', number> & { lost: number | null; roles: string | null };

/** `instance`: the number of this instance. 0: it has not joined. */
type Members = Pick<ProcessStore, 'lead' | 'resign' | 'leave' | 'instances'> & { instance(): number };

// oxlint-disable-next-line max-lines-per-function -- one statement each, beside the method that runs it
export function createMembers(session: Session, schema: string): Members {
  const looks = `(select instance from lead) as leader,
      (select until_at from instances i where i.instance in (select instance from lead)) as until, ${NOW} as now,
      (select version from ${schema}.version) as version, (select oldest from ${schema}.version) as oldest`;
  const beat = session.statement<Seen>(`
    with me as (
      update instances set until_at = ${NOW} + ${LIVES_MS}, handlers = @handlers
      where instance = @me and lost_at is null returning instance
    ), mine as (
      update handlers set seen_at = ${NOW} where name = any(cast(@handlers as text[])) and seen_at < ${NOW} - ${SEEN_MS}
    ) select (select count(*) from me) as mine, ${looks}`);
  const seen = session.statement<Omit<Seen, 'mine'>>(`select ${looks}`);
  const join = session.value<number>(`
    insert into instances (name, version, since, until_at) values (?, ?, ${NOW}, ${NOW} + ${LIVES_MS}) returning instance`);
  const lose = session.statement<{ instance: number; name: string }>(`
    update instances set lost_at = until_at - ${LIVES_MS} where until_at < ${NOW} and lost_at is null and instance <> ?
    returning instance, name`);
  // An instance replaces one lost instance, if it joined after the last sign of life of that one.
  const replace = session.statement(`
    with heir as (
      update instances set replaces = 1 where instance = (
        select i.instance from instances i where i.lost_at is null and i.replaces = 0
          and i.since > (select l.lost_at from instances l where l.instance = @lost) order by i.since limit 1)
      returning 1
    ) delete from instances where instance = @lost and exists (select 1 from heir)`);
  const oldestLost = session.value<number>(
    'select instance from instances where lost_at is not null order by lost_at limit 1',
  );
  // The name holds the pid, so a lost instance of the same name was this one, or one that has ended.
  const forget = session.statement(
    `delete from instances where lost_at is not null and (lost_at < ${NOW} - ${SHOWN_MS} or name = ?)`,
  );
  const tidy = ['processes', 'boots'].map((table) =>
    session.statement(`delete from ${table} where instance <> 0 and instance not in (select instance from instances)`),
  );
  const depose = session.statement('delete from lead');
  const follow = session.statement('insert into lead values (?)');
  const resign = session.statement('delete from lead where instance = ?');
  const leave = session.statement('delete from instances where instance = ?');
  // A process that was taken for lost counts on in its memory.
  const carryOn = session.statement(`
    update state set name = split_part(name, '@', 1) || '@' || cast(@me as text)
    where name like '%@' || cast(@before as text)`);
  const gone = session.statement('delete from processes where instance = ?');
  const lock = session.statement(`select 1 from locks where name = 'lead' for update`);
  // If no instance is up, nobody has noted that the others are lost.
  const all = session.statement<InstanceRow>(`
    select i.instance, i.name, i.version, i.since, i.handlers, case when i.until_at < ${NOW} then i.until_at - ${LIVES_MS} end as lost,
      case when i.until_at >= ${NOW} and exists (select 1 from lead l where l.instance = i.instance) then 1 else 0 end as leads,
      (select string_agg(role, ' ' order by role) from processes p
        where p.instance = i.instance and p.beat_at > ${NOW} - 5000) as roles
    from instances i order by i.lost_at is not null, i.lost_at desc, i.instance limit ${SHOWN}`);
  let me = 0;
  /** When the last answer came, and until when this instance takes no other for lost; monotonic milliseconds. */
  let answeredAt = Infinity;
  let patientUntil = -Infinity;

  /** Nobody leads, or the leader gives no sign of life. A time too far ahead was written by a clock that was set back. */
  const isVacant = ({ leader, until, now }: Omit<Seen, 'mine'>): boolean =>
    leader === null || until === null || until < now || until > now + 2 * LIVES_MS;

  /** One sign of life. */
  async function renew(handlers: string[]): Promise<Seen | undefined> {
    const look = await beat.get({ me, handlers });
    if (look) requireAdmitted(look, session.path);
    return look;
  }

  async function enter(): Promise<void> {
    await session.write(async () => {
      const name = `${hostname()}:${process.pid}`;
      await forget.run(name);
      for (const statement of tidy) await statement.run();
      const before = me;
      me = (await join.get(name, VERSION)) ?? 0;
      if (before > 0) await carryOn.run({ me, before });
      const lost = await oldestLost.get();
      if (lost !== undefined) await replace.run({ lost });
    });
  }

  /** True: this instance leads now. Open transactions of the leader before it end first. */
  async function takeOver(): Promise<boolean> {
    return session.write(async () => {
      // Two instances that see the lead vacant come one after another, and the second sees the first.
      await lock.all();
      const now = await seen.get();
      if (now) requireAdmitted(now, session.path);
      if (!now || !isVacant(now)) return false;
      await depose.run();
      await follow.run(me);
      return true;
    });
  }

  return {
    instance: () => me,
    async lead(mayLead, handlers = []): Promise<Standing> {
      let look = me === 0 ? undefined : await renew(handlers);
      if (!look || look.mine === 0) {
        await enter();
        look = await renew(handlers);
      }
      const now = performance.now();
      if (now - answeredAt > AWAY_MS.gap) patientUntil = now + AWAY_MS.patience;
      answeredAt = now;
      const isSteady = now >= patientUntil;
      const vacant = look !== undefined && look.leader !== me && isVacant(look) && (isSteady || look.leader === null);
      const leads = look?.leader === me || (mayLead && vacant && (await takeOver()));
      const lost = leads && isSteady ? await lose.all(me) : [];
      for (const { instance } of lost) await replace.run({ lost: instance });
      return { instance: me, leads, lost: lost.map(({ name }) => name), againMs: AGAIN_MS };
    },
    async resign() {
      await resign.run(me);
    },
    async instances() {
      const rows = await all.all();
      return rows.map(({ roles, since, lost, leads, ...one }) => {
        const times = { since: isoOf(since), lostAt: lost === null ? null : isoOf(lost) };
        return { ...one, ...times, leads: leads === 1, processes: roles?.split(' ') ?? [] };
      });
    },
    async leave() {
      await session.write(async () => {
        await resign.run(me);
        await gone.run(me);
        await leave.run(me);
      });
    },
  };
}
