// The one door: readings of any origin become events, or go to quarantine. It alone decides which stored event an arrival
// is. Each arrival is inserted first, because nearly all are new. Only those that cannot be inserted are looked up.
import { hash } from 'node:crypto';
import type { Clock } from '../../base/clock.ts';
import type { Cursor } from '../../wire/cursor.ts';
import type { Arrival, Reading, Unreadable } from '../../wire/event.ts';
import { add, contradicts, doesProve, isRemoved, orAlone, type Known } from '../identity.ts';
import { ORIGINS } from '../rows.ts';
import type { Counts, IngestStore, Verdict } from '../store.ts';
import type { Db } from './database.ts';
import { createState } from './state.ts';

const KNOWN = `select seq, cast(cursor as text) as cursor, id, type, session, origin, origins, body is null as erased from events`;

const statements = (db: Db) => ({
  insert: db.sql(`insert into events (cursor, id, type, session, created_at, received_at, origin, origins, body)
    values (cast(? as integer), ?, ?, ?, ?, ?, ?, ?, ?) on conflict do nothing`),
  atCursor: db.sql<Known>(`${KNOWN} where cursor = cast(? as integer)`),
  withId: db.sql<Known>(`${KNOWN} where id = ?`),
  bodyOf: db.value<string>('select cast(body as text) from events where seq = ?'),
  again: db.sql(`update events set deliveries = deliveries + ?, origins = origins | ?, id = coalesce(id, ?),
    cursor = coalesce(cursor, cast(? as integer)), session = coalesce(session, ?), created_at = coalesce(created_at, ?)
    where seq = ?`),
  setAside: db.sql(`insert into quarantine (reason, digest, received_at, origin, cursor, event, body)
    values (?, ?, ?, ?, cast(? as integer), ?, ?) on conflict (reason, digest) do nothing`),
  asideAgain: db.sql('update quarantine set copies = copies + 1 where reason = ? and digest = ?'),
});

export function createIngest(db: Db, clock: Clock): IngestStore {
  const sql = statements(db);
  const state = createState(db);

  function one(reading: Reading, batch: Batch): Verdict {
    if ('unreadable' in reading) return quarantine(reading.unreadable, reading.unreadable.reason, null, batch);
    const { event } = reading;
    const { origin, cursor, id, type, session, createdAt, body } = event;
    const bit = ORIGINS[origin];
    const row = [cursor, id, type, session, createdAt, batch.now, bit, bit, body];
    if (!isRemoved(event, batch.floor) && sql.insert.run(...row).changes > 0) {
      add(batch.counts, 'events');
      return 'new';
    }
    const byCursor = cursor === null ? undefined : sql.atCursor.get(cursor);
    const byId = id === null ? undefined : sql.withId.get(id);
    const known = byCursor ?? byId;
    if (!known) return 'removed';
    if ((byId && byId.seq !== known.seq) || contradicts(event, known, () => sql.bodyOf.get(known.seq)))
      return quarantine(event, 'conflict', known, batch);
    // Each pass of replay shows known events again. Nothing is written for these.
    const isWebhook = origin === 'webhook';
    if (isWebhook || (known.origins & bit) === 0)
      sql.again.run(Number(isWebhook), bit, id, cursor, session, createdAt, known.seq);
    if (isWebhook) add(batch.counts, 'duplicates');
    return 'duplicate';
  }

  function quarantine(what: Arrival | Unreadable, reason: string, of: Known | null, { now, counts }: Batch): Verdict {
    const { origin, cursor, body } = what;
    const digest = hash('sha256', body, 'buffer');
    const isNew = sql.setAside.run(reason, digest, now, ORIGINS[origin], cursor, of?.seq ?? null, body).changes > 0;
    if (isNew) add(counts, 'quarantined');
    else if (origin === 'webhook') sql.asideAgain.run(reason, digest);
    return of ? 'conflict' : 'quarantined';
  }

  const accept: IngestStore['accept'] = ({ readings, counts = {}, state: told = {}, proves }) =>
    db.write(() => {
      // Read inside the transaction, so that times of receipt are in the order of `seq`.
      const now = clock.now();
      const batch: Batch = { now, floor: state.get('floor') as Cursor | null, counts: { ...counts } };
      const verdicts = readings.map((reading) => one(reading, batch));
      state.count(batch.counts);
      for (const [name, value] of Object.entries(told)) state.set(name, value);
      const watermark = proves ? (state.get('watermark') as Cursor | null) : null;
      if (proves && doesProve(watermark, proves)) state.set('watermark', proves.to);
      return verdicts;
    });
  return { accept: orAlone(accept) };
}

type Batch = { now: number; floor: Cursor | null; counts: Counts };
