// Ingest in memory: an arrival is a new event, or one that is known (store/identity.ts). Also gaps, counters and state.
import { gapEvent } from '../../../store/gap-event.ts';
import { decide, nameOfCursor, nameOfId, type StoredIdentity } from '../../../store/identity.ts';
import type { Accepted, Batch } from '../../../store/ingest.ts';
import type { Counts, StateKey, StateValue } from '../../../store/state.ts';
import type { Gap } from '../../../store/read.ts';
import type { StoredEvent } from '../../../store/work.ts';
import { riseOf } from '../../../store/watermark.ts';
import { iso } from '../../../base/clock.ts';
import type { Cursor } from '../../../wire/cursor.ts';
import type { Incoming, Reading, Unreadable } from '../../../wire/event.ts';

/** `copies`: further deliveries of the event. */
type EventRow = StoredEvent & StoredIdentity & { copies: number };

// oxlint-disable-next-line max-lines-per-function -- the steps of one arrival share what is known
export function createIngest() {
  /** The number of an event or gap is its place in the list, from 1. */
  const events: EventRow[] = [];
  const gaps: Gap[] = [];
  const counters = new Map<string, number>();
  const state = new Map<StateKey, StateValue>();
  /** By the names of identity.ts: the cursors and ids of events, and their aliases. */
  const known = new Map<string, EventRow>();
  /** What is recorded once: contradictions, and quarantined bytes. */
  const records = new Set<string>();

  /** Finds an event by its key, cursor or id. */
  const find = (name: string) => known.get(name) ?? known.get(`c:${name}`) ?? known.get(`i:${name}`);
  const watermark = (): Cursor | null => (state.get('watermark') ?? null) as Cursor | null;

  function note(counts: Counts, values: Batch['state'] = {}): void {
    for (const [name, by = 0] of Object.entries(counts)) counters.set(name, (counters.get(name) ?? 0) + by);
    for (const [name, value] of Object.entries(values)) state.set(name as StateKey, value);
  }

  function accept(batch: Batch): Accepted[] {
    // Nothing is written if one of the cursors is no number.
    for (const reading of batch.readings) if ('event' in reading) BigInt(reading.event.cursor ?? 0);
    const readings = [...batch.readings, ...raiseGap(batch)];
    const accepted = readings.map((one) => ('event' in one ? take(one.event, batch.now) : setAside(one.unreadable)));
    const rises = batch.watermark && riseOf(batch, watermark(), null) === 'rises';
    note(batch.counts ?? {}, { ...(rises && { watermark: batch.watermark }), ...batch.state });
    return accepted.slice(0, batch.readings.length);
  }

  /** There is one gap for each `after`. If it is found again while its end is unknown, only its end is written. */
  function raiseGap({ gap, now }: Batch): Reading[] {
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

  function take(event: Incoming, now: number): Accepted {
    const { cursor, origin } = event;
    const atCursor = known.get(nameOfCursor(event) ?? '');
    const withId = known.get(nameOfId(event) ?? '');
    const conflicting = atCursor ? events.filter((row) => row.conflicting && row.cursor === cursor) : [];
    const decision = decide(event, { atCursor, withId, conflicting });
    if (decision.is === 'new') {
      store(event, 0, now);
      if (origin === 'replay') note({ recovered: 1 });
      return { verdict: 'new' };
    }
    const { of: row, reason } = decision;
    if (reason && isFirst(`conflict ${row.seq}`, event.body)) note({ conflicts: 1 });
    const conflict = reason && { conflict: { with: row.key, reason } };
    if (decision.is === 'conflicting') {
      store(event, 1, now);
      return { verdict: 'new', ...conflict };
    }
    if (decision.addId) {
      const { id, sessionId, createdAt } = event;
      Object.assign(row, { id, sessionId: row.sessionId ?? sessionId, createdAt: row.createdAt ?? createdAt });
      known.set(`i:${id}`, row);
    }
    if (decision.alias) known.set(decision.alias, row);
    if (origin === 'webhook') row.copies++;
    note({ [origin === 'webhook' ? 'duplicates' : 'reread']: 1 });
    return { verdict: 'duplicate', ...conflict };
  }

  function store(event: Incoming, conflicting: 0 | 1, receivedAt: number): void {
    const { cursor, id, body } = event;
    const key = cursor === null || conflicting ? `i:${id}` : `c:${cursor}`;
    const text = Buffer.from(body).toString();
    const live = event.live ? 1 : 0;
    const seq = events.length + 1;
    const row: EventRow = { ...event, seq, key, receivedAt, live, text, conflicting, digest: null, copies: 0 };
    events.push(row);
    known.set(key, row);
    if (id !== null) known.set(`i:${id}`, row);
    note({ events: 1, accepted: 1 });
  }

  function setAside({ body, cursor, origin }: Unreadable): Accepted {
    const again = origin === 'webhook' ? 'duplicates' : 'reread';
    note({ [isFirst(`quarantine ${cursor}`, body) ? 'quarantined' : again]: 1 });
    return { verdict: 'quarantined' };
  }

  function isFirst(what: string, body: Uint8Array): boolean {
    const before = records.size;
    return records.add(`${what} ${Buffer.from(body).toString('base64')}`).size > before;
  }

  return { events, gaps, counters, state, watermark, note, accept, find };
}
