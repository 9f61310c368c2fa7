// What is read of events: those that follow a position, and those of claimed tasks.
import type { Cursor } from '../../wire/cursor.ts';
import type { Sql } from '../sql.ts';
import { originOf } from '../sqlite/rows.ts';
import type { HandlerRow, Look, StoredEvent } from '../work.ts';
import type { Connections } from './connection.ts';

/** Events that a handler takes up in one turn, and about how many bytes of them. */
const PAGE = { events: 256, bytes: 2 ** 20 };

export type EventRow = Omit<StoredEvent, 'origin' | 'body'> & { origin: number; body: Buffer | null };

export const EVENT = `e.seq, cast(e.cursor as text) as cursor, e.id, e.type, e.session, e.created_at as "createdAt",
  e.received_at as "receivedAt", e.origin, e.body`;

export const toEvent = ({ origin, body, ...row }: EventRow): StoredEvent => ({
  ...row,
  origin: originOf(origin),
  body: body?.toString() ?? null,
});

/** One snapshot. Whether a handler is loaded here, its process knows. */
export const look = (db: Connections, wanted: number[]): Promise<Look> =>
  db.read(async (tx) => {
    const [rows, facts] = await Promise.all([
      tx.all<Omit<HandlerRow, 'paused'> & { paused: 0 | 1 }>(
        'select id, name, position, paused from handlers order by id',
      ),
      tx.get<{ newest: number; watermark: Cursor | null }>(`select (select coalesce(max(seq), 0) from events) as newest,
        (select value from state where name = 'watermark') as watermark`),
    ]);
    const { newest = 0, watermark = null } = facts ?? {};
    const handlers = rows.map((row) => ({ ...row, paused: row.paused === 1 }));
    const mine = handlers.filter(({ id, position }) => wanted.includes(id) && position < newest);
    const behind = [...new Set(mine.map(({ position }) => position))];
    const pages = await Promise.all(behind.map((position) => page(tx, position, newest)));
    return {
      watermark,
      newest,
      handlers,
      pages: new Map(behind.map((position, n) => [position, pages[n] ?? NOTHING])),
    };
  });

const NOTHING = { events: [], upTo: 0 };

/** Bodies that are not taken are not read: their length is known without. */
async function page(tx: Sql, position: number, newest: number): Promise<{ events: StoredEvent[]; upTo: number }> {
  const rows = await tx.all<EventRow>(
    `select ${EVENT} from (select *, sum(bytes) over (order by seq) - bytes as before
      from (select *, coalesce(length(body), 0) as bytes from events where seq > @position order by seq
        limit ${PAGE.events}) one) e
    where before <= ${PAGE.bytes} order by seq`,
    { position },
  );
  const events = rows.map(toEvent);
  return { events, upTo: events.at(-1)?.seq ?? newest };
}

export const eventsOf = async (db: Connections, seqs: number[]): Promise<StoredEvent[]> => {
  const rows = await db.all<EventRow>(
    `select ${EVENT} from unnest(cast(@seqs as bigint[])) with ordinality as v (seq, n)
    join events e on e.seq = v.seq order by n`,
    { seqs },
  );
  return rows.map(toEvent);
};
