// Prunes finished events after their retention, and their bodies. The row stays while the event may arrive again: until
// the watermark has passed it, or, without a watermark, while the service repeats deliveries.
import type { Cursor } from '../../../wire/cursor.ts';
import { dataOfBody, type Origin } from '../../../wire/event.ts';
import { digestOf } from '../../../wire/json.ts';
import type { Counts } from '../../state.ts';
import type { PruneStep, Receipt } from '../../keep.ts';
import type { Session } from '../session.ts';
import { idsOfEvent } from '../work/waiting.ts';

const DAY_MS = 86_400_000;
/** An event's own time is ignored if it is further ahead of the receipt than this. */
const PLAUSIBLE_MS = 366 * DAY_MS;
/** Without a watermark, pruning raises the later floor up to the median of this many latest cursors: one may be odd. */
const LATEST = 100;

interface OldRow {
  seq: number;
  at: number;
  cursor: Cursor | null;
  created_at: number | null;
  whole: number;
  finished: number;
}

export function createPruning(session: Session) {
  const { db } = session;
  // A handler that waits for its file still needs tasks of these events.
  const fannedOut = session.value<number, []>(
    `select min(value, coalesce((select min(waits_from) from handlers), value)) from state where name = 'fanned_out'`,
  );
  const finished = `seq <= @fannedOut and not exists (select 1 from undecided where event = seq)
    and not exists (select 1 from owed where event = seq)
    and not exists (select 1 from tasks where id ${idsOfEvent('seq')} and state not in ('done', 'skipped'))`;
  const old = (also: string) =>
    db.prepare<unknown[], OldRow>(`
      select seq, received_at as at, cast(cursor as text) as cursor, created_at, body is not null as whole, ${finished} as finished from events
      where received_at >= @at and (received_at > @at or seq > @seq) and received_at < @before and seq < @newest ${also}
      order by received_at, seq limit @limit`);
  const oldRows = old('');
  const oldBodies = old('and body is not null');
  const newest = session.value<number, []>('select coalesce(max(seq), 0) from events');
  const latest = session.value<Cursor, [number]>(
    'select cast(cursor as text) from events where cursor is not null and conflicting = 0 order by seq desc limit ?',
  );
  const aliases = session.value<string>('select name from aliases where seq = ?');
  const removeEvent = db.prepare('delete from events where seq = ?');
  const removeTasks = db.prepare<unknown[], { state: 'done' | 'skipped' }>(
    `delete from tasks where id ${idsOfEvent('@seq')} returning state`,
  );
  const removeAliases = db.prepare('delete from aliases where seq = ?');
  const removeSightings = db.prepare('delete from seen_by_origin where event = ?');
  const removeCopies = db.prepare('delete from redeliveries where event = ?');
  const removeAttempts = db.prepare(`delete from attempts where task ${idsOfEvent('@seq')}`);
  const removeNotes = db.prepare(`delete from notes where task ${idsOfEvent('@seq')}`);
  const body = db.prepare<unknown[], { origin: Origin; type: string; body: Uint8Array | null }>(
    'select origin, type, body from events where seq = ?',
  );
  const removeBody = db.prepare('update events set body = null, digest = ? where seq = ? and body is not null');

  function rows(statement: typeof oldRows, before: number, after: Receipt | null, limit: number): OldRow[] {
    const from = after ?? { at: Number.MIN_SAFE_INTEGER, seq: 0 };
    const bounds = { before, limit, newest: newest.get() ?? 0, fannedOut: fannedOut.get() ?? 0 };
    return statement.all({ ...from, ...bounds });
  }

  function purgeBody(seq: number): void {
    const row = body.get(seq);
    if (row?.body) removeBody.run(digestOfRow(row.origin, row.type, row.body), seq);
  }

  function remove(seq: number, counts: Counts): void {
    for (const { state } of removeTasks.all({ seq })) {
      counts[`tasks.${state}`] = (counts[`tasks.${state}`] ?? 0) - 1;
      if (state === 'done') counts['pruned.done'] = (counts['pruned.done'] ?? 0) + 1;
    }
    removeSightings.run(seq);
    removeCopies.run(seq);
    removeAttempts.run({ seq });
    removeNotes.run({ seq });
    removeAliases.run(seq);
    removeEvent.run(seq);
    counts.events = (counts.events ?? 0) - 1;
  }

  function cursorsOf({ seq, cursor }: OldRow): bigint[] {
    const more = aliases.all(seq).flatMap((name) => (name.startsWith('c:') ? [BigInt(name.slice(2))] : []));
    return cursor === null ? more : [BigInt(cursor), ...more];
  }

  function median(): bigint {
    const cursors = latest
      .all(LATEST)
      .map(BigInt)
      .toSorted((a, b) => (a < b ? -1 : a > b ? 1 : 0));
    return cursors[Math.floor(cursors.length / 2)] ?? -1n;
  }

  return {
    prune({ now, before, settled, after, limit }: PruneStep): Receipt | null {
      // SQLite then overwrites deleted content, also whole pages of the file.
      db.pragma('secure_delete = on');
      return session.write(() => {
        const watermark = session.cursorState('watermark');
        // Without a watermark there is no floor yet. One odd cursor must not raise the later floor above future events.
        const top = watermark === null ? median() : BigInt(watermark);
        let floor = BigInt(session.cursorState('pruned_to') ?? -1);
        let until = Number(session.state('pruned_before') ?? 0);
        const counts: Counts = {};
        const found = rows(oldRows, before, after, limit);
        for (const row of found) {
          if (!row.finished) continue;
          const cursors = cursorsOf(row);
          const covered = watermark !== null && cursors.length > 0;
          if (covered ? cursors.some((cursor) => cursor >= top) : row.seq > settled) {
            if (row.whole) purgeBody(row.seq);
            continue;
          }
          for (const cursor of cursors) if (cursor <= top && cursor > floor) floor = cursor;
          until = Math.max(until, lastTimeOf(row, now, settled) + 1);
          remove(row.seq, counts);
        }
        if (floor >= 0n) session.setState('pruned_to', floor);
        if (until > 0) session.setState('pruned_before', until);
        session.count(counts);
        return nextOf(found, limit);
      });
    },
    newestEvent: (): number => newest.get() ?? 0,
    purge(before: number, after: Receipt | null, limit: number): Receipt | null {
      db.pragma('secure_delete = on');
      return session.write(() => {
        const found = rows(oldBodies, before, after, limit);
        for (const { seq, finished: ended } of found) if (ended) purgeBody(seq);
        return nextOf(found, limit);
      });
    },
  };
}

/** The later of receipt and own time. Own times up to `now` count: the clock may have been behind at receipt. */
function lastTimeOf({ seq, at, created_at: createdAt }: OldRow, now: number, settled: number): number {
  if (createdAt === null) return seq > settled ? Math.max(at, now) : at;
  return createdAt <= Math.max(now, at + PLAUSIBLE_MS) ? Math.max(at, createdAt) : at;
}

function nextOf(rows: OldRow[], limit: number): Receipt | null {
  const last = rows.at(-1);
  return last && rows.length === limit ? { at: last.at, seq: last.seq } : null;
}

/** Null: the stored bytes can no longer be read. */
function digestOfRow(origin: Origin, type: string, bytes: Uint8Array): Uint8Array | null {
  try {
    return digestOf(dataOfBody(origin, type, bytes));
  } catch {
    return null;
  }
}
