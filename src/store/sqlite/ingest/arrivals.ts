// Statistics of a batch: types that webhooks brought, types that they should have brought, and first arrivals by day,
// type and origin. Summed in memory and written once a batch.
import type { Incoming } from '../../../wire/event.ts';
import type { Connection } from '../connection.ts';

const DAY_MS = 86_400_000;
/** A sender's clock can be arbitrarily wrong, so lateness is cut off here. */
const LATEST_MS = 3_650 * DAY_MS;

interface Arrivals {
  type: string;
  origin: string;
  events: number;
  aged: number;
  lateMs: number;
  latestMs: number;
}

export function createArrivals(db: Connection) {
  const deliver = db.prepare(`
    insert into types (type, delivered_at) values (?, ?)
    on conflict (type) do update set delivered_at = excluded.delivered_at, missed = 0, missed_since = null`);
  const miss = db.prepare(`
    insert into types (type, missed, missed_since) values (?, ?, ?)
    on conflict (type) do update set missed = missed + excluded.missed, missed_since = coalesce(missed_since, excluded.missed_since)`);
  const arrive = db.prepare(`
    insert into arrivals values (@day, @type, @origin, @events, @aged, @lateMs, @latestMs)
    on conflict (day, type, origin) do update set events = events + @events, aged = aged + @aged,
      late_ms = min(late_ms + @lateMs, ${Number.MAX_SAFE_INTEGER}), latest_ms = max(latest_ms, @latestMs)`);

  return (now: number) => {
    const missed = new Map<string, number>();
    const arrivals: Arrivals[] = [];
    return {
      /** Webhooks brought these types, for the first time or again. */
      delivered(types: string[]): void {
        for (const type of types) deliver.run(type, now);
      },
      /** The event is new. `wasMissed`: a webhook should have brought it before. */
      first({ cursor, origin, type, createdAt }: Incoming, wasMissed: boolean): void {
        if (cursor === null) return;
        if (wasMissed) missed.set(type, (missed.get(type) ?? 0) + 1);
        let sum = arrivals.find((one) => one.type === type && one.origin === origin);
        if (!sum) arrivals.push((sum = { type, origin, events: 0, aged: 0, lateMs: 0, latestMs: 0 }));
        sum.events++;
        if (createdAt === null) return;
        const lateMs = Math.min(Math.max(0, now - createdAt), LATEST_MS);
        sum.aged++;
        sum.lateMs += lateMs;
        sum.latestMs = Math.max(sum.latestMs, lateMs);
      },
      write(): void {
        for (const [type, count] of missed) miss.run(type, count, now);
        for (const sum of arrivals) arrive.run({ day: Math.floor(now / DAY_MS), ...sum });
      },
    };
  };
}
