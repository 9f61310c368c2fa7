// What a turn needs to know, as one snapshot.
import { NEVER } from '../lanes.ts';
import { eventsOf, PAGE, seqsOf } from '../rows.ts';
import { stateOf, type Sql } from '../sql.ts';
import type { HandlerRow, Look } from '../work.ts';

/** `behindAt`: when the first event after the position was received. Later events were received later. */
export const HANDLERS = `select h.id, h.name, h.position, h.paused,
    (select received_at from events where seq > h.position order by seq limit 1) as "behindAt",
    exists (select 1 from tasks t where t.handler = h.id and t.state = 0 and t.due_at = ${NEVER}) as held
  from handlers h where h.state = 'loaded' order by h.id`;
export type Row = Omit<HandlerRow, 'paused'> & { paused: 0 | 1; behindAt: number | null; held: 0 | 1 };
const NEWEST = 'select coalesce(max(seq), 0) as seq from events';
const KEYS = `select seq, coalesce(octet_length(body), 0) as bytes from events where seq > @position order by seq limit ${PAGE}`;

export async function look(tx: Sql, wanted: number[]): Promise<Look> {
  const [rows, last, watermark] = await Promise.all([
    tx.all<Row>(HANDLERS),
    tx.get<{ seq: number }>(NEWEST),
    stateOf<Look['watermark']>(tx, 'watermark'),
  ]);
  const newest = last?.seq ?? 0;
  const handlers = rows.map((row) => ({ ...row, paused: row.paused === 1 }));
  const mine = handlers.filter(({ id, position }) => wanted.includes(id) && position < newest);
  const pages = [...new Set(mine.map(({ position }) => position))].map(async (position) => {
    const events = await eventsOf(tx, seqsOf(await tx.all(KEYS, { position })));
    return [position, { events, upTo: events.at(-1)?.seq ?? newest }] as const;
  });
  return { watermark, newest, handlers, pages: new Map(await Promise.all(pages)) };
}
