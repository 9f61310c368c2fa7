// What is learnt from each batch: which types webhooks bring and which they lately missed, and what each origin brought
// first, by day and type. Added up in memory, written once a batch.
import type { Incoming } from '../../../wire/event.ts';
import type { Session } from '../session.ts';

const DAY_MS = 86_400_000;
/** A sender's clock can say anything: nothing is later than this. */
const LATEST_MS = 3_650 * DAY_MS;

interface Arrivals {
  type: string;
  origin: string;
  events: number;
  aged: number;
  lateMs: number;
  latestMs: number;
}

export interface Tally {
  /** A webhook brought it, for the first time or again. */
  delivered(event: Incoming): void;
  /** It was new; `missed`: though a webhook should have brought it before. */
  first(event: Incoming, missed: boolean): void;
  write(): void;
}

export function createTally({ db }: Session): (now: number) => Tally {
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

  return (now) => {
    const delivered = new Set<string>();
    const missed = new Map<string, number>();
    const arrivals = new Map<string, Arrivals>();
    return {
      delivered({ cursor, type }) {
        // A test event is no part of the history, and neither is an event that the kit sent itself.
        if (cursor !== null) delivered.add(type);
      },
      first({ cursor, origin, type, createdAt }, wasMissed) {
        if (cursor === null) return;
        if (wasMissed) missed.set(type, (missed.get(type) ?? 0) + 1);
        const key = `${origin} ${type}`;
        let sum = arrivals.get(key);
        if (!sum) arrivals.set(key, (sum = { type, origin, events: 0, aged: 0, lateMs: 0, latestMs: 0 }));
        sum.events++;
        if (createdAt === null) return;
        const lateMs = Math.min(Math.max(0, now - createdAt), LATEST_MS);
        sum.aged++;
        sum.lateMs += lateMs;
        sum.latestMs = Math.max(sum.latestMs, lateMs);
      },
      write() {
        for (const [type, count] of missed) miss.run(type, count, now);
        for (const type of delivered) deliver.run(type, now);
        for (const sum of arrivals.values()) arrive.run({ day: Math.floor(now / DAY_MS), ...sum });
      },
    };
  };
}
