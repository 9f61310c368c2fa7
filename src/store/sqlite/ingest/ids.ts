// The index from ids to events. Ids are random, so a normal index would read and write a database page for each event.
// The latest ids are in memory, and in a table in order of arrival. Every few thousand of them are sorted and become a
// part of a segment of the index on disk. Bloom filters in memory show that nearly every new id is in no segment.
// Decided 2026-11-23, measured with ten million stored events, as a part of the rate of an empty store (limit: 0.9):
// segments 0.93, an index over 48-bit hashes 0.87, over day and hash 0.74, a unique index over ids 0.70. Reversed if a
// simpler index holds 0.9.
import type { StateValue } from '../../state.ts';
import type { Session } from '../session.ts';

/** Ids in a segment, about 1.5 MB. Never change it after a release: full segments have their filters in the file. */
const SEGMENT = 32_768;
/** A segment has this many parts. Fewer would delay deliveries longer, when a part is written; more cost more to search. */
const PARTS = 16;
/** A condition for queries of `ids`. SQLite then looks into each part by its index. */
export const IN_A_PART = `part in (${[...Array(PARTS).keys()].join()})`;
/** A Bloom filter has 2 ** 11 blocks of 2 ** 9 bytes. One new id in 20,000 is searched in a segment needlessly. */
const BLOCK_BITS = 11;
const PLACE_BITS = 9;
/** The number of segments that share a filter. Each has one bit of every byte. */
const SHARED = 8;

interface Filter {
  /** The number of the first of the eight segments that share the filter. */
  first: number;
  marks: Uint8Array;
}

export function createIds(session: Session, idsInSegment = SEGMENT) {
  const { db } = session;
  const add = db.prepare('insert into latest_ids (id, event) select id, seq from events where seq = ?');
  const addFrom = db.prepare(
    'insert into latest_ids (id, event) select id, seq from events where seq >= ? and id is not null',
  );
  const newest = session.value<number, []>('select coalesce(max(n), 0) from latest_ids');
  const after = db.prepare<unknown[], { n: number; id: string; event: number }>(
    'select n, id, event from latest_ids where n > ? order by n',
  );
  const holds = session.value<number>('select seq from events where seq = ? and id = ?');
  const inSegment = session.value<number>(
    `select e.seq from ids i join events e on e.seq = i.event and e.id = i.id where i.segment = +? and ${IN_A_PART} and i.id = +?`,
  );
  const lastSegment = db.prepare<[], { segment: number; ids: number }>(
    'select segment, ids from id_segments order by segment desc limit 1',
  );
  const setSegment = db.prepare('insert or replace into id_segments values (@segment, @ids, @now)');
  const ofSegment = session.value<string, [number]>('select id from ids where segment = ?');
  const oldest = session.value<number, []>('select coalesce(min(n), 0) from latest_ids');
  const upTo = session.value<string, [number]>('select id from latest_ids where n <= ?');
  const sort = db.prepare(
    'insert or replace into ids select ?, ?, id, event from latest_ids where n <= ? order by id, n',
  );
  const remove = db.prepare('delete from latest_ids where n <= ?');
  const allFilters = db.prepare<[], Filter>('select first, marks from id_filters order by first desc');
  const keepFilter = db.prepare('insert or replace into id_filters values (@first, @marks)');

  const enough = Math.ceil(idsInSegment / PARTS);
  /** The `id_version` of the segments in memory; undefined: nothing is in memory. */
  let version: StateValue | undefined;
  let count = 0;
  let latest = new Map<string, number>();
  let filters: Filter[] = [];

  function refresh(): void {
    const now = session.state('id_version');
    if (now !== version) {
      // If a statement below fails, `version` stays undefined, so everything is read again.
      version = undefined;
      [count, latest, filters] = [0, new Map(), allFilters.all()];
      const last = lastSegment.get();
      // The file has the filters of full segments only, so the ids of the last segment are added to its filter here.
      if (last && last.ids < idsInSegment) mark(last.segment, ofSegment.all(last.segment));
      version = now;
    }
    for (const { n, id, event } of newest.get() === count ? [] : after.all(count)) {
      latest.set(id, event);
      count = n;
    }
  }

  function mark(segment: number, ids: Iterable<string>): Filter {
    const first = segment - (segment % SHARED);
    let filter = filters.find((one) => one.first === first);
    if (!filter) filters.unshift((filter = { first, marks: new Uint8Array(2 ** (BLOCK_BITS + PLACE_BITS)) }));
    const { marks } = filter;
    for (const id of ids)
      for (const place of placesOf(id)) marks[place] = (marks[place] ?? 0) | (2 ** (segment % SHARED));
    return filter;
  }

  return {
    /** The event with this id, or undefined. Call within a transaction, after `refresh`. */
    find(id: string): number | undefined {
      const recent = latest.get(id);
      if (recent !== undefined && holds.get(recent, id) !== undefined) return recent;
      if (filters.length === 0) return undefined;
      const places = placesOf(id);
      for (const { first, marks } of filters) {
        let segments = 0xff;
        for (let n = 0; n < places.length && segments > 0; n++) segments &= marks[places[n] ?? 0] ?? 0;
        for (let segment = first; segments > 0; segment++, segments >>= 1) {
          const seq = segments & 1 ? inSegment.get(segment, id) : undefined;
          if (seq !== undefined) return seq;
        }
      }
      return undefined;
    },
    /** Writes the id of an event. Call `learn` after the commit. */
    add: (seq: number): void => void add.run(seq),
    /** Writes the ids of this event and of all newer ones into the table `latest_ids`. Call `learn` after the commit. */
    addFrom: (seq: number): void => void addFrom.run(seq),
    /** Adds ids to the memory. Call it after their commit. */
    learn(added: Map<string, number> | undefined): void {
      // The caller's transaction may still fail, so the next `refresh` reads everything again.
      if (!added || db.inTransaction) {
        version = undefined;
        return;
      }
      for (const [id, seq] of added) latest.set(id, seq);
      count += added.size;
    },
    /** Reads the ids that other connections have written since the last call. */
    refresh,
    /** Sorts the latest ids into a segment, in a transaction of its own, once there are enough. */
    fold(now: number): void {
      if (count < enough || db.inTransaction) return;
      const folded = session.write(() => {
        refresh();
        if (count < enough) return undefined;
        const last = lastSegment.get() ?? { segment: -1, ids: idsInSegment };
        const { segment, ids } = last.ids < idsInSegment ? last : { segment: last.segment + 1, ids: 0 };
        // Usually all latest ids are taken. After a sweep they may be many, so the bound keeps the transaction short.
        const end = (oldest.get() ?? 0) + 2 * enough;
        const taken = upTo.all(end);
        sort.run(segment, Math.floor(ids / enough), end);
        remove.run(end);
        setSegment.run({ segment, ids: ids + taken.length, now });
        // If the transaction fails, the filter has too many marks, which is harmless. It never has too few.
        const filter = mark(segment, taken);
        if (ids + taken.length >= idsInSegment) keepFilter.run(filter);
        return { next: session.increment('id_version'), rest: end < count };
      });
      if (folded) [version, count, latest] = [folded.rest ? undefined : folded.next, 0, new Map()];
    },
  };
}

