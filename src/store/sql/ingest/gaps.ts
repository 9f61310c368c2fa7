// Gaps: ranges of history that replay can no longer show. A gap is raised as a `kit.gap` event, so handlers can act on
// it.
import type { Incoming } from '../../../wire/event.ts';
import { gapEvent } from '../../gap-event.ts';
import type { Batch } from '../../ingest.ts';
import { bind, type Session } from '../session.ts';

export function createGaps(session: Session) {
  const addGap = session.value<number>(
    'insert into gaps (after, up_to, reason, opened_at) values (?, ?, ?, ?) returning id',
  );
  const openGap = session.statement<{ id: number; closed: number }>(`
    select id, case when closed_at is null then 0 else 1 end as closed from gaps
    where after = ? and up_to is null order by id desc limit 1`);
  const endGap = session.statement('update gaps set up_to = ? where id = ?');

  /** There is one gap for each `after`. If it is found again while its end is unknown, only its end is written. */
  return async ({ after, upTo, reason }: NonNullable<Batch['gap']>, now: number): Promise<{ event: Incoming }[]> => {
    const open = await openGap.get(BigInt(after));
    // If a gap was closed before its end was known, it is raised once more when the end is known.
    if (open && (upTo === null || open.closed === 0)) {
      await endGap.run(bind(upTo), open.id);
      return [];
    }
    const gap = Number(await addGap.get(BigInt(after), bind(upTo), reason, now));
    return [{ event: gapEvent(gap, { after, upTo, reason }, now) }];
  };
}
