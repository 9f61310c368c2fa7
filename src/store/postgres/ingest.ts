// The one door. Whoever writes events holds its lock until the commit, so that they become visible in the order of their
// numbers, and a position misses none. Known rows are read first; then what is new and what changes is written, for all.
import { hash } from 'node:crypto';
import type { Clock } from '../../base/clock.ts';
import { describe } from '../../base/errors.ts';
import { isBehind, type Cursor } from '../../wire/cursor.ts';
import type { Arrival, Reading, Unreadable } from '../../wire/event.ts';
import { noteDay, type Days } from '../sqlite/daily.ts';
import { ORIGINS } from '../sqlite/rows.ts';
import { StoreError, type Counts, type IngestStore, type Verdict } from '../store.ts';
import { lockKey, type Connections, type Tx } from './connection.ts';
import { Known, type Row } from './known.ts';
import { rows } from './rows.ts';

type Given = Parameters<IngestStore['accept']>[0];
type Take = (tx: Tx, readings: Reading[], batch: Batch, isAlone?: boolean) => Promise<Verdict[]>;

interface Facts {
  now: number;
  floor: Cursor | null;
  watermark: Cursor | null;
}

interface Batch {
  open: Promise<Facts>;
  counts: Counts;
  days: Days;
}

const FACTS = "select name, value from state where name in ('floor', 'watermark')";
/** Bodies are compared if an arrival tells an id. */
const KNOWN = `select seq, cast(cursor as text) as cursor, id, type, session, created_at as "createdAt", origin, origins,
    deliveries, body is null as "isErased", case when cardinality(cast(@ids as text[])) > 0 then body end as body
  from events where cursor = any(cast(@cursors as bigint[])) or id = any(cast(@ids as text[]))`;
/** The bodies are one value, because an array of them would cost more. */
const NEW = rows({ bigint: 'cursor createdAt origin origins deliveries', text: 'id type session', int: 'at bytes' });
const INSERT = `insert into events (cursor, id, type, session, created_at, received_at, origin, origins, deliveries, body)
  select cursor, id, type, session, "createdAt", @now, origin, origins, deliveries, substring(cast(@bodies as bytea) from at for bytes)
  from ${NEW.from} order by n returning seq`;
const CHANGED = rows({ bigint: 'seq cursor createdAt origins deliveries', text: 'id session' });
const CHANGE = `update events e set cursor = v.cursor, id = v.id, session = v.session, created_at = v."createdAt",
    origins = v.origins, deliveries = v.deliveries from ${CHANGED.from} where e.seq = v.seq`;
const STATE = rows({ text: 'name value' });
const SET = `insert into state select name, value from ${STATE.from} order by name on conflict (name) do update set value = excluded.value`;
const COUNT = `${SET.replace(/excluded.value$/, '')} cast(cast(state.value as bigint) + cast(excluded.value as bigint) as text)`;
const DAYS = rows({ text: 'day type', bigint: 'origin late count' });
const ADD_DAYS = `insert into daily select day, type, origin, late, count from ${DAYS.from}
  order by day, type, origin, late on conflict (day, type, origin, late) do update set events = daily.events + excluded.events`;
const SET_ASIDE = `insert into quarantine (reason, digest, received_at, origin, cursor, event, body)
  values (@reason, @digest, @now, @origin, cast(@cursor as bigint), @event, @body) on conflict (reason, digest) do nothing`;
const ASIDE_AGAIN = 'update quarantine set copies = copies + 1 where reason = @reason and digest = @digest';

export class Ingest implements IngestStore {
  readonly #db: Connections;
  readonly #clock: Clock;

  constructor(db: Connections, clock: Clock) {
    this.#db = db;
    this.#clock = clock;
  }

  /** If the readings fail together for a reason that is not the store's, each is tried alone. */
  async accept(given: Given): Promise<Verdict[]> {
    try {
      return await this.#write(given, takeAll);
    } catch (error) {
      if (error instanceof StoreError) throw error;
      return this.#write(given, takeEach);
    }
  }

  #write({ readings, counts = {}, state = {}, proves }: Given, take: Take): Promise<Verdict[]> {
    return this.#db.write(async (tx) => {
      tx.last(`select pg_advisory_xact_lock(${lockKey(this.#db, 'ingest')}, 0)`);
      const facts = tx.all<{ name: string; value: Cursor }>(FACTS);
      // With the lock, so that receipts come in the order of `seq`.
      const open = async (): Promise<Facts> => {
        const values = Object.fromEntries((await facts).map(({ name, value }) => [name, value]));
        return { floor: null, watermark: null, ...values, now: this.#clock.now() };
      };
      const batch: Batch = { open: open(), counts: { ...counts }, days: new Map() };
      const verdicts = await take(tx, readings, batch);
      const { watermark } = await batch.open;
      const texts = Object.entries(state).map(([name, value]) => ({ name, value: JSON.stringify(value) }));
      if (proves && doesProve(watermark, proves)) texts.push({ name: 'watermark', value: proves.to });
      note(tx, batch, texts);
      return verdicts;
    });
  }
}