/** Removes segments whose events are old enough to be pruned. Ids whose events still exist are kept. */
export function createIdSweep(session: Session, idsInSegment = SEGMENT): (before: number) => void {
  const { db } = session;
  const old = session.value<number>('select segment from id_segments where added_at < ? order by segment');
  const rescue = db.prepare(`
    insert into latest_ids (id, event)
    select i.id, i.event from ids i join events e on e.seq = i.event and e.id = i.id where i.segment = ?`);
  const removeIds = db.prepare('delete from ids where segment = ?');
  const removeSegment = db.prepare('delete from id_segments where segment = ?');
  const removeFilters = db.prepare(
    `delete from id_filters where not exists (select 1 from id_segments where segment between first and first + ${SHARED - 1})`,
  );
  const waiting = session.value<number, []>('select count(*) from latest_ids');
  return (before) => {
    for (const segment of old.all(before)) {
      // The other segments wait for the next sweep, because the kept ids are in memory until they are sorted.
      if ((waiting.get() ?? 0) >= idsInSegment) return;
      session.write(() => {
        rescue.run(segment);
        removeIds.run(segment);
        removeSegment.run(segment);
        removeFilters.run();
        session.increment('id_version');
      });
    }
  };
}

/** The bytes of a Bloom filter that stand for an id, all in one block. Most lookups end at the second or third byte. */
function placesOf(id: string): number[] {
  let one = 0x811c9dc5;
  let other = 0x9747b28c;
  for (let index = 0; index < id.length; index++) {
    const code = id.charCodeAt(index);
    one = Math.imul(one ^ code, 0x01000193);
    other = Math.imul(other ^ code, 0x5bd1e995) ^ (other >>> 15);
  }
  const block = (Math.imul(one, 0x9e3779b1) >>> (32 - BLOCK_BITS)) << PLACE_BITS;
  const some = Math.imul(other ^ (other >>> 16), 0x85ebca6b);
  const more = Math.imul(some ^ (some >>> 13) ^ one, 0xc2b2ae35);
  const place = (bits: number): number => block + (bits & (2 ** PLACE_BITS - 1));
  return [some >>> 5, some >>> 14, some >>> 23, more >>> 5, more >>> 14, more >>> 23].map(place);
}
