// The one door's side of the store: an event is inserted, or found to be one that is there. Identity is decided here
// and nowhere else; rows that contradict each other are kept and recorded, never merged and never dropped.
import { statSync } from 'node:fs';
import { dataOfBody, type Incoming, type Reading, type Unreadable } from '../../../wire/event.ts';
import { compareCursors, type Cursor } from '../../../wire/cursor.ts';
import { digestOf, sameJson, type JsonObject } from '../../../wire/json.ts';
import type { Accepted, Batch, Conflict, Counts, IngestStore, StateKey } from '../../ingest.ts';
import { createBirthWatch, createHeard } from './birth.ts';
import { faultOf } from '../fault.ts';
import { createIds } from './ids.ts';
import { bytesDigestOf, createPoison, POISONED, type Failing } from './poison.ts';
import { EVENT_KEY, type Session, type Sync } from '../session.ts';
import { createTally } from './arrivals.ts';
import { createWatermark } from './watermark.ts';

interface Known {
  seq: number;
  key: string;
  id: string | null;
  /** Its cursor is the incoming one. */
  same_cursor: number;
  has_cursor: number;
  conflicting: number;
  type: string;
  origin: Incoming['origin'];
  body: Uint8Array | null;
  /** Of the data, where the body was purged. */
  digest: Uint8Array | null;
}

