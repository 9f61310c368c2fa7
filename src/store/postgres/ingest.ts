// The one door, as in ../sqlite/ingest.ts. Whoever writes events holds the lock `ingest` until the commit, so that
// events become visible in the order of their numbers: a position misses none. Rows are read and written in batches.
import { hash } from 'node:crypto';
import type { Cursor } from '../../wire/cursor.ts';
import type { Arrival, Unreadable } from '../../wire/event.ts';
import { add, doesProve, orAlone } from '../identity.ts';
import { ORIGINS } from '../rows.ts';
import { stateOf, type Values } from '../sql.ts';
import type { Counts, IngestStore, Verdict } from '../store.ts';
import type { Connections, Tx } from './connection.ts';
import { createKnown, type Row } from './known.ts';
import { rows } from './rows.ts';

/** Bodies are read only if an arrival has an id: without one, they are not compared. */
const KNOWN = `select seq, cast(cursor as text) as cursor, id, type, session, created_at as "createdAt", origin, origins,
    deliveries, body is null as erased, case when cardinality(cast(@ids as text[])) > 0 then body end as body
  from events where cursor = any(cast(@cursors as bigint[])) or id = any(cast(@ids as text[]))`;
const NEW = rows({ bigint: 'cursor createdAt origin origins deliveries bytes', text: 'id type session' });
/** All bodies are one value: an array of them would be sent as hexadecimal text, which takes three times as long. */
const BODY = `substring(cast(@bodies as bytea)
  from cast(1 + sum(bytes) over (order by n) - bytes as int) for cast(bytes as int))`;
const INSERT = `insert into events (cursor, id, type, session, created_at, received_at, origin, origins, deliveries, body)
  select cursor, id, type, session, "createdAt", @now, origin, origins, deliveries, ${BODY}
  from ${NEW.from} order by n`;
const CHANGED = rows({ bigint: 'seq cursor createdAt origins deliveries', text: 'id session' });
const CHANGE = `update events e set cursor = v.cursor, id = v.id, session = v.session, created_at = v."createdAt",
    origins = v.origins, deliveries = v.deliveries from ${CHANGED.from} where e.seq = v.seq`;
/** The contradicted event may be new in this batch, so its number is looked up. */
const SET_ASIDE = `insert into quarantine (reason, digest, received_at, origin, cursor, event, body)
  values (@reason, @digest, @now, @origin, cast(@cursor as bigint),
    (select seq from events where cursor = cast(@ofCursor as bigint) or id = @ofId limit 1), @body)
  on conflict (reason, digest) do update set copies = quarantine.copies + @copies returning xmax = 0 as "isNew"`;

export function createIngest(db: Connections): IngestStore {
  const { clock } = db;
  const accept: IngestStore['accept'] = ({ readings, counts = {}, state = {}, proves }) =>
    db.write(async (tx) => {
      const events = readings.flatMap((one) => ('event' in one ? one.event : []));
      const ids = events.flatMap(({ id }) => id ?? []);
      const cursors = events.flatMap(({ cursor }) => cursor ?? []);
      // The lock is a statement of its own: those after it see what was committed before it was taken.
      // Known events are read before the floor: pruning, which takes no such lock, may remove some between the two.
      const [, found, floor, watermark] = await Promise.all([
        tx.lock('ingest'),
        events.length > 0 ? tx.all<Row>(KNOWN, { ids, cursors }) : [],
        stateOf<Cursor>(tx, 'floor'),
        stateOf<Cursor>(tx, 'watermark'),
      ]);
      const batch: Batch = { now: clock.now(), counts: { ...counts } };
      const known = createKnown(found, floor);
      const judged = readings.map((one) => ('event' in one ? known.judge(one.event) : null));
      if (known.added.length > 0) tx.last(INSERT, { ...newOf(known.added), now: batch.now });
      if (known.changed.size > 0) tx.last(CHANGE, CHANGED.of([...known.changed]));
      const verdicts: Verdict[] = [];
      for (const [n, one] of readings.entries()) {
        const { as, of } = { of: null, as: 'quarantined' as const, ...judged[n] };
        if ('unreadable' in one)
          verdicts.push(await quarantine(tx, one.unreadable, one.unreadable.reason, null, batch));
        else if (of) verdicts.push(await quarantine(tx, one.event, 'conflict', of, batch));
        else verdicts.push(as);
        if (as === 'new') add(batch.counts, 'events');
        if (as === 'duplicate' && 'event' in one && one.event.origin === 'webhook') add(batch.counts, 'duplicates');
      }
      await tx.count(batch.counts);
      for (const [name, value] of Object.entries(state)) await tx.set(name, value);
      if (proves && doesProve(watermark, proves)) await tx.set('watermark', proves.to);
      return verdicts;
    });

  return { accept: orAlone(accept) };
}

type Batch = { now: number; counts: Counts };

function newOf(added: Row[]): Values {
  const bodies = added.flatMap(({ body }) => body ?? []);
  return { ...NEW.of(added.map((row) => ({ ...row, bytes: row.body?.length }))), bodies: Buffer.concat(bodies) };
}

async function quarantine(tx: Tx, what: Arrival | Unreadable, reason: string, of: Row | null, batch: Batch) {
  const { origin, cursor, body } = what;
  const about = { ofCursor: of?.cursor, ofId: of?.id, copies: Number(origin === 'webhook'), now: batch.now };
  const row = { reason, digest: hash('sha256', body, 'buffer'), origin: ORIGINS[origin], cursor, body };
  const kept = await tx.get<{ isNew: 0 | 1 }>(SET_ASIDE, { ...row, ...about });
  if (kept?.isNew === 1) add(batch.counts, 'quarantined');
  return of ? 'conflict' : ('quarantined' as const);
}
