// The statements of the watermark. The rules stand in store/watermark.ts. A cursor that was too high is remembered, so
// that the same item does not raise the watermark again.
import type { Cursor } from '../../../wire/cursor.ts';
import type { Batch } from '../../ingest.ts';
import { aheadOf, lowestOf, PROMPT_MS, refusalOf, riseOf, WITNESSES, witnessedAfter } from '../../watermark.ts';
import type { Ahead, Lowering, Lowered } from '../../keep.ts';
import type { Session } from '../session.ts';

/** Maximum events to search for the last one that replay has shown. */
const LOOKED = 10_000;

export function createWatermark(session: Session) {
  const { dialect } = session;
  const newest = session.value<number>('select coalesce(max(seq), 0) from events');
  const rejoin = session.statement(`
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
      and (@all = 1 or type ${dialect.oneOf('@types', 'text')})
    order by events.cursor limit ${WITNESSES}`);
  const lastShown = session.value<string>(`
    select cast(cursor as text) from (
      select seq, cursor, origin from events where cursor < ? and conflicting = 0 order by events.cursor desc limit ${LOOKED})
    as latest where ${shown} order by latest.cursor desc limit 1`);

  /** The watermark that was too high. Null: none, or a delivery has brought its cursor or a higher one since. */
  async function ceiling(): Promise<Cursor | null> {
    const refused = await session.cursorState('refused');
    return refused !== null && (await delivered.get(BigInt(refused))) === undefined ? refused : null;
  }

  async function evidence(watermark: Cursor, types: string[], upTo: number, now: number): Promise<string[]> {
    const of = { moved: Number(await session.state('moved')), upTo, watermark: BigInt(watermark) };
    if ((await above.get(of)) !== undefined) return [];
    return witnesses.all({
      ...of,
      happened: witnessedAfter((await happened.get(of.watermark)) ?? null, now),
      all: types.includes('*') ? 1 : 0,
      types,
    });
  }

  return {
    ceiling,
    /** Call within the transaction of the batch. */
    async raise(batch: Pick<Batch, 'watermark' | 'after' | 'now'>): Promise<void> {
      const { watermark, now } = batch;
      if (!watermark) return;
      const before = await session.cursorState('watermark');
      const rise = riseOf(batch, before, await ceiling());
      if (rise === 'none') return;
      // If a gap begins at the watermark, the service knows it again. Nothing is missing, so the gap is closed.
      if (before !== null) await rejoin.run(now, BigInt(before));
      if (rise === 'again') return;
      await session.setState('watermark', BigInt(watermark));
      await session.setState('moved', (await newest.get()) ?? 0);
    },
    async ahead(types: string[], upTo: number, now: number): Promise<Ahead | null> {
      const watermark = await session.cursorState('watermark');
      if (watermark === null) return null;
      const lowest = lowestOf(await evidence(watermark, types, upTo, now));
      if (lowest === undefined) return null;
      return aheadOf(watermark, (await lastShown.get(BigInt(lowest))) ?? lowest, await session.floor());
    },
    lower: (lowering: Lowering): Promise<Lowered> =>
      session.write(async (): Promise<Lowered> => {
        const { to, why, now } = lowering;
        const watermark = await session.cursorState('watermark');
        const refusal = refusalOf(lowering, watermark, await session.floor());
        if (refusal || watermark === null) return refusal ?? { done: false, why: 'none' };
        const doubtful =
          why === 'evidence' ||
          (why === 'asked' && (await evidence(watermark, ['*'], (await newest.get()) ?? 0, now)).length > 0);
        if (doubtful) await session.setState('refused', BigInt(watermark));
        await session.setState('watermark', BigInt(to));
        await session.setState('moved', (await newest.get()) ?? 0);
        // From now on, strict tasks wait again until two complete reads of replay have looked for their events.
        await session.setState('searched', 0);
        const from = await session.cursorState('proved_from');
        if (from !== null && BigInt(from) > BigInt(to)) await session.setState('proved_from', BigInt(to));
        if (why === 'evidence') {
          await session.setState('lowered', JSON.stringify({ from: watermark, to }));
          await session.count({ watermark_ahead: 1 });
        }
        return { done: true, watermark };
      }, 'door'),
  };
}
