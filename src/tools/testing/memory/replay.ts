// The replay role in memory: how far history was read, and where to read on.
import type { IngestStore } from '../../../store/ingest.ts';
import type { Stretch } from '../../../store/keep.ts';
import type { ReplayStore } from '../../../store/replay.ts';
import type { Cursor } from '../../../wire/cursor.ts';
import type { Data } from './data.ts';
import { placed, type createWatermark } from './watermark.ts';

// oxlint-disable-next-line max-lines-per-function -- one method of the role each, and each is short
export function createReplay(
  data: Data,
  watermark: ReturnType<typeof createWatermark>,
  ingest: IngestStore,
): ReplayStore {
  const { state, events, tasks, types } = data;
  const find = (matches: (cursor: bigint) => boolean): Cursor | null =>
    placed(data).find(({ cursor }) => matches(BigInt(cursor)))?.cursor ?? null;
  const findLast = (matches: (cursor: bigint) => boolean): Cursor | null =>
    placed(data).findLast(({ cursor }) => matches(BigInt(cursor)))?.cursor ?? null;

  return {
    lowestDelivered: async () => placed(data).find(({ id }) => id !== null)?.cursor ?? null,
    lowerWatermark: async (lowering) => watermark.lower(lowering),
    watermarkAhead: async (...given) => watermark.ahead(...given),
    ceiling: async () => watermark.ceiling(),
    async giveUpWatermark(now) {
      const after = data.cursor('watermark');
      if (after === null) return null;
      const none = { watermark: null, proved_from: null, begins_at: null, anchored_at: null, refused: null };
      await ingest.accept({ readings: [], now, gap: { after, upTo: null, reason: 'forgotten' }, state: none });
      return after;
    },
    newestCursor: async () => findLast(() => true),
    cursorAbove: async (bound) => find((cursor) => cursor > BigInt(bound ?? -1)),
    cursorBelow: async (bound) => findLast((cursor) => bound === null || cursor < BigInt(bound)),
    cursorUpTo: async (bound) => findLast((cursor) => cursor <= BigInt(bound)),
    async anchors(before) {
      const from = BigInt(data.cursor('proved_from') ?? 0);
      const isOlder = (seq: number): boolean => (events[seq - 1]?.receivedAt ?? 0) < before;
      const newest = placed(data)
        .filter(({ seq }) => isOlder(seq))
        .toSorted((a, b) => b.seq - a.seq);
      const latest = new Set(newest.slice(0, 100));
      const above = placed(data).filter((row) => latest.has(row) && BigInt(row.cursor) >= from);
      return {
        lowest: find((cursor) => cursor >= from),
        older: above[Math.floor(above.length / 2)]?.cursor ?? null,
        young: (events.at(-1)?.receivedAt ?? 0) >= before,
      };
    },
    async unseen(after, upTo, limit) {
      const from = data.cursor('proved_from');
      if (from === null) return { types: [], next: after };
      const rows = events.slice(after, Math.min(upTo, after + limit));
      const unseen = rows.filter(
        ({ origin, cursor, conflicting, seenBy }) =>
          origin === 'webhook' && !conflicting && BigInt(cursor ?? -1) > BigInt(from) && seenBy.size === 1,
      );
      const found = [...Map.groupBy(unseen, ({ type }) => type)];
      return { types: found.map(([type, { length }]) => ({ type, events: length })), next: rows.at(-1)?.seq ?? after };
    },
    async stretch(after, upTo, before, limit) {
      const rows = placed(data)
        .filter(({ cursor, receivedAt }) => {
          const at = BigInt(cursor);
          return at > BigInt(after) && (at <= BigInt(upTo) || receivedAt < before);
        })
        .slice(0, limit);
      const sums = new Map<string, Stretch['types'][number]>();
      for (const { seq, type } of rows) {
        const sum = sums.get(type) ?? { type, stored: 0, handled: 0, dead: 0 };
        const states = [...tasks.values()].flatMap(({ event, state: one }) => (event === seq ? [one] : []));
        sums.set(type, sum);
        sum.stored++;
        if (states.includes('dead')) sum.dead++;
        else if (states.length > 0 && !states.includes('ready')) sum.handled++;
      }
      return { types: [...sums.values()], next: rows.length === limit ? (rows.at(-1)?.cursor ?? null) : null };
    },
    types: async () => [...types].map(([type, known]) => ({ type, ...known })),
    openHistory: async () => set('history_reading', null, 'open'),
    endHistory: async (upTo) => set('history', null, upTo),
    closeHistory: async () => set('history_reading', 'open', 'over'),
    newestEvent: async () => events.length,
  };

  function set(name: 'history' | 'history_reading', from: string | null, to: string): void {
    if ((state.get(name) ?? null) === from) state.set(name, to);
  }
}
