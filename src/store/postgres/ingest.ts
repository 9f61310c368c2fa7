// How PostgreSQL inserts arriving events: one statement for all that is new. Two receivers never number events at the same
// time, because each transaction holds the lock of the door: so the numbers follow the order of the commits, and whoever
// reads on from a number misses nothing. Without the lock, an event with a lower number could appear later.
import type { Incoming, Reading } from '../../wire/event.ts';
import type { Batch } from '../ingest.ts';
import type { Counts } from '../state.ts';
import { firstMentions, typesOf, type Arriving, type EventTable } from '../sql/ingest/arriving.ts';
import { isPage } from '../sql/ingest/events.ts';
import { bind, type Session } from '../sql/session.ts';

const DAY_MS = 86_400_000;
/** A sender's clock can be arbitrarily wrong, so lateness is cut off here. */
const LATEST_MS = 3_650 * DAY_MS;

type How = Parameters<EventTable['insert']>[1];

/** The state value of a cursor, as a number. */
const stateOf = (name: string): string => `(select cast(value as bigint) from state where name = '${name}')`;

/**
 * Inserts what is new, and counts it. `@n` are the positions in the arrays. An event is left out if its cursor, its id or
 * an alias is known, or its cursor is at or below the floor. While history is being read, nothing is inserted if
 * `@careful` is 1: each event may then narrow the range in which history ends. `limit 1`: for `exists`, the server may choose
 * to read the whole table.
 */
const INSERT = `
  with facts as materialized (
    select case when w.pruned is null or w.top is null then null else least(w.pruned, w.top) end as floor,
      exists (select 1 from aliases) as aliased,
      @careful = 0 or not exists (select 1 from state where name = 'history_reading' and value = 'open') as goes
    from (select ${stateOf('pruned_to')} as pruned, greatest(${stateOf('watermark')}, cast(@watermark as bigint)) as top) as w
  ), input as materialized (
    select nextval('SCHEMA.event_seq') as seq, i.*, substring(cast(@bodies as bytea) from i.at for i.len) as body
    from unnest(cast(@cursors as bigint[]), cast(@ids as text[]), cast(@types as text[]), cast(@sessions as text[]),
      cast(@created as bigint[]), cast(@origins as text[]), cast(@flags as text[]), cast(@secrets as int[]),
      cast(@skews as bigint[]), cast(@lives as int[]), cast(@ats as int[]), cast(@lengths as int[]))
      as i (cursor, id, type, session_id, created_at, origin, flags, secret, skew_s, live, at, len)
  ), fresh as (
    insert into events (seq, cursor, conflicting, id, type, session_id, created_at, received_at, origin, flags, secret, skew_s, live, body)
    select seq, cursor, cast(@conflicting as int), id, type, session_id, created_at, @now, origin, flags, secret, skew_s, live, body
    from input i cross join facts f
    where f.goes and (@checked = 0 or (
      (f.floor is null or i.cursor is null or i.cursor > f.floor)
      and (select e.seq from events e where e.id = i.id limit 1) is null
      and not (f.aliased and (select a.seq from aliases a where a.name in ('c:' || i.cursor, 'i:' || i.id) limit 1) is not null)))
    on conflict do nothing returning seq, cursor, type, origin, created_at
  ), counted as (
    insert into counters
    select name, cast(sum(value) as bigint) from (
      select * from unnest(cast(@names as text[]), cast(@values as bigint[])) as given (name, value)
      union all select unnest(array['events', 'accepted']), count(*) from fresh
      union all select 'recovered', count(*) from fresh where origin = 'replay' and cast(@conflicting as int) = 0) as sums
    where (select goes from facts) group by name having sum(value) <> 0 order by name
    on conflict (name) do update set value = least(counters.value + excluded.value, ${Number.MAX_SAFE_INTEGER})
  ), noted as (
    insert into state select * from unnest(cast(@states as text[]), cast(@contents as text[])) as given (name, value)
    where (select goes from facts) order by 1
    on conflict (name) do update set value = excluded.value
  ), arrived as (
    insert into arrivals
    select @day, type, origin, count(*), count(created_at), coalesce(sum(least(greatest(0, @now - created_at), ${LATEST_MS})), 0),
      coalesce(max(least(greatest(0, @now - created_at), ${LATEST_MS})), 0)
    from fresh where cursor is not null group by type, origin order by type, origin
    on conflict (day, type, origin) do update set events = arrivals.events + excluded.events, aged = arrivals.aged + excluded.aged,
      late_ms = least(arrivals.late_ms + excluded.late_ms, ${Number.MAX_SAFE_INTEGER}),
      latest_ms = greatest(arrivals.latest_ms, excluded.latest_ms)
  ), missed as (
    insert into types (type, missed, missed_since)
    select type, count(*), @now from fresh
    where @fresh = 1 and cursor is not null and origin in ('replay', 'stream') group by type order by type
    on conflict (type) do update set missed = types.missed + excluded.missed,
      missed_since = coalesce(types.missed_since, excluded.missed_since)
  )
  select (select goes from facts) as goes, (select min(seq) from input) as first, (select array_agg(seq) from fresh) as seqs`;

