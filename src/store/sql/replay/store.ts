// The replay role of the store: how far history was read, and where to read on.
import type { Cursor } from '../../../wire/cursor.ts';
import type { IngestStore } from '../../ingest.ts';
import type { DeliveredType, Stretch } from '../../keep.ts';
import type { ReplayStore } from '../../replay.ts';
import type { StateKey, StateValue } from '../../state.ts';
import { createByTime } from '../read/by-time.ts';
import { createWatermark } from '../ingest/watermark.ts';
import type { Session } from '../session.ts';
import { idsOfEvent } from '../work/waiting.ts';

// oxlint-disable-next-line max-lines-per-function -- one statement each, beside the method that runs it
export function createReplayStore(session: Session, accept: IngestStore['accept']): ReplayStore {
  const watermark = createWatermark(session);
  const text = (column: string): string => `cast(${column} as text)`;
  const lowest = session.value<Cursor | null>(
    `select ${text('min(cursor)')} from events where cursor >= ? and conflicting = 0`,
  );
  const newest = session.value<Cursor | null>(
    `select ${text('max(cursor)')} from events where cursor is not null and conflicting = 0`,
  );
  const older = session.value<Cursor>(`
    select ${text('cursor')} from (
      select cursor from events where seq <= ? and cursor is not null and conflicting = 0 order by seq desc limit 100)
    as latest where cursor >= ? order by latest.cursor`);
  const lowestDelivered = session.value<Cursor>(
    `select ${text('cursor')} from events where cursor is not null and conflicting = 0 and id is not null order by events.cursor limit 1`,
  );
  const { newest: newestEvent, lastBefore } = createByTime(session);
  const ofEvent = `id ${idsOfEvent('seq')}`;
  const unseen = session.statement<{ seq: number; type: string | null }>(`
    select seq, case when origin = 'webhook' and cursor > @from and conflicting = 0
      and not exists (select 1 from seen_by_origin where event = seq and origin in ('replay', 'stream')) then type end as type
    from events where seq > @after and seq <= @last order by seq limit @limit`);
  const above = session.value<Cursor>(`
    select ${text('cursor')} from events where cursor > ? and conflicting = 0 order by events.cursor limit 1`);
  const below = session.value<Cursor>(`
    select ${text('cursor')} from events where cursor < ? and conflicting = 0 order by events.cursor desc limit 1`);
  const atMost = session.value<Cursor>(`
    select ${text('cursor')} from events where cursor <= ? and conflicting = 0 order by events.cursor desc limit 1`);
  const stretch = session.statement<{ cursor: Cursor; type: string; tasks: number; open: number; dead: number }>(`
    select ${text('cursor')} as cursor, type,
      (select count(*) from tasks where ${ofEvent}) as tasks,
      (select count(*) from tasks where ${ofEvent} and state = 'ready') as open,
      (select count(*) from tasks where ${ofEvent} and state = 'dead') as dead
    from events where events.cursor > @after and conflicting = 0 and (events.cursor <= @upTo or received_at < @before)
    order by events.cursor limit @limit`);
  const types = session.statement<DeliveredType>(
    'select type, delivered_at as "deliveredAt", missed, missed_since as "missedSince" from types',
  );

  const change = (name: StateKey, from: StateValue, to: StateValue): Promise<void> =>
    session.write(async () => {
      if ((await session.state(name)) === from) await session.setState(name, to);
    }, 'door');

  return {
    lowestDelivered: async () => (await lowestDelivered.get()) ?? null,
    lowerWatermark: watermark.lower,
    watermarkAhead: (...given) => watermark.ahead(...given),
    ceiling: watermark.ceiling,
    giveUpWatermark: (now) =>
      session.write(async () => {
        const given = await session.cursorState('watermark');
        if (given === null) return null;
        const state = { watermark: null, proved_from: null, begins_at: null, anchored_at: null, refused: null };
        await accept({ readings: [], now, gap: { after: given, upTo: null, reason: 'forgotten' }, state });
        return given;
      }, 'door'),
    newestCursor: async () => (await newest.get()) ?? null,
    cursorAbove: async (bound) => (await above.get(BigInt(bound ?? -1))) ?? null,
    cursorBelow: async (bound) => (await (bound === null ? newest.get() : below.get(BigInt(bound)))) ?? null,
    cursorUpTo: async (bound) => (await atMost.get(BigInt(bound))) ?? null,
    async anchors(before) {
      const last = await lastBefore(before);
      // Cursors below the end of the last gap do not count, because the service no longer has their events.
      const from = BigInt((await session.cursorState('proved_from')) ?? 0);
      const latest = await older.all(last, from);
      return {
        lowest: (await lowest.get(from)) ?? null,
        older: latest[Math.floor(latest.length / 2)] ?? null,
        young: (await newestEvent()) > last,
      };
    },
    async unseen(after, upTo, limit) {
      const from = await session.cursorState('proved_from');
      if (from === null) return { types: [], next: after };
      const rows = await unseen.all({ after, last: upTo, from: BigInt(from), limit });
      const found = new Map<string, number>();
      for (const { type } of rows) if (type !== null) found.set(type, (found.get(type) ?? 0) + 1);
      return { types: [...found].map(([type, events]) => ({ type, events })), next: rows.at(-1)?.seq ?? after };
    },
    async stretch(after, upTo, before, limit) {
      const rows = await stretch.all({ after: BigInt(after), upTo: BigInt(upTo), before, limit });
      const sums = new Map<string, Stretch['types'][number]>();
      for (const { type, tasks, open, dead } of rows) {
        const sum = sums.get(type) ?? { type, stored: 0, handled: 0, dead: 0 };
        sums.set(type, sum);
        sum.stored++;
        if (dead > 0) sum.dead++;
        else if (tasks > 0 && open === 0) sum.handled++;
      }
      return { types: [...sums.values()], next: rows.length === limit ? (rows.at(-1)?.cursor ?? null) : null };
    },
    types: () => types.all(),
    openHistory: () => change('history_reading', null, 'open'),
    endHistory: (upTo) => change('history', null, BigInt(upTo)),
    closeHistory: () => change('history_reading', 'open', 'over'),
  };
}