export function createEventStore(
  session: Session,
  {
    idsInSegment,
    failing = new Set(),
    onDropped = () => {},
  }: { idsInSegment?: number | undefined; failing?: Failing; onDropped?: Dropped } = {},
): Sync<Omit<IngestStore, 'sync'>> & { accept: Accept; readmit: Accept; inPlace(): boolean } {
  const { db } = session;
  const poison = createPoison(session, failing);
  const insert = db.prepare(`
    insert into events (cursor, conflicting, id, type, session_id, created_at, received_at, origin, flags, secret, skew_s, live, body)
    values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) on conflict do nothing`);
  const known = `
    select seq, ${EVENT_KEY}, id, cursor is ? as same_cursor, cursor is not null as has_cursor, conflicting, type, origin, body, digest
    from events e`;
  const byCursor = db.prepare<unknown[], Known>(`${known} where cursor = ? and cursor is not null and conflicting = 0`);
  const bySeq = db.prepare<unknown[], Known>(`${known} where seq = ?`);
  const rivals = db.prepare<unknown[], Known>(`${known} where cursor = ? and conflicting = 1`);
  const byAlias = db.prepare<unknown[], Known>(`${known} where seq = (select seq from aliases where name = ?)`);
  const anyAlias = db.prepare('select 1 from aliases limit 1').pluck();
  const addAlias = db.prepare('insert into aliases values (?, ?) on conflict (name) do nothing');
  const addId = db.prepare(`
    update events set id = ?, session_id = coalesce(session_id, ?),
      created_at = coalesce(created_at, ?) where seq = ?`);
  const sight = db.prepare('insert into seen_by_origin values (?, ?, ?) on conflict (event, origin) do nothing');
  const addCopy = db.prepare('update events set copies = copies + 1 where seq = ?');
  const copied = db.prepare(`
    insert into redeliveries select seq, min(copies, 8), @now, @secret, @skew from events where seq = @seq
    on conflict (event, n) do update set received_at = @now, secret = @secret, skew_s = @skew`);
  // Once: what replay shows again and again contradicts no more than the first time.
  const addConflict = db.prepare(`
    insert into conflicts (seq, received_at, origin, cursor, event_id, reason, body)
    select @seq, @now, @origin, @cursor, @id, @reason, @body
    where not exists (select 1 from conflicts where seq = @seq and body = @body)`);
  const quarantine = db.prepare(`
    insert into quarantine (digest, received_at, origin, cursor, reason, body) values (?, ?, ?, ?, ?, ?)
    on conflict (digest) do update set copies = copies + 1 returning copies`);
  const addGap = db.prepare('insert into gaps (after, up_to, reason, opened_at) values (?, ?, ?, ?)');
  const openGap = db.prepare<unknown[], { id: number; closed: number }>(
    'select id, closed_at is not null as closed from gaps where after = ? and up_to is null order by id desc limit 1',
  );
  const endGap = db.prepare('update gaps set up_to = ? where id = ?');
  const opened = inodesOf(session.path);
  const watermark = createWatermark(session);
  const startTally = createTally(session);
  const ids = createIds(session, idsInSegment);
  const learnBirth = createBirthWatch(session);
  const heard = createHeard(session);

  function accept(batch: Batch): Accepted[] {
    try {
      ids.fold(batch.now);
    } catch (error) {
      if (faultOf(error, session.path)) throw error;
      onDropped('the order of ids', error);
    }
    const group = groupOf(batch);
    try {
      const accepted = group.together();
      if (accepted.length > 0) failing.clear();
      return accepted;
    } catch (error) {
      if (faultOf(error, session.path)) throw error;
    }
    try {
      return group.apart();
    } catch (error) {
      throw poison.unwritable(error);
    }
  }

  /** For what was kept aside: where it fails by itself again, nothing is written. */
  function readmit(batch: Batch): Accepted[] {
    let accepted: Accepted[] = [];
    const failure = poison.failureOf(() => {
      accepted = groupOf(batch).together();
    });
    return failure === undefined ? accepted : batch.readings.map(() => ({ verdict: 'quarantined' }));
  }

  /** How a batch is written: in one piece, or reading by reading, each with its own accounts. */
  function groupOf(batch: Batch) {
    let newIds = new Map<string, number>();
    let refreshed = false;

    function together(): Accepted[] {
      const accepted = session.write(() => {
        const raised = batch.gap ? raiseGap(batch.gap, batch.now) : [];
        const results = ingest([...batch.readings, ...raised]);
        placePage();
        session.count(batch.counts ?? {});
        setFacts(batch.facts);
        return results.slice(0, batch.readings.length);
      });
      ids.learn(newIds);
      return accepted;
    }

    function apart(): Accepted[] {
      newIds = new Map();
      const accepted = session.write(() => {
        // Once, before this transaction has added any.
        ids.refresh();
        refreshed = true;
        const results = poison.apart(batch.readings, isPage(batch), { take: alone, keep });
        if (batch.gap) ingest(raiseGap(batch.gap, batch.now));
        placePage();
        ride(batch.counts, batch.facts);
        return results;
      });
      ids.learn(newIds);
      return accepted;
    }

    /** Ids are learnt of those alone that are stored. */
    function alone(reading: Reading): Accepted {
      const before = newIds;
      newIds = new Map(before);
      try {
        return ingest([reading])[0] ?? { verdict: 'unkept' };
      } catch (error) {
        newIds = before;
        throw error;
      }
    }

    function keep(reading: Reading, reason: string): Accepted {
      if ('unreadable' in reading) return alone(reading);
      const { origin, cursor, body } = reading.event;
      return alone({ unreadable: { origin, cursor, body, reason } });
    }

    function placePage(): void {
      if (batch.from) session.setState('proved_from', BigInt(batch.from));
      watermark.raise(batch);
    }

    const ingest = (readings: Reading[]): Accepted[] => {
      let firstNew: number | undefined;
      const counts: Counts = {};
      const add = (name: keyof Counts, by = 1): void => {
        counts[name] = (counts[name] ?? 0) + by;
      };
      // Aliases are rare: one look for the whole batch spares two for each event.
      let aliased = anyAlias.get() !== undefined;
      const floor = session.floor(highest(session.cursorState('watermark'), batch.watermark));
      const born = Number(session.state('born'));
      const prunedBefore = Number(session.state('pruned_before') ?? 0);
      learnBirth(readings.flatMap((reading) => ('event' in reading ? [reading.event] : [])));
      const tally = startTally(batch.now);
      const results = readings.map((reading): Accepted => {
        if ('unreadable' in reading) return keepAside(reading.unreadable);
        const { event } = reading;
        if (event.origin === 'webhook') tally.delivered(event);
        const place = placeOf(event);
        if (!(aliased && named(event)) && place !== 'pruned' && !ofId(event.id) && store(event, false)) {
          if (place === 'regressed') add('regressions');
          add('events');
          add('accepted');
          const recovered = event.origin === 'replay' || event.origin === 'stream';
          if (event.origin === 'replay') add('recovered');
          if (event.origin !== 'kit') tally.first(event, recovered && batch.fresh === true);
          return { verdict: 'new' };
        }
        return resolve(event);
      });
      if (firstNew !== undefined) ids.addFrom(firstNew);
      tally.write();
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
        const seq = Number(lastInsertRowid);
        firstNew ??= seq;
        if (id !== null) newIds.set(id, seq);
        return true;
      }

      function ofId(id: string | null): number | undefined {
        if (id === null) return undefined;
        if (!refreshed) ids.refresh();
        refreshed = true;
        return newIds.get(id) ?? ids.find(id);
      }

      function named(event: Incoming): boolean {
        return [nameOfCursor(event), nameOfId(event)].some((name) => name && byAlias.get(null, name));
      }

      /** What pruning has removed is a duplicate, unless the event happened after all that was removed. */
      function placeOf({ cursor, createdAt }: Incoming): 'above' | 'pruned' | 'regressed' {
        if (floor === null || cursor === null || BigInt(cursor) > floor) return 'above';
        const young = createdAt !== null && createdAt >= prunedBefore && createdAt <= batch.now;
        return young ? 'regressed' : 'pruned';
      }

      function keepAside(unreadable: Unreadable): Accepted {
        const { body, origin, cursor, reason } = unreadable;
        const row = [bytesDigestOf({ unreadable }), batch.now, origin, bind(cursor), reason, body];
        const { copies } = quarantine.get(...row) as { copies: number };
        add(copies === 0 ? 'quarantined' : origin === 'webhook' ? 'duplicates' : 'reread');
        if (copies === 0 && reason.startsWith(POISONED)) add('poisoned');
        return { verdict: 'quarantined' };
      }

      /** The identity table of the design, for an event that is not simply new. */
      function resolve(event: Incoming): Accepted {
        const cursor = bind(event.cursor);
        const c = event.cursor ? (byCursor.get(cursor, cursor) ?? byAlias.get(cursor, nameOfCursor(event))) : undefined;
        const i = c && c.id !== null && c.id === event.id ? c : withId();
        if (i) {
          const contested = c && c.seq !== i.seq && !(i.conflicting && i.same_cursor);
          if (contested) return duplicate(i, 'its id and its cursor name two different events');
          if (event.cursor && !c) alias(nameOfCursor(event), i.seq);
          return duplicate(i, sameData(i, event) ? undefined : 'its id was known with other data');
        }
        if (!c) return { ...duplicate(undefined), pruned: true };
        const same = [c, ...rivals.all(cursor, cursor)].find((one) => sameData(one, event));
        if (event.id === null) return duplicate(same ?? c, same ? undefined : 'its cursor was known with other data');
        if (c.id === null && (!same || same === c)) {
          addId.run(event.id, event.sessionId, event.createdAt, c.seq);
          ids.add(c.seq);
          newIds.set(event.id, c.seq);
          const happened = Math.max(event.createdAt ?? -Infinity, event.toldAt ?? -Infinity);
          if (event.cursor && happened >= born) heard({ seq: c.seq, cursor: event.cursor }, c.origin);
          // Only a webhook brings an id.
          return duplicate(c, same ? undefined : 'its cursor was known with other data');
        }
        if (same) {
          alias(nameOfId(event), same.seq);
          return duplicate(same);
        }
        store(event, true);
        add('events');
        add('accepted');
        tally.first(event, false);
        return { verdict: 'new', conflict: record(c, event, 'its cursor was known with another id and other data') };

        function withId(): Known | undefined {
          const seq = ofId(event.id);
          return seq === undefined ? byAlias.get(cursor, nameOfId(event)) : bySeq.get(cursor, seq);
        }

        function copy(seq: number): void {
          const { secret = null, skewSeconds: skew = null } = event.signed ?? {};
          copied.run({ seq, now: batch.now, secret, skew });
        }

        function seen(of: Known): void {
          if (of.origin !== event.origin) sight.run(of.seq, event.origin, batch.now);
        }

        function duplicate(of: Known | undefined, conflict?: string): Accepted {
          const delivered = event.origin === 'webhook';
          add(delivered ? 'duplicates' : 'reread');
          if (of && delivered) {
            addCopy.run(of.seq);
            copy(of.seq);
          }
          if (of) seen(of);
          return of && conflict
            ? { verdict: 'duplicate', conflict: record(of, event, conflict) }
            : { verdict: 'duplicate' };
        }
      }

      function alias(name: string | null, seq: number): void {
        addAlias.run(name, seq);
        aliased = true;
      }

      function record(of: Known, { origin, cursor, id, body }: Incoming, reason: string): Conflict {
        const row = { seq: of.seq, now: batch.now, origin, cursor: bind(cursor), id, reason, body };
        add('conflicts', addConflict.run(row).changes);
        return { with: of.key, reason };
      }
    };

    return { together, apart };
  }

  function setFacts(facts: Batch['facts']): void {
    for (const [name, value] of Object.entries(facts ?? {})) session.setState(name as StateKey, value);
  }

  /** Each alone: what cannot be written is dropped, and fails nothing else. */
  function ride(counts: Counts = {}, facts: Batch['facts'] = {}): void {
    const drop = (name: string, work: () => void): void => {
      const failure = poison.failureOf(work);
      if (failure !== undefined) onDropped(name, failure);
    };
    for (const [name, value] of Object.entries(counts)) drop(name, () => session.count({ [name]: value }));
    for (const [name, value] of Object.entries(facts)) drop(name, () => setFacts({ [name]: value }));
  }

  /** One gap for one place: while nothing behind it was known, the same is found again and only learns where it ends. */
  function raiseGap({ after, upTo, reason }: NonNullable<Batch['gap']>, now: number): { event: Incoming }[] {
    const open = openGap.get(BigInt(after));
    // One that was closed meanwhile is raised once more when its end is known: it has grown since.
    if (open && (upTo === null || !open.closed)) {
      endGap.run(bind(upTo), open.id);
      return [];
    }
    const gap = Number(addGap.run(BigInt(after), bind(upTo), reason, now).lastInsertRowid);
    const body = Buffer.from(JSON.stringify({ 'kit.gap': { gap, after, upTo, reason } }));
    const rest = { cursor: null, type: 'kit.gap', sessionId: null, createdAt: now, flags: [] };
    return [{ event: { origin: 'kit', id: gapId(gap), body, ...rest } }];
  }

  return {
    accept,
    readmit,
    note(counts, facts) {
      try {
        session.write(() => {
          session.count(counts);
          setFacts(facts);
        });
      } catch (error) {
        if (faultOf(error, session.path)) throw error;
        session.write(() => ride(counts, facts));
      }
    },
    /** Whether the path still names the file that is open. */
    inPlace: () => inodesOf(session.path) === opened,
  };
}

