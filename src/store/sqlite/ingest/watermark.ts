// The statements of the watermark. The rules stand in store/watermark.ts. A cursor that was too high is remembered, so
// that the same item does not raise the watermark again.
import type { Cursor } from '../../../wire/cursor.ts';
import type { Batch } from '../../ingest.ts';
import { aheadOf, PROMPT_MS, refusalOf, riseOf, WITNESSES, witnessedAfter } from '../../watermark.ts';
import type { Ahead, Lowering, Lowered } from '../../keep.ts';
import type { Session } from '../session.ts';

/** Maximum events to search for the last one that replay has shown. */
const LOOKED = 10_000;

export function createWatermark(session: Session) {
  const { db } = session;
  const newest = session.value<number, []>('select coalesce(max(seq), 0) from events');
  const rejoin = db.prepare(`
    update gaps set closed_at = ?, closed_by = 'the service knows the cursor again: nothing is missing'
    where after = ? and up_to is null and closed_at is null`);
  // Only a delivery brings an id, so an event with an id was delivered.
  const delivered = session.value<number>(
    'select 1 from events where cursor >= ? and cursor is not null and conflicting = 0 and id is not null limit 1',
  );
  const happened = session.value<number | null>(
    'select created_at from events where cursor = ? and cursor is not null and conflicting = 0',
  );
  const shown = `(origin = 'replay' or exists (select 1 from seen_by_origin where event = seq and origin = 'replay'))`;
  const fresh = `seq > @moved and seq <= @upTo and origin in ('webhook', 'stream') and id is not null
    and cursor is not null and conflicting = 0`;
  const above = session.value<number>(`select 1 from events where ${fresh} and cursor >= @watermark limit 1`);
  // An event that is older than the one at the watermark was delivered late. It proves nothing.
  const witnesses = session.value<string>(`
    select cast(cursor as text) from events where ${fresh} and cursor < @watermark and not ${shown}
      and (created_at is null or (created_at > @happened
        and abs(received_at - 1000 * coalesce(skew_s, 0) - created_at) <= ${PROMPT_MS}))
      and (@all or type in (select value from json_each(@types)))
    order by events.cursor limit ${WITNESSES}`);
  const lastShown = session.value<string>(`
    select cast(cursor as text) from (
      select seq, cursor, origin from events where cursor < ? and conflicting = 0 order by events.cursor desc limit ${LOOKED})
    where ${shown} limit 1`);

  /** The watermark that was too high. Null: none, or a delivery has brought its cursor or a higher one since. */
  function ceiling(): Cursor | null {
    const refused = session.cursorState('refused');
    return refused !== null && delivered.get(BigInt(refused)) === undefined ? refused : null;
  }

  function evidence(watermark: Cursor, { types, upTo, now }: { types: string[]; upTo: number; now: number }): string[] {
    const of = { moved: Number(session.state('moved')), upTo, watermark: BigInt(watermark) };
    if (above.get(of) !== undefined) return [];
    return witnesses.all({
      ...of,
      happened: witnessedAfter(happened.get(of.watermark) ?? null, now),
      all: types.includes('*') ? 1 : 0,
      types: JSON.stringify(types),
    });
  }

  return {
    ceiling,
    /** Call within the transaction of the batch. */
    raise(batch: Pick<Batch, 'watermark' | 'after' | 'now'>): void {
      const { watermark, now } = batch;
      if (!watermark) return;
      const before = session.cursorState('watermark');
      const rise = riseOf(batch, before, ceiling);
      if (rise === 'none') return;
      // If a gap begins at the watermark, the service knows it again. Nothing is missing, so the gap is closed.
      if (before !== null) rejoin.run(now, BigInt(before));
      if (rise === 'again') return;
      session.setState('watermark', BigInt(watermark));
      session.setState('moved', newest.get() ?? 0);
    },
    ahead(types: string[], upTo: number, now: number): Ahead | null {
      const watermark = session.cursorState('watermark');
      if (watermark === null) return null;
      return aheadOf(
        watermark,
        evidence(watermark, { types, upTo, now }),
        (below) => lastShown.get(BigInt(below)),
        session.floor(),
      );
    },
    lower: (lowering: Lowering): Lowered =>
      session.write(() => {
        const { to, why, now } = lowering;
        const watermark = session.cursorState('watermark');
        const refusal = refusalOf(lowering, watermark, session.floor());
        if (refusal || watermark === null) return refusal ?? { done: false, why: 'none' };
        const doubtful =
          why === 'evidence' ||
          (why === 'asked' && evidence(watermark, { types: ['*'], upTo: newest.get() ?? 0, now }).length > 0);
        if (doubtful) session.setState('refused', BigInt(watermark));
        session.setState('watermark', BigInt(to));
        session.setState('moved', newest.get() ?? 0);
        // From now on, strict tasks wait again until two complete reads of replay have looked for their events.
        session.setState('searched', 0);
        const from = session.cursorState('proved_from');
        if (from !== null && BigInt(from) > BigInt(to)) session.setState('proved_from', BigInt(to));
        if (why === 'evidence') {
          session.setState('lowered', JSON.stringify({ from: watermark, to }));
          session.count({ watermark_ahead: 1 });
        }
        return { done: true, watermark };
      }),
  };
}
