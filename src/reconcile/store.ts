// What reconciliation asks of the store, beside the one door: where it stands, and its gaps.
import type { Clock } from '../base/clock.ts';
import type { Db } from '../store/sqlite/database.ts';
import { createState, type State } from '../store/sqlite/state.ts';
import { isBehind, type Cursor } from '../wire/cursor.ts';
import type { Reading } from '../wire/event.ts';

/** Stored events that a pass looks back over: ten pages. */
const BACK = 10_000;

/** Without those of `npx kit trigger`, which prove nothing. */
const SERVICES = `select cast(cursor as text) from events where cursor is not null and coalesce(id, '') not like 'kit!_%' escape '!'`;

const statements = (db: Db) => {
  const cursor = (sql: string) => db.value<Cursor | null>(sql);
  return {
    lowest: cursor(`${SERVICES} order by events.cursor limit 1`),
    newest: cursor(`${SERVICES} order by events.cursor desc limit 1`),
    recent: cursor(`select cast(min(c) as text) from (select cursor as c, received_at as at from events
      where cursor <= cast(? as integer) order by cursor desc limit ${BACK}) where at >= ?`),
    below: cursor('select cast(max(cursor) as text) from events where cursor < cast(? as integer)'),
    known: cursor(`select cast(max(cursor) as text) from events
      where cursor in (select cast(value as integer) from json_each(?)) and received_at <= ?`),
    between: cursor(`with inside as (select cursor from events where cursor > cast(? as integer)
      and cursor < cast(? as integer)) select cast(cursor as text) from inside order by inside.cursor
      limit 1 offset (select count(*) / 2 from inside)`),
    openGap: db.sql(`insert into gaps (after, up_to, reason, opened_at)
      values (cast(? as integer), cast(? as integer), ?, ?)`),
    endGap: db.sql('update gaps set up_to = cast(? as integer) where up_to is null'),
    isOpen: db.value<number>('select 1 from gaps where up_to is null limit 1'),
    closeRead: db.sql(`update gaps set closed_at = ? where closed_at is null and up_to is not null
      and after >= cast(? as integer) and up_to <= cast(? as integer)`),
    closeHandled: db.sql(`update gaps set closed_at = ? where closed_at is null and exists (select 1 from events e
      join tasks t on t.event = e.seq and t.state = 1 where e.id = 'gap:' || gaps.id)`),
    untold: db.sql<{ gap: number; after: string; upTo: string; reason: string }>(`select id as gap,
      cast(after as text) as after, cast(up_to as text) as upTo, reason from gaps
      where up_to is not null and closed_at is null and not exists (select 1 from events e where e.id = 'gap:' || gaps.id)`),
  };
};

export class ReplayStore {
  readonly #db: Db;
  readonly #state: State;
  readonly #clock: Clock;
  readonly #sql: ReturnType<typeof statements>;

  constructor(db: Db, clock: Clock) {
    this.#db = db;
    this.#clock = clock;
    this.#state = createState(db);
    this.#sql = statements(db);
  }

  position(): Promise<Record<'watermark' | 'lowest' | 'newest', Cursor | null>> {
    return this.#db.read(() => ({
      watermark: this.#state.cursor('watermark'),
      lowest: this.#sql.lowest.get() ?? null,
      newest: this.#sql.newest.get() ?? null,
    }));
  }

  /** Where replay begins, once. */
  begin(cursor: Cursor): Promise<void> {
    return this.#db.write(() => {
      if (this.#state.cursor('watermark') === null) this.#state.setCursor('watermark', cursor);
      if (this.#state.cursor('beginning') === null) this.#state.setCursor('beginning', cursor);
    });
  }

  /** Where to read again from: below what was received since then. Null: from the beginning. Undefined: nothing was. */
  before(watermark: Cursor, since: number): Promise<Cursor | null | undefined> {
    return this.#db.read(() => {
      const oldest = this.#sql.recent.get(watermark, since) ?? null;
      const floor = this.#state.cursor('floor') ?? this.#state.cursor('beginning');
      if (oldest === null) return undefined;
      const found = this.#sql.below.get(oldest) ?? floor;
      return isBehind(found, floor) ? floor : found;
    });
  }

  /** The highest of these cursors whose event was stored by then. */
  storedBy(cursors: Cursor[], at: number): Promise<Cursor | null> {
    return this.#db.query(() => this.#sql.known.get(JSON.stringify(cursors), at) ?? null);
  }

  /** The middle one of the stored cursors between these two. Null: there is none. */
  between(low: Cursor, high: Cursor): Promise<Cursor | null> {
    return this.#db.query(() => this.#sql.between.get(low, high) ?? null);
  }

  /** History after `after` is lost up to `upTo`, where replay goes on. Null: nobody knows yet how far. */
  gap(after: Cursor, upTo: Cursor | null, reason: string): Promise<void> {
    return this.#db.write(() => {
      const isKnown = this.#sql.isOpen.get() !== undefined;
      if (isKnown && upTo !== null) this.#sql.endGap.run(upTo);
      if (!isKnown) this.#sql.openGap.run(after, upTo, reason, this.#clock.now());
      if (upTo !== null && isBehind(this.#state.cursor('watermark'), upTo)) this.#state.setCursor('watermark', upTo);
    });
  }

  /** A stretch was read again: its gaps are closed. */
  close(from: Cursor, to: Cursor): Promise<void> {
    return this.#db.write(() => void this.#sql.closeRead.run(this.#clock.now(), from, to));
  }

  /** Closes gaps that a handler has filled. Resolves with the events of gaps that handlers have not been told of. */
  gapEvents(): Promise<Reading[]> {
    const createdAt = this.#clock.now();
    return this.#db.write(() => {
      this.#sql.closeHandled.run(createdAt);
      return this.#sql.untold.all().map((gap) => {
        const body = Buffer.from(JSON.stringify({ 'kit.gap': gap }));
        const event = { cursor: null, id: `gap:${gap.gap}`, type: 'kit.gap', session: null, createdAt, body };
        return { event: { origin: 'kit' as const, ...event } };
      });
    });
  }

  /** What a person asked for, and when. */
  asked(): Promise<{ at: number; from: Cursor | null } | undefined> {
    return this.#db.query(() => this.#state.get('reconcile_asked') as { at: number; from: Cursor | null } | undefined);
  }

  told(): Promise<unknown> {
    return this.#db.query(() => this.#state.get('reconcile'));
  }

  tell(value: object): Promise<void> {
    return this.#db.write(() => this.#state.set('reconcile', value));
  }
}
