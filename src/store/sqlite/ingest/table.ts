// How SQLite inserts arriving events: one prepared statement, and the index of ids.
import type { Incoming } from '../../../wire/event.ts';
import { nameOfCursor, nameOfId } from '../../identity.ts';
import type { Counts } from '../../state.ts';
import type { EventTable } from '../../sql/ingest/arriving.ts';
import { bind } from '../../sql/session.ts';
import type { Connection } from '../connection.ts';
import { createArrivals } from './arrivals.ts';
import type { createIds } from './ids.ts';

/** `count` writes counters, in the open transaction. */
export function createEventTable(
  db: Connection,
  ids: ReturnType<typeof createIds>,
  count: (counts: Counts) => Promise<void>,
): EventTable {
  const insert = db.prepare(`
    insert into events (cursor, conflicting, id, type, session_id, created_at, received_at, origin, flags, secret, skew_s, live, body)
    values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) on conflict do nothing`);
  const alias = db.prepare('select 1 from aliases where name = ?');
  const anyAlias = db.prepare('select 1 from aliases limit 1');
  const arrivals = createArrivals(db);
  const holds = db.prepare('select 1 from events where seq = ? and id = ?');
  /** The ids that the open transaction has added, also in savepoints that were rolled back. */
  let added = new Map<string, number>();
  let isExact = true;

  function store(event: Incoming, conflicting: boolean, now: number): number | null {
    const { cursor, id, type, sessionId, createdAt, origin, flags, body, live } = event;
    const { secret = null, skewSeconds = null } = event.signed ?? {};
    const place = [bind(cursor), conflicting ? 1 : 0, id, type, sessionId, createdAt, now, origin];
    const { changes, lastInsertRowid } = insert.run(...place, flags.join(','), secret, skewSeconds, live ? 1 : 0, body);
    return changes === 0 ? null : Number(lastInsertRowid);
  }

  function isNamed(event: Incoming): boolean {
    return [nameOfCursor(event), nameOfId(event)].some((name) => name !== null && alias.get(name) !== undefined);
  }

  function find(id: string): number | undefined {
    const own = added.get(id);
    return own !== undefined && holds.get(own, id) !== undefined ? own : ids.find(id);
  }

  return {
    begin(apart) {
      ids.refresh();
      added = new Map();
      isExact = !apart;
    },
    async insert(events, how, { now, fresh, pruned: { floor } }) {
      // Aliases are rare: one query for the whole batch saves two queries for each event.
      const aliased = how === 'new' && anyAlias.get() !== undefined;
      const sum = arrivals(now);
      const stored: Incoming[] = [];
      const isKnown = (event: Incoming): boolean =>
        (floor !== null && event.cursor !== null && BigInt(event.cursor) <= floor) ||
        (event.id !== null && find(event.id) !== undefined) ||
        (aliased && isNamed(event));
      const seqs = events.map((event) => {
        const seq = how === 'new' && isKnown(event) ? null : store(event, how === 'conflicting', now);
        if (seq === null) return null;
        stored.push(event);
        if (event.id !== null) added.set(event.id, seq);
        const recovered = event.origin === 'replay' || event.origin === 'stream';
        sum.first(event, how !== 'conflicting' && recovered && fresh === true);
        return seq;
      });
      const first = seqs.find((seq) => seq !== null);
      if (first != null) ids.addFrom(first);
      sum.write();
      const recovered = stored.filter(({ origin }) => origin === 'replay').length;
      const isNew = how === 'conflicting' ? 0 : recovered;
      await count({ events: stored.length, accepted: stored.length, recovered: isNew });
      return seqs;
    },
    delivered: async (types, now) => arrivals(now).delivered(types),
    withId: async (names) =>
      new Map(
        names.flatMap((id) => {
          const seq = find(id);
          return seq === undefined ? [] : [[id, seq] as const];
        }),
      ),
    async addedId(seq, id) {
      ids.add(seq);
      added.set(id, seq);
    },
    committed: () => ids.learn(isExact ? added : undefined),
  };
}
