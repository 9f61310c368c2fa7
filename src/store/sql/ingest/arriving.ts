// Readings on their way into the store, in two phases. New events are inserted. Then each other reading is found to be
// known (identity.ts), in the order of arrival.
import type { Incoming, Reading, Unreadable } from '../../../wire/event.ts';
import { isBehind, type Cursor } from '../../../wire/cursor.ts';
import { decide, nameOfCursor, nameOfId, placeOf, type Pruned } from '../../identity.ts';
import type { Accepted, Batch, Conflict } from '../../ingest.ts';
import { addTo, type Counts } from '../../state.ts';
import { createBirthWatch, createHeard } from './birth.ts';
import { createLookUp, type Look, type Stored } from './known.ts';
import { bytesDigestOf, POISONED } from './poison.ts';
import { bind, type Session } from '../session.ts';

/** What each database does in its own way, because every delivery costs it. */
export interface EventTable {
  /**
   * Inserts events, and counts `events`, `accepted`, `recovered` and arrivals. Returns the number of each event. Null:
   * with `new`, its cursor, its id or an alias is known, or its cursor is at or below the floor.
   */
  insert(events: Incoming[], how: 'new' | 'decided' | 'conflicting', batch: Arriving): Promise<(number | null)[]>;
  /** Notes that webhooks have brought these types. */
  delivered(types: string[], now: number): Promise<void>;
  /** The numbers of the events that have one of these ids. */
  withId: (ids: string[]) => Promise<Map<string, number>>;
  /** The stored event has got its id. */
  addedId(seq: number, id: string): Promise<void>;
  /** Called in a new transaction. `apart`: readings that fail are undone by savepoints. */
  begin?(apart: boolean): void;
  /** The transaction is committed. */
  committed?(): void;
}

export type Arriving = Pick<Batch, 'now' | 'fresh' | 'watermark'> & { pruned: Pruned };

