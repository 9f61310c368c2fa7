// The watermark in memory, by the rules of store/watermark.ts.
import { iso } from '../../../base/clock.ts';
import type { Batch } from '../../../store/ingest.ts';
import type { Ahead, Lowered, Lowering } from '../../../store/keep.ts';
import { aheadOf, PROMPT_MS, refusalOf, riseOf, WITNESSES, witnessedAfter } from '../../../store/watermark.ts';
import { compareCursors, type Cursor } from '../../../wire/cursor.ts';
import type { Data, EventRow } from './data.ts';

type Placed = EventRow & { cursor: Cursor };

/** Events that have their cursor for themselves, in cursor order. */
export function placed({ events }: Data): Placed[] {
  const rows = events.filter((row): row is Placed => row.cursor !== null && !row.conflicting);
  return rows.toSorted((a, b) => compareCursors(a.cursor, b.cursor));
}

// oxlint-disable-next-line max-lines-per-function -- one method of the role each, and each is short
export function createWatermark(data: Data) {
  const { state, events, gaps } = data;
  const watermark = (): Cursor | null => data.cursor('watermark');

  function ceiling(): Cursor | null {
    const refused = data.cursor('refused');
    const isPassed = placed(data).some(
      ({ id, cursor }) => id !== null && compareCursors(cursor, refused ?? cursor) >= 0,
    );
    return isPassed ? null : refused;
  }

  function moveTo(cursor: Cursor): void {
    state.set('watermark', cursor).set('moved', events.length);
  }

  function evidence(at: Cursor, types: string[], upTo: number, now: number): Cursor[] {
    const fresh = placed(data).filter(
      ({ seq, origin, id }) =>
        seq > Number(state.get('moved') ?? 0) && seq <= upTo && id !== null && ['webhook', 'stream'].includes(origin),
    );
    if (fresh.some(({ cursor }) => compareCursors(cursor, at) >= 0)) return [];
    const after = witnessedAfter(placed(data).find(({ cursor }) => cursor === at)?.createdAt ?? null, now);
    const isPrompt = ({ createdAt, receivedAt, skewSeconds }: EventRow): boolean =>
      createdAt === null || (createdAt > after && Math.abs(receivedAt - 1_000 * skewSeconds - createdAt) <= PROMPT_MS);
    const witnesses = fresh.filter(
      (row) => !row.seenBy.has('replay') && isPrompt(row) && (types.includes('*') || types.includes(row.type)),
    );
    return witnesses.slice(0, WITNESSES).map(({ cursor }) => cursor);
  }

  return {
    ceiling,
    raise(batch: Batch): void {
      const before = watermark();
      const rise = riseOf(batch, before, ceiling);
      if (!batch.watermark || rise === 'none') return;
      for (const gap of gaps) {
        if (gap.after !== before || gap.upTo !== null || gap.closedAt !== null) continue;
        gap.closedAt = iso(batch.now);
        gap.closedBy = 'the service knows the cursor again: nothing is missing';
      }
      if (rise === 'rises') moveTo(batch.watermark);
    },
    ahead(types: string[], upTo: number, now: number): Ahead | null {
      const at = watermark();
      if (at === null) return null;
      const lastShown = (below: string): string | undefined =>
        placed(data).findLast(({ cursor, seenBy }) => BigInt(cursor) < BigInt(below) && seenBy.has('replay'))?.cursor;
      return aheadOf(at, evidence(at, types, upTo, now), lastShown, null);
    },
    lower(lowering: Lowering): Lowered {
      const at = watermark();
      const refusal = refusalOf(lowering, at, null);
      if (refusal || at === null) return refusal ?? { done: false, why: 'none' };
      const { to, why, now } = lowering;
      const isProven = why === 'evidence' || (why === 'asked' && evidence(at, ['*'], events.length, now).length > 0);
      if (isProven) state.set('refused', at);
      moveTo(to);
      state.set('searched', 0);
      const from = data.cursor('proved_from');
      if (from !== null && compareCursors(from, to) > 0) state.set('proved_from', to);
      if (why === 'evidence') {
        state.set('lowered', JSON.stringify({ from: at, to }));
        data.count({ watermark_ahead: 1 });
      }
      return { done: true, watermark: at };
    },
  };
}
