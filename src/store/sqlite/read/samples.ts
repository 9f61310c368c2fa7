// Samples of the counters for the charts: a row every ten seconds for a day, every minute for eight days. Written by
// `keep` alone.
import { ACK_NAMES } from '../../../base/latency-buckets.ts';
import type { Sample, ReadStore } from '../../read.ts';
import type { Session, Sync } from '../session.ts';

const TEN_SECONDS_MS = 10_000;
const MINUTE_MS = 60_000;
const DAY_MS = 86_400_000;
const KEPT_DAYS = 8;

export function createSamples(session: Session): Sync<Pick<ReadStore, 'sample' | 'samples'>> {
  const { db } = session;
  const counters = db.prepare<[], { name: string; value: number }>('select name, value from counters');
  const insert = db.prepare('insert or replace into samples (at, figures) values (?, ?)');
  const thin = db.prepare(`delete from samples where at < ? and at % ${MINUTE_MS} <> 0`);
  const drop = db.prepare('delete from samples where at < ?');
  // `figures` comes from the row with max(at): SQLite takes a column without aggregate from that row.
  const list = db.prepare<unknown[], { at: number; figures: string }>(`
    select max(at) as at, figures from samples where at >= ? and at <= ? group by at / cast(? as integer) order by 1`);

  return {
    sample(now) {
      const at = now - (now % TEN_SECONDS_MS);
      const n = Object.fromEntries(counters.all().map(({ name, value }) => [name, value]));
      const of = (name: string): number => n[name] ?? 0;
      const refused = Object.entries(n).reduce(
        (sum, [name, value]) => sum + (name.startsWith('refused.') ? value : 0),
        0,
      );
      const figures: Omit<Sample, 'at'> = {
        accepted: of('accepted'),
        duplicates: of('duplicates'),
        refused,
        quarantined: of('quarantined'),
        handled: of('tasks.done') + of('pruned.done'),
        acks: ACK_NAMES.map(of),
      };
      session.write(() => {
        insert.run(at, JSON.stringify(figures));
        if (at % MINUTE_MS !== 0) return;
        thin.run(now - DAY_MS);
        drop.run(now - KEPT_DAYS * DAY_MS);
      });
    },
    samples: (from, to, stepMs) =>
      list.all(from, to, stepMs).map(({ at, figures }) => ({ at, ...(JSON.parse(figures) as Omit<Sample, 'at'>) })),
  };
}
