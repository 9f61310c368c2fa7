// Ingest in memory: an arrival is a new event, or one that is known (store/identity.ts).
import { narrow, placeOf } from '../../../store/birth.ts';
import { gapEvent } from '../../../store/gap-event.ts';
import { decide, nameOfCursor, nameOfId } from '../../../store/identity.ts';
import type { Accepted, Batch, Conflict, StateKey } from '../../../store/ingest.ts';
import { iso } from '../../../base/clock.ts';
import type { Cursor } from '../../../wire/cursor.ts';
import type { Incoming, Unreadable } from '../../../wire/event.ts';
import type { Data, EventRow } from './data.ts';
import type { createWatermark } from './watermark.ts';

// oxlint-disable-next-line max-lines-per-function -- one method of the role each, and each is short
export function createIngest(data: Data, watermark: ReturnType<typeof createWatermark>) {
  const { events, gaps, state, undecided, types, count } = data;
  const byCursor = new Map<Cursor, EventRow>();
  const byId = new Map<string, EventRow>();
  const aliases = new Map<string, EventRow>();
  const quarantine = new Set<string>();
  const conflicts = new Set<string>();

  function accept(batch: Batch): Accepted[] {
    const arriving = batch.readings.flatMap((reading) => ('event' in reading ? [reading.event] : []));
    // Nothing is written if one of the cursors is no number.
    for (const { cursor } of arriving) BigInt(cursor ?? 0);
    const birth = data.birth();
    const { older, younger } = narrow(birth, arriving);
    state.set('older', older).set('younger', younger);
    const readings = [...batch.readings, ...raiseGap(batch)];
    const accepted = readings.map((one) => ('event' in one ? take(one.event, batch) : setAside(one.unreadable)));
    if (batch.from) state.set('proved_from', batch.from);
    watermark.raise(batch);
    count(batch.counts ?? {});
    for (const [name, value] of Object.entries(batch.state ?? {})) state.set(name as StateKey, value);
    return accepted.slice(0, batch.readings.length);
  }

  function raiseGap({ gap, now }: Batch): { event: Incoming }[] {
    if (!gap) return [];
    const open = gaps.findLast(({ after, upTo }) => after === gap.after && upTo === null);
    if (open && (gap.upTo === null || open.closedAt === null)) {
      open.upTo = gap.upTo;
      return [];
    }
    const id = gaps.length + 1;
    gaps.push({ id, ...gap, openedAt: iso(now) ?? '', closedAt: null, closedBy: null });
    return [{ event: gapEvent(id, gap, now) }];
  }

  function take(event: Incoming, batch: Batch): Accepted {
    const { cursor, id, type, origin } = event;
    if (origin === 'webhook' && cursor !== null)
      types.set(type, { deliveredAt: batch.now, missed: 0, missedSince: null });
    const atCursor = cursor === null ? undefined : (byCursor.get(cursor) ?? aliases.get(nameOfCursor(event) ?? ''));
    const withId = id === null ? undefined : (byId.get(id) ?? aliases.get(nameOfId(event) ?? ''));
    const conflicting = events.filter((row) => cursor !== null && row.cursor === cursor && row.conflicting);
    const decision = decide(event, { atCursor, withId, conflicting });
    if (decision.is === 'new') {
      store(event, 0, batch.now);
      if (origin === 'replay') count({ recovered: 1 });
      if (batch.fresh && origin !== 'webhook') miss(type, batch.now);
      return { verdict: 'new' };
    }
    const known = decision.of;
    if (decision.is === 'conflicting') {
      store(event, 1, batch.now);
      return { verdict: 'new', conflict: record(known, event, decision.reason) };
    }
    if (decision.addId) addId(known, event);
    if (decision.alias) aliases.set(decision.alias, known);
    count({ [origin === 'webhook' ? 'duplicates' : 'reread']: 1 });
    if (origin === 'webhook') known.copies++;
    known.seenBy.add(origin);
    const { reason } = decision;
    return { verdict: 'duplicate', ...(reason !== undefined && { conflict: record(known, event, reason) }) };
  }

  function store(event: Incoming, conflicting: 0 | 1, now: number): void {
    const { cursor, id, type, sessionId, createdAt, origin, body } = event;
    const key = cursor === null || conflicting ? `i:${id}` : `c:${cursor}`;
    const at = { createdAt, receivedAt: now, skewSeconds: event.signed?.skewSeconds ?? 0 };
    const live = event.live ? 1 : 0;
    const text = Buffer.from(body).toString();
    const identity = { seq: events.length + 1, key, id, cursor, type, sessionId, origin, conflicting } as const;
    const row: EventRow = { ...identity, ...at, live, text, body, digest: null, copies: 0, seenBy: new Set([origin]) };
    events.push(row);
    if (id !== null) byId.set(id, row);
    if (cursor !== null && !conflicting) byCursor.set(cursor, row);
    count({ events: 1, accepted: 1 });
  }

  /** A webhook names an event that replay or stream had brought without an id. */
  function addId(row: EventRow, { id, sessionId, createdAt, toldAt, cursor }: Incoming): void {
    if (id !== null) byId.set(id, row);
    row.id = id;
    row.sessionId ??= sessionId;
    row.createdAt ??= createdAt;
    const birth = { ...data.birth(), younger: null };
    if (cursor === null || Math.max(createdAt ?? -Infinity, toldAt ?? -Infinity) < birth.at) return;
    if (!undecided.has(row.seq)) {
      if (placeOf({ origin: row.origin, cursor, createdAt: null }, birth) === 'new') return;
      count({ undecided: 1 });
    }
    undecided.set(row.seq, { cursor: BigInt(cursor), ready: true });
  }

  function miss(type: string, now: number): void {
    const known = types.get(type) ?? { deliveredAt: null, missed: 0, missedSince: null };
    types.set(type, { ...known, missed: known.missed + 1, missedSince: known.missedSince ?? now });
  }

  /** The same contradiction is recorded once. */
  function record({ seq, key }: EventRow, { body }: Incoming, reason: string): Conflict {
    const row = `${seq} ${Buffer.from(body).toString('base64')}`;
    if (!conflicts.has(row)) count({ conflicts: 1 });
    conflicts.add(row);
    return { with: key, reason };
  }

  function setAside({ body, cursor, origin }: Unreadable): Accepted {
    const row = `${cursor} ${Buffer.from(body).toString('base64')}`;
    const name = !quarantine.has(row) ? 'quarantined' : origin === 'webhook' ? 'duplicates' : 'reread';
    count({ [name]: 1 });
    quarantine.add(row);
    return { verdict: 'quarantined' };
  }

  return {
    accept: async (batch: Batch) => accept(batch),
    sync: async () => {},
    /** By key, id or cursor. */
    find: (name: string): EventRow | undefined =>
      events.find(({ key }) => key === name) ??
      byCursor.get(name as Cursor) ??
      byId.get(name) ??
      aliases.get(`i:${name}`) ??
      aliases.get(`c:${name}`),
  };
}