// oxlint-disable-next-line max-lines-per-function -- the steps of one arrival share the counts of its batch
export function createArriving(session: Session, table: EventTable) {
  const addAlias = session.statement('insert into aliases values (?, ?) on conflict (name) do nothing');
  const addId = session.statement(`
    update events set id = ?, session_id = coalesce(session_id, ?),
      created_at = coalesce(created_at, ?) where seq = ?`);
  const addOrigin = session.statement(
    'insert into seen_by_origin values (?, ?, ?) on conflict (event, origin) do nothing',
  );
  const addCopy = session.statement('update events set copies = copies + 1 where seq = ?');
  const addRedelivery = session.statement(`
    insert into redeliveries (event, n, received_at, secret, skew_s)
    select seq, case when copies < 8 then copies else 8 end, cast(@now as bigint), cast(@secret as bigint), cast(@skew as bigint)
    from events where seq = @seq
    on conflict (event, n) do update
      set received_at = excluded.received_at, secret = excluded.secret, skew_s = excluded.skew_s`);
  // Replay shows the same contradiction again and again; it is recorded once.
  const addConflict = session.statement(`
    insert into conflicts (seq, received_at, origin, cursor, event_id, reason, body)
    select cast(@seq as bigint), cast(@now as bigint), cast(@origin as text), cast(@cursor as bigint), cast(@id as text),
      cast(@reason as text), @body
    where not exists (select 1 from conflicts where seq = @seq and body = @body)`);
  const quarantine = session.value<number>(`
    insert into quarantine (digest, received_at, origin, cursor, reason, body) values (?, ?, ?, ?, ?, ?)
    on conflict (digest) do update set copies = quarantine.copies + 1 returning copies`);
  const lookUp = createLookUp(session, table.withId);
  const learnBirth = createBirthWatch(session);
  const heard = createHeard(session);

  // oxlint-disable-next-line max-lines-per-function -- as above
  return async (readings: Reading[], batch: Pick<Batch, 'now' | 'fresh' | 'watermark'>): Promise<Accepted[]> => {
    const { now } = batch;
    const counts: Counts = {};
    const events = readings.flatMap((reading) => ('event' in reading ? [reading.event] : []));
    const arriving: Arriving = { ...batch, pruned: await prunedBy(batch.watermark) };
    await learnBirth(events);
    const firsts = firstMentions(events);
    const seqs = await table.insert(firsts, 'new', arriving);
    const stored = new Set(firsts.filter((_, index) => seqs[index] !== null));
    await table.delivered(typesOf(events), now);

    const rest = events.filter((event) => !stored.has(event));
    const known = rest.length > 0 ? await lookUp(rest) : undefined;
    const writes: Promise<unknown>[] = [];
    const witnesses: Parameters<typeof heard>[0] = [];
    const results: Accepted[] = [];
    for (const reading of readings) {
      if ('unreadable' in reading) results.push(await keepAside(reading.unreadable));
      else results.push(known && !stored.has(reading.event) ? await resolve(reading.event, known) : { verdict: 'new' });
    }
    await Promise.all(writes);
    await heard(witnesses);
    await session.count(counts);
    return results;

    /** The next statement need not wait for the end of this one. */
    function write(statement: Promise<unknown>): void {
      statement.catch(() => {});
      writes.push(statement);
    }

    async function keepAside(unreadable: Unreadable): Promise<Accepted> {
      const { body, origin, cursor, reason } = unreadable;
      const copies = await quarantine.get(bytesDigestOf({ unreadable }), now, origin, bind(cursor), reason, body);
      addTo(counts, copies === 0 ? 'quarantined' : origin === 'webhook' ? 'duplicates' : 'reread');
      if (copies === 0 && reason.startsWith(POISONED)) addTo(counts, 'poisoned');
      return { verdict: 'quarantined' };
    }

    /** For an arrival whose id or cursor may be known. */
    async function resolve(event: Incoming, look: Look): Promise<Accepted> {
      const decision = decide(event, look.of(event));
      if (decision.is === 'new') {
        const place = placeOf(event, arriving.pruned, now);
        if (place === 'pruned') return { ...duplicate(event, undefined), pruned: true };
        if (place === 'regressed') addTo(counts, 'regressions');
        await look.stored(event, await insert(event, 'decided'));
        return { verdict: 'new' };
      }
      const { of, reason } = decision;
      if (decision.is === 'conflicting') {
        await look.stored(event, await insert(event, 'conflicting'));
        return { verdict: 'new', conflict: await record(of, event, decision.reason) };
      }
      if (decision.addId) addIdTo(of, event, look);
      if (decision.alias) {
        write(addAlias.run(decision.alias, of.seq));
        look.addAlias(decision.alias, of);
      }
      const accepted = duplicate(event, of);
      return reason === undefined ? accepted : { ...accepted, conflict: await record(of, event, reason) };
    }

    async function insert(event: Incoming, how: 'decided' | 'conflicting'): Promise<number> {
      const [seq] = await table.insert([event], how, arriving);
      if (seq == null) throw new Error('an event that is not known was not stored');
      return seq;
    }

    function addIdTo(of: Stored, { id, sessionId, cursor, createdAt, toldAt }: Incoming, look: Look): void {
      if (id === null) return;
      look.addId(of, id);
      write(addId.run(id, sessionId, createdAt, of.seq));
      write(table.addedId(of.seq, id));
      const happened = Math.max(createdAt ?? -Infinity, toldAt ?? -Infinity);
      if (cursor) witnesses.push({ seq: of.seq, cursor, origin: of.origin, happened });
    }

    function duplicate(event: Incoming, of: Stored | undefined): Accepted {
      const delivered = event.origin === 'webhook';
      addTo(counts, delivered ? 'duplicates' : 'reread');
      if (of && delivered) {
        const { secret = null, skewSeconds: skew = null } = event.signed ?? {};
        write(addCopy.run(of.seq));
        write(addRedelivery.run({ seq: of.seq, now, secret, skew }));
      }
      if (of && of.origin !== event.origin) write(addOrigin.run(of.seq, event.origin, now));
      return { verdict: 'duplicate' };
    }

    async function record(of: Stored, { origin, cursor, id, body }: Incoming, reason: string): Promise<Conflict> {
      addTo(
        counts,
        'conflicts',
        await addConflict.run({ seq: of.seq, now, origin, cursor: bind(cursor), id, reason, body }),
      );
      return { with: of.key, reason };
    }
  };

  async function prunedBy(watermark: Cursor | undefined): Promise<Pruned> {
    const before = await session.cursorState('watermark');
    const floor = await session.floor(watermark !== undefined && isBehind(before, watermark) ? watermark : before);
    return { floor, before: Number((await session.state('pruned_before')) ?? 0) };
  }
}

/** Events without a cursor are no part of the history: test events, and events of the kit. */
export function typesOf(events: Incoming[]): string[] {
  const types = events.flatMap(({ origin, cursor, type }) => (origin === 'webhook' && cursor !== null ? [type] : []));
  return [...new Set(types)].toSorted();
}

/** The events of a batch whose cursor and id no earlier event of it has. */
export function firstMentions(events: Incoming[]): Incoming[] {
  const names = new Set<string>();
  return events.filter((event) => {
    const own = [nameOfCursor(event), nameOfId(event)].filter((name) => name !== null);
    const isFirst = !own.some((name) => names.has(name));
    for (const name of own) names.add(name);
    return isFirst;
  });
}