type Accept = (batch: Batch) => Accepted[];

/** No delivery can bring it: ids of the service are ASCII. */
export function gapId(gap: number | string): string {
  return `kit.gap\u00b7${gap}`;
}

/** Told what was to be written beside deliveries, and could not be. */
export type Dropped = (what: string, error: unknown) => void;

function bind(cursor: string | null): bigint | null {
  return cursor === null ? null : BigInt(cursor);
}

function nameOfCursor({ cursor }: Incoming): string | null {
  return cursor && `c:${cursor}`;
}

function nameOfId({ id }: Incoming): string | null {
  return id && `i:${id}`;
}

/** Nobody sends its items again once the watermark has passed them. */
function isPage({ readings, watermark, from, gap }: Batch): boolean {
  const origins = readings.map((one) => ('event' in one ? one.event : one.unreadable).origin);
  return (watermark ?? from ?? gap) !== undefined || origins.some((origin) => origin !== 'webhook');
}

/** Compared as JSON: two origins write the same data in different bytes. What was erased can contradict nothing. */
function sameData(known: Known, event: Incoming): boolean {
  if (known.type !== event.type) return known.body === null && known.digest === null;
  if (known.body === null) return known.digest === null || Buffer.compare(known.digest, digestOf(dataOf(event))) === 0;
  if (known.origin === event.origin && Buffer.compare(known.body, event.body) === 0) return true;
  return sameJson(dataOfBody(known.origin, known.type, known.body), dataOf(event));
}

function dataOf({ origin, type, body }: Incoming): JsonObject {
  return dataOfBody(origin, type, body);
}

function highest(a: Cursor | null, b: Cursor | undefined): Cursor | null {
  return b === undefined || (a !== null && compareCursors(a, b) > 0) ? a : b;
}

/** Of the file and of its log: without its log, what was committed lately is gone, and SQLite does not say so. */
function inodesOf(path: string): string {
  if (path === ':memory:') return '';
  return [path, `${path}-wal`].map((file) => statSync(file, { throwIfNoEntry: false })?.ino ?? 'none').join();
}
