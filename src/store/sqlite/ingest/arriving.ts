// Readings on their way into the store: each is inserted as a new event, or found to be known (identity.ts).
import type { Incoming, Reading, Unreadable } from '../../../wire/event.ts';
import { isBehind, type Cursor } from '../../../wire/cursor.ts';
import { decide, nameOfCursor, nameOfId, placeOf, type StoredIdentity } from '../../identity.ts';
import type { Accepted, Batch, Conflict } from '../../ingest.ts';
import type { Counts } from '../../state.ts';
import { createArrivals } from './arrivals.ts';
import { createBirthWatch, createHeard } from './birth.ts';
import type { createIds } from './ids.ts';
import { bytesDigestOf, POISONED } from './poison.ts';
import { bind, EVENT_KEY, type Session } from '../session.ts';

/** What the transaction has seen of ids: those that it added, and whether it has read those of other connections. */
export interface Seen {
  newIds: Map<string, number>;
  refreshed: boolean;
}

interface Stored extends StoredIdentity {
  key: string;
}

// oxlint-disable-next-line max-lines-per-function -- the steps of one arrival share the counts and the ids of its batch
export function createArriving(session: Session, ids: ReturnType<typeof createIds>) {
  const { db } = session;
  const insert = db.prepare(`
    insert into events (cursor, conflicting, id, type, session_id, created_at, received_at, origin, flags, secret, skew_s, live, body)
    values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) on conflict do nothing`);
  const known = `
    select seq, ${EVENT_KEY}, id, cast(cursor as text) as cursor, conflicting, type, origin, body, digest from events e`;
  const byCursor = db.prepare<unknown[], Stored>(
    `${known} where cursor = ? and cursor is not null and conflicting = 0`,
  );
  const bySeq = db.prepare<unknown[], Stored>(`${known} where seq = ?`);
  const conflictingAt = db.prepare<unknown[], Stored>(`${known} where cursor = ? and conflicting = 1`);
  const byAlias = db.prepare<unknown[], Stored>(`${known} where seq = (select seq from aliases where name = ?)`);
  const anyAlias = session.value('select 1 from aliases limit 1');
  const addAlias = db.prepare('insert into aliases values (?, ?) on conflict (name) do nothing');
  const addId = db.prepare(`
    update events set id = ?, session_id = coalesce(session_id, ?),
      created_at = coalesce(created_at, ?) where seq = ?`);
  const addOrigin = db.prepare('insert into seen_by_origin values (?, ?, ?) on conflict (event, origin) do nothing');
  const addCopy = db.prepare('update events set copies = copies + 1 where seq = ?');
  const addRedelivery = db.prepare(`
    insert into redeliveries select seq, min(copies, 8), @now, @secret, @skew from events where seq = @seq
    on conflict (event, n) do update set received_at = @now, secret = @secret, skew_s = @skew`);
  // Replay shows the same contradiction again and again; it is recorded once.
  const addConflict = db.prepare(`
    insert into conflicts (seq, received_at, origin, cursor, event_id, reason, body)
    select @seq, @now, @origin, @cursor, @id, @reason, @body
    where not exists (select 1 from conflicts where seq = @seq and body = @body)`);
  const quarantine = db.prepare(`
    insert into quarantine (digest, received_at, origin, cursor, reason, body) values (?, ?, ?, ?, ?, ?)
    on conflict (digest) do update set copies = copies + 1 returning copies`);
  const startArrivals = createArrivals(session);
  const learnBirth = createBirthWatch(session);
  const heard = createHeard(session);

  return (readings: Reading[], batch: Batch, seen: Seen): Accepted[] => {
    let firstNew: number | undefined;
    const counts: Counts = {};
    const add = (name: keyof Counts, by = 1): void => {
      counts[name] = (counts[name] ?? 0) + by;
    };
    // Aliases are rare: one query for the whole batch saves two queries for each event.
    let aliased = anyAlias.get() !== undefined;
    const floor = session.floor(highest(session.cursorState('watermark'), batch.watermark));
    const pruned = { floor, before: Number(session.state('pruned_before') ?? 0) };
    const born = Number(session.state('born'));
    learnBirth(readings.flatMap((reading) => ('event' in reading ? [reading.event] : [])));
    const arrivals = startArrivals(batch.now);
    const results = readings.map((reading): Accepted => {
      if ('unreadable' in reading) return keepAside(reading.unreadable);
      const { event } = reading;
      if (event.origin === 'webhook') arrivals.delivered(event);
      const place = placeOf(event, pruned, batch.now);
      if (!(aliased && named(event)) && place !== 'pruned' && !ofId(event.id) && store(event, false)) {
        if (place === 'regressed') add('regressions');
        const recovered = event.origin === 'replay' || event.origin === 'stream';
        if (event.origin === 'replay') add('recovered');
        arrivals.first(event, recovered && batch.fresh === true);
        return { verdict: 'new' };
      }
      return resolve(event);
    });
    if (firstNew !== undefined) ids.addFrom(firstNew);
    arrivals.write();
    session.count(counts);
    return results;

    function store(event: Incoming, conflicting: boolean): boolean {
      const { cursor, id, type, sessionId, createdAt, origin, flags, body } = event;
      const { secret = null, skewSeconds = null } = event.signed ?? {};
      const { changes, lastInsertRowid } = insert.run(
        bind(cursor),
        conflicting ? 1 : 0,
        id,
        type,
        sessionId,
        createdAt,
        batch.now,
        origin,
        flags.join(','),
        secret,
        skewSeconds,
        event.live ? 1 : 0,
        body,
      );
      if (changes === 0) return false;
      add('events');
      add('accepted');
      const seq = Number(lastInsertRowid);
      firstNew ??= seq;
      if (id !== null) seen.newIds.set(id, seq);
      return true;
    }

    function ofId(id: string | null): number | undefined {
      if (id === null) return undefined;
      if (!seen.refreshed) ids.refresh();
      seen.refreshed = true;
      return seen.newIds.get(id) ?? ids.find(id);
    }

    function named(event: Incoming): boolean {
      return [nameOfCursor(event), nameOfId(event)].some((name) => name && byAlias.get(name));
    }

    function keepAside(unreadable: Unreadable): Accepted {
      const { body, origin, cursor, reason } = unreadable;
      const row = [bytesDigestOf({ unreadable }), batch.now, origin, bind(cursor), reason, body];
      const { copies } = quarantine.get(...row) as { copies: number };
      add(copies === 0 ? 'quarantined' : origin === 'webhook' ? 'duplicates' : 'reread');
      if (copies === 0 && reason.startsWith(POISONED)) add('poisoned');
      return { verdict: 'quarantined' };
    }

    /** For an arrival whose id or cursor may be known. */
    function resolve(event: Incoming): Accepted {
      const cursor = bind(event.cursor);
      const c = event.cursor ? (byCursor.get(cursor) ?? byAlias.get(nameOfCursor(event))) : undefined;
      const i = c && c.id !== null && c.id === event.id ? c : withId(event);
      const conflicting = c && !i ? conflictingAt.all(cursor) : [];
      const decision = decide(event, { atCursor: c, withId: i, conflicting });
      if (decision.is === 'new') return { ...duplicate(event, undefined), pruned: true };
      const { of, reason } = decision;
      if (decision.is === 'conflicting') {
        store(event, true);
        arrivals.first(event, false);
        return { verdict: 'new', conflict: record(of, event, decision.reason) };
      }
      if (decision.addId) addIdTo(of, event);
      if (decision.alias) {
        addAlias.run(decision.alias, of.seq);
        aliased = true;
      }
      const accepted = duplicate(event, of);
      return reason === undefined ? accepted : { ...accepted, conflict: record(of, event, reason) };
    }

    function withId(event: Incoming): Stored | undefined {
      const seq = ofId(event.id);
      return seq === undefined ? byAlias.get(nameOfId(event)) : bySeq.get(seq);
    }

    function addIdTo({ seq, origin }: Stored, { id, sessionId, cursor, createdAt, toldAt }: Incoming): void {
      addId.run(id, sessionId, createdAt, seq);
      ids.add(seq);
      if (id !== null) seen.newIds.set(id, seq);
      const happened = Math.max(createdAt ?? -Infinity, toldAt ?? -Infinity);
      if (cursor && happened >= born) heard({ seq, cursor }, origin);
    }

    function duplicate(event: Incoming, of: Stored | undefined): Accepted {
      const delivered = event.origin === 'webhook';
      add(delivered ? 'duplicates' : 'reread');
      if (of && delivered) {
        addCopy.run(of.seq);
        const { secret = null, skewSeconds: skew = null } = event.signed ?? {};
        addRedelivery.run({ seq: of.seq, now: batch.now, secret, skew });
      }
      if (of && of.origin !== event.origin) addOrigin.run(of.seq, event.origin, batch.now);
      return { verdict: 'duplicate' };
    }

    function record(of: Stored, { origin, cursor, id, body }: Incoming, reason: string): Conflict {
      const row = { seq: of.seq, now: batch.now, origin, cursor: bind(cursor), id, reason, body };
      add('conflicts', addConflict.run(row).changes);
      return { with: of.key, reason };
    }
  };
}

function highest(a: Cursor | null, b: Cursor | undefined): Cursor | null {
  return b !== undefined && isBehind(a, b) ? b : a;
}