interface Inserted {
  goes: boolean;
  first: number | null;
  seqs: string[] | null;
}

// oxlint-disable-next-line max-lines-per-function -- one statement each, beside the method that runs it
export function createEventTable(session: Session, atOnce: Session['write'], schema: string) {
  const insert = session.statement<Inserted>(INSERT.replace('SCHEMA', schema));
  const delivered = session.insertAll({
    into: 'types',
    columns: { type: 'text', delivered_at: 'bigint' },
    conflict: 'on conflict (type) do update set delivered_at = excluded.delivered_at, missed = 0, missed_since = null',
  });
  const withId = session.statement<{ id: string; seq: number }>('select id, seq from events where id = any(?)');

  async function run(events: Incoming[], how: How, batch: Pick<Batch, 'now' | 'fresh' | 'watermark'>, more: object) {
    const result = await insert.get({ ...columnsOf(events), ...rowOf(how, batch), ...NOTHING_MORE, ...more });
    const { goes = false, first = null, seqs = null } = result ?? {};
    const stored = new Set((seqs ?? []).map(Number));
    return { goes, seqs: events.map((_, n) => (first !== null && stored.has(first + n) ? first + n : null)) };
  }

  const table: EventTable = {
    insert: async (events, how, batch: Arriving) =>
      events.length === 0 ? [] : (await run(events, how, batch, {})).seqs,
    async delivered(types, now) {
      if (types.length > 0) await delivered(types.map((type) => [type, now]));
    },
    withId: async (ids) =>
      new Map(ids.length === 0 ? [] : (await withId.all(ids)).map(({ id, seq }) => [id, seq] as const)),
    addedId: async () => {},
  };

  /**
   * A batch of deliveries in one round trip: the transaction is committed before its result is known. Returns the
   * readings that were not new, or could not be taken this way; null: all of them, with the counters and the state.
   */
  async function deliver(batch: Batch): Promise<Reading[] | null> {
    const events = batch.readings.flatMap((reading) => ('event' in reading ? [reading.event] : []));
    const firsts = firstMentions(events);
    if (isPage(batch)) return null;
    const more = notesOf(batch.counts ?? {}, batch.state ?? {}, session.keyOf);
    const { goes, seqs } = await orNothing(async () => {
      const done = run(firsts, 'new', batch, { ...more, careful: 1 });
      const [inserted] = await Promise.all([done, table.delivered(typesOf(firsts), batch.now)]);
      return inserted;
    });
    if (!goes) return null;
    const stored = new Set(firsts.filter((_, n) => seqs[n] !== null));
    return batch.readings.filter((reading) => !('event' in reading && stored.has(reading.event)));
  }

  /** A reading that makes the statement fail costs nobody else: all are taken one by one then. */
  async function orNothing(work: () => ReturnType<typeof run>): ReturnType<typeof run> {
    try {
      return await atOnce(work, 'door');
    } catch (error) {
      if (session.faultOf(error)) throw error;
      return { goes: false, seqs: [] };
    }
  }

  return { table, deliver };
}

const NOTHING_MORE = { names: [], values: [], states: [], contents: [], careful: 0 };

function notesOf(counts: Counts, state: NonNullable<Batch['state']>, keyOf: (name: string) => string) {
  const pairs = Object.entries(counts);
  return {
    names: pairs.map(([name]) => name),
    values: pairs.map(([, value]) => value),
    states: Object.keys(state).map(keyOf),
    contents: Object.values(state).map((value) => (value === null ? null : String(value))),
  };
}

function rowOf(how: How, { now, fresh, watermark }: Pick<Batch, 'now' | 'fresh' | 'watermark'>) {
  return {
    now,
    day: Math.floor(now / DAY_MS),
    conflicting: how === 'conflicting' ? 1 : 0,
    checked: how === 'new' ? 1 : 0,
    fresh: fresh && how !== 'conflicting' ? 1 : 0,
    watermark: watermark ?? null,
  };
}

/** The fields of the events as arrays. The bodies are one value, which costs less than an array of them. */
function columnsOf(events: Incoming[]) {
  let at = 1;
  const ats = events.map(({ body }) => (at += body.length) - body.length);
  return {
    bodies: Buffer.concat(events.map(({ body }) => body)),
    ats,
    lengths: events.map(({ body }) => body.length),
    cursors: events.map(({ cursor }) => bind(cursor)),
    ids: events.map(({ id }) => id),
    types: events.map(({ type }) => type),
    sessions: events.map(({ sessionId }) => sessionId),
    created: events.map(({ createdAt }) => createdAt),
    origins: events.map(({ origin }) => origin),
    flags: events.map(({ flags }) => flags.join(',')),
    secrets: events.map(({ signed }) => signed?.secret ?? null),
    skews: events.map(({ signed }) => signed?.skewSeconds ?? null),
    lives: events.map(({ live }) => (live ? 1 : 0)),
  };
}
