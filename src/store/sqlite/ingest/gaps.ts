// Gaps: ranges of history that replay can no longer show. A gap is raised as a `kit.gap` event, so handlers can act on
// it.
import type { Incoming } from '../../../wire/event.ts';
import type { Batch } from '../../ingest.ts';
import { bind, type Session } from '../session.ts';

type Raise = (gap: NonNullable<Batch['gap']>, now: number) => { event: Incoming }[];

export function createGaps({ db }: Session): Raise {
  const addGap = db.prepare('insert into gaps (after, up_to, reason, opened_at) values (?, ?, ?, ?)');
  const openGap = db.prepare<unknown[], { id: number; closed: number }>(
    'select id, closed_at is not null as closed from gaps where after = ? and up_to is null order by id desc limit 1',
  );
  const endGap = db.prepare('update gaps set up_to = ? where id = ?');

  /** There is one gap for each `after`. If it is found again while its end is unknown, only its end is written. */
  function raise({ after, upTo, reason }: NonNullable<Batch['gap']>, now: number): { event: Incoming }[] {
    const open = openGap.get(BigInt(after));
    // If a gap was closed before its end was known, it is raised once more when the end is known.
    if (open && (upTo === null || !open.closed)) {
      endGap.run(bind(upTo), open.id);
      return [];
    }
    const gap = Number(addGap.run(BigInt(after), bind(upTo), reason, now).lastInsertRowid);
    const body = Buffer.from(JSON.stringify({ 'kit.gap': { gap, after, upTo, reason } }));
    const rest = { cursor: null, type: 'kit.gap', sessionId: null, createdAt: now, flags: [] };
    return [{ event: { origin: 'kit', id: gapId(gap), body, ...rest } }];
  }

  return raise;
}

/** No delivery can have such an id: ids of the service are ASCII. */
export function gapId(gap: number | string): string {
  return `kit.gap\u00b7${gap}`;
}
