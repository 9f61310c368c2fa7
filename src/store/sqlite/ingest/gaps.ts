// Gaps: ranges of history that replay can no longer show. A gap is raised as a `kit.gap` event, so handlers can act on
// it.
import type { Incoming } from '../../../wire/event.ts';
import { gapEvent } from '../../gap-event.ts';
import type { Batch } from '../../ingest.ts';
import { bind, type Session } from '../session.ts';

export function createGaps({ db }: Session) {
  const addGap = db.prepare('insert into gaps (after, up_to, reason, opened_at) values (?, ?, ?, ?)');
  const openGap = db.prepare<unknown[], { id: number; closed: number }>(
    'select id, closed_at is not null as closed from gaps where after = ? and up_to is null order by id desc limit 1',
  );
  const endGap = db.prepare('update gaps set up_to = ? where id = ?');

  /** There is one gap for each `after`. If it is found again while its end is unknown, only its end is written. */
  return ({ after, upTo, reason }: NonNullable<Batch['gap']>, now: number): { event: Incoming }[] => {
    const open = openGap.get(BigInt(after));
    // If a gap was closed before its end was known, it is raised once more when the end is known.
    if (open && (upTo === null || !open.closed)) {
      endGap.run(bind(upTo), open.id);
      return [];
    }
    const gap = Number(addGap.run(BigInt(after), bind(upTo), reason, now).lastInsertRowid);
    return [{ event: gapEvent(gap, { after, upTo, reason }, now) }];
  };
}