const takeAll: Take = async (tx, readings, batch, isAlone = false) => {
  const events = readings.flatMap((one) => ('event' in one ? one.event : []));
  const about = { ids: events.flatMap(({ id }) => id ?? []), cursors: events.flatMap(({ cursor }) => cursor ?? []) };
  const [found, { floor, now }] = await Promise.all([events.length > 0 ? tx.all<Row>(KNOWN, about) : [], batch.open]);
  const known = new Known(found, floor);
  const judged = readings.map((one) => ('event' in one ? known.judge(one.event) : null));
  const isAsked = isAlone || judged.some((one) => one?.as === 'conflict');
  if (known.added.length > 0) await insert(tx, known.added, now, isAsked);
  if (known.changed.size > 0) tx.last(CHANGE, CHANGED.of([...known.changed]));
  const verdicts: Verdict[] = [];
  for (const [n, one] of readings.entries()) {
    const verdict = judged[n];
    if ('unreadable' in one) verdicts.push(await quarantine(tx, one.unreadable, one.unreadable.reason, null, batch));
    else if (verdict?.as === 'conflict') verdicts.push(await quarantine(tx, one.event, 'conflict', verdict.of, batch));
    else verdicts.push(verdict?.as ?? 'removed');
    if ('event' in one) count(one.event, verdicts.at(-1), batch, now);
  }
  return verdicts;
};

const takeEach: Take = async (tx, readings, batch) => {
  const verdicts: Verdict[] = [];
  for (const one of readings) {
    await tx.query('savepoint one');
    try {
      verdicts.push(...(await takeAll(tx, [one], batch, true)));
    } catch (error) {
      if (error instanceof StoreError) throw error;
      await tx.query('rollback to one');
      const what = 'event' in one ? one.event : one.unreadable;
      verdicts.push(await quarantine(tx, what, `the store refuses it: ${describe(error).name}`, null, batch));
    }
  }
  return verdicts;
};

/** The rows get their numbers, if these are asked for. */
async function insert(tx: Tx, added: Row[], now: number, isAsked: boolean): Promise<void> {
  let at = 1;
  const placed = added.map((row) => {
    const bytes = row.body?.length ?? 0;
    at += bytes;
    return { ...row, at: at - bytes, bytes };
  });
  const bodies = Buffer.concat(added.flatMap(({ body }) => body ?? []));
  const values = { ...NEW.of(placed), bodies, now };
  if (!isAsked) return tx.last(INSERT, values);
  const seqs = await tx.all<{ seq: number }>(INSERT, values);
  for (const [n, row] of added.entries()) row.seq = seqs[n]?.seq ?? 0;
}

/** `of`: the row that it contradicts. */
async function quarantine(
  tx: Tx,
  what: Arrival | Unreadable,
  reason: string,
  of: Row | null,
  { open, counts }: Batch,
): Promise<Verdict> {
  const { origin, cursor, body } = what;
  const digest = hash('sha256', body, 'buffer');
  const row = { reason, digest, now: (await open).now, origin: ORIGINS[origin], cursor, event: of?.seq, body };
  if ((await tx.run(SET_ASIDE, row)) > 0) add(counts, 'quarantined');
  else if (origin === 'webhook') await tx.run(ASIDE_AGAIN, { reason, digest });
  return of ? 'conflict' : 'quarantined';
}

function count(event: Arrival, verdict: Verdict | undefined, { counts, days }: Batch, now: number): void {
  if (verdict === 'duplicate' && event.origin === 'webhook') add(counts, 'duplicates');
  if (verdict !== 'new') return;
  add(counts, 'events');
  noteDay(event, now, days);
}

function add(counts: Counts, name: string): void {
  counts[name] = (counts[name] ?? 0) + 1;
}

/** Last, because other transactions write these rows too. */
function note(tx: Tx, { counts, days }: Batch, texts: { name: string; value: string }[]): void {
  const numbers = Object.entries(counts).flatMap(([name, n]) => (n === 0 ? [] : { name, value: String(n) }));
  const ofDays = [...days.values()].map(({ row: [day, type, origin, late], count: n }) => ({
    day,
    type,
    origin,
    late,
    count: n,
  }));
  if (ofDays.length > 0) tx.last(ADD_DAYS, DAYS.of(ofDays));
  if (numbers.length > 0) tx.last(COUNT, STATE.of(numbers));
  if (texts.length > 0) tx.last(SET, STATE.of(texts));
}

/** A page of replay proves it if it begins at or below the watermark that is known. */
function doesProve(watermark: Cursor | null, { from, to }: { from: Cursor | null; to: Cursor }): boolean {
  const isReached = from === null || (watermark !== null && !isBehind(watermark, from));
  return isReached && isBehind(watermark, to);
}
