// The one door: readings of any origin become events, or go to quarantine. It alone decides which stored event an arrival
// is. Each arrival is inserted first, because nearly all are new. Only those that cannot be inserted are looked up.
import { hash } from 'node:crypto';
import type { Clock } from '../../base/clock.ts';
import type { Cursor } from '../../wire/cursor.ts';
import type { Arrival, Reading, Unreadable } from '../../wire/event.ts';
import { acceptAlone, contradicts, doesProve, isRemoved, type Known } from '../identity.ts';
import { ORIGINS } from '../rows.ts';
import { StoreError, type Counts, type IngestStore, type Verdict } from '../store.ts';
import type { Db } from './database.ts';
import type { State } from './state.ts';

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

type Given = Parameters<IngestStore['accept']>[0];

export class Ingest implements IngestStore {
  readonly #db: Db;
  readonly #state: State;
  readonly #clock: Clock;
  readonly #sql: ReturnType<typeof statements>;

  constructor(db: Db, state: State, clock: Clock) {
    this.#db = db;
    this.#state = state;
    this.#clock = clock;
    this.#sql = statements(db);
  }

  /** If the batch fails for a reason that is not the store's, each reading is tried alone. */
  async accept(given: Given): Promise<Verdict[]> {
    try {
      return await this.#write(given);
    } catch (error) {
      if (error instanceof StoreError) throw error;
      return acceptAlone((one) => this.#write(one), given);
    }
  }

  #write({ readings, counts = {}, state = {}, proves }: Given): Promise<Verdict[]> {
    return this.#db.write(() => {
      // Read inside the transaction, so that times of receipt are in the order of `seq`.
      const now = this.#clock.now();
      const batch: Batch = { now, floor: this.#state.get('floor') as Cursor | null, counts: { ...counts } };
      const verdicts = readings.map((reading) => this.#one(reading, batch));
      this.#state.count(batch.counts);
      for (const [name, value] of Object.entries(state)) this.#state.set(name, value);
      const watermark = this.#state.get('watermark') as Cursor | null;
      if (proves && doesProve(watermark, proves)) this.#state.set('watermark', proves.to);
      return verdicts;
    });
  }

  #one(reading: Reading, batch: Batch): Verdict {
    if ('unreadable' in reading) return this.#quarantine(reading.unreadable, reading.unreadable.reason, null, batch);
    const { event } = reading;
    const { origin, cursor, id, type, session, createdAt, body } = event;
    const bit = ORIGINS[origin];
    const row = [cursor, id, type, session, createdAt, batch.now, bit, bit, body];
    if (!isRemoved(event, batch.floor) && this.#sql.insert.run(...row).changes > 0) {
      add(batch.counts, 'events');
      return 'new';
    }
    const byCursor = cursor === null ? undefined : this.#sql.atCursor.get(cursor);
    const byId = id === null ? undefined : this.#sql.withId.get(id);
    const known = byCursor ?? byId;
    if (!known) return 'removed';
    if ((byId && byId.seq !== known.seq) || contradicts(event, known, () => this.#sql.bodyOf.get(known.seq)))
      return this.#quarantine(event, 'conflict', known, batch);
    // Each pass of replay shows known events again. Nothing is written for these.
    const isWebhook = origin === 'webhook';
    if (isWebhook || (known.origins & bit) === 0)
      this.#sql.again.run(Number(isWebhook), bit, id, cursor, session, createdAt, known.seq);
    if (isWebhook) add(batch.counts, 'duplicates');
    return 'duplicate';
  }

  #quarantine(what: Arrival | Unreadable, reason: string, of: Known | null, { now, counts }: Batch): Verdict {
    const { origin, cursor, body } = what;
    const digest = hash('sha256', body, 'buffer');
    const isNew =
      this.#sql.setAside.run(reason, digest, now, ORIGINS[origin], cursor, of?.seq ?? null, body).changes > 0;
    if (isNew) add(counts, 'quarantined');
    else if (origin === 'webhook') this.#sql.asideAgain.run(reason, digest);
    return of ? 'conflict' : 'quarantined';
  }
}

/** What the readings of one call share: the time of storing, the floor, and what is counted. */
interface Batch {
  now: number;
  floor: Cursor | null;
  counts: Counts;
}

function add(counts: Counts, name: string): void {
  counts[name] = (counts[name] ?? 0) + 1;
}
