// The read role of the store, for people and programs. Figures come from counters, pages are read by keyset, and no query
// scans more than a fixed number of rows.
import type { AlarmStore } from '../../alarms.ts';
import type { Arrivals, Gap, Quarantined, ReadStore } from '../../read.ts';
import { isoOf, type Session } from '../session.ts';
import { createEvents } from './events.ts';
import { createHandlerReads } from './handlers.ts';
import { createStatus } from './status.ts';
import { createTasks } from './tasks.ts';

type AsideRow = Omit<Quarantined, 'receivedAt'> & { received_at: number };

export function createReadStore(
  session: Session,
): Omit<ReadStore, 'sample' | 'samples'> & Pick<AlarmStore, 'failingHeads'> {
  const tasks = createTasks(session);
  const handlers = createHandlerReads(session, tasks.waitingLanes);
  return { ...createStatus(session), ...createEvents(session), ...tasks, ...handlers, ...createAsides(session) };
}

function createAsides(session: Session): Pick<ReadStore, 'quarantine' | 'quarantined' | 'gaps' | 'arrivals'> {
  type GapRow = Pick<Gap, 'id' | 'after' | 'upTo' | 'reason' | 'closedBy'> & {
    opened_at: number;
    closed_at: number | null;
  };
  const gapList = session.statement<GapRow>(`
    select id, cast(after as text) as after, cast(up_to as text) as "upTo", reason, opened_at, closed_at, closed_by as "closedBy"
    from gaps order by id`);
  // Weeks begin on Monday: day 4 after 1970-01-01 was one.
  const arrivals = session.statement<Omit<Arrivals, 'week'> & { week: number }>(`
    select day - (day + 3) % 7 as week, type, origin, cast(sum(events) as bigint) as events,
      case when sum(aged) > 0 then cast(sum(late_ms) as bigint) / cast(sum(aged) as bigint) end as "lateMs",
      case when sum(aged) > 0 then max(latest_ms) end as "latestMs"
    from arrivals group by 1, type, origin order by 1 desc, type, origin`);
  const aside = 'select id, received_at, origin, cast(cursor as text) as cursor, reason, length(body) as bytes';
  const quarantine = session.statement<AsideRow>(`${aside} from quarantine order by id desc limit ?`);
  const quarantined = session.statement<AsideRow & { body: Uint8Array }>(`${aside}, body from quarantine where id = ?`);

  return {
    quarantine: async (limit) => (await quarantine.all(limit)).map(toQuarantined),
    async quarantined(id) {
      const row = await quarantined.get(id);
      return row && toQuarantined(row);
    },
    gaps: async () =>
      (await gapList.all()).map(({ opened_at, closed_at, upTo, ...gap }) => {
        return { ...gap, upTo, openedAt: isoOf(opened_at), closedAt: closed_at === null ? null : isoOf(closed_at) };
      }),
    arrivals: async () =>
      (await arrivals.all()).map((sum) => ({ ...sum, week: isoOf(sum.week * 86_400_000).slice(0, 10) })),
  };
}

function toQuarantined<Row extends AsideRow>({ received_at: at, ...row }: Row): Omit<Row, 'received_at'> & Quarantined {
  return { ...row, receivedAt: isoOf(at) };
}
