// Prunes finished events after their retention, and their bodies. The row stays while the event may arrive again: until
// the watermark has passed it, or, without a watermark, while the service repeats deliveries.
import { orUndefined } from '../../../base/errors.ts';
import type { Cursor } from '../../../wire/cursor.ts';
import { dataOfBody, type Origin } from '../../../wire/event.ts';
import { digestOf } from '../../../wire/json.ts';
import type { KeepStore, Pruned, Receipt } from '../../keep.ts';
import type { Session } from '../session.ts';
import { HANDLERS, idsOfEvent } from '../work/waiting.ts';

const DAY_MS = 86_400_000;
/** An event's own time is ignored if it is further ahead of the receipt than this. */
const PLAUSIBLE_MS = 366 * DAY_MS;
/** Without a watermark, pruning raises the later floor up to the median of this many latest cursors: one may be odd. */
const LATEST = 100;
/** The maximum number of bodies in memory, because each may have 12 MiB. */
const BODIES = 8;

interface OldRow {
  seq: number;
  at: number;
  cursor: Cursor | null;
  created_at: number | null;
  whole: number;
  finished: number;
}

/** `shred` comes before each step, so that no trace of the removed data stays on the disk. */
// oxlint-disable-next-line max-lines-per-function -- one statement each, beside the method that runs it
export function createPruning(
  session: Session,
  shred: () => Promise<void>,
): Pick<KeepStore, 'prune' | 'purge' | 'newestEvent'> {
  const { statement, value } = session;
  const rows = createOldRows(session);
  const { purgeBodies, remove } = createRemoval(session);
  const newest = value<number>('select coalesce(max(seq), 0) from events');
  const latest = value<Cursor>(
    'select cast(cursor as text) from events where cursor is not null and conflicting = 0 order by seq desc limit ?',
  );
  const aliases = statement<{ seq: number; name: string }>(
    `select seq, name from aliases where seq ${session.dialect.oneOf('?', 'bigint')}`,
  );

  /** The cursors of each event, by its number. */
  async function cursorsOf(events: OldRow[]): Promise<Map<number, bigint[]>> {
    const cursors = new Map(events.map(({ seq, cursor }) => [seq, cursor === null ? [] : [BigInt(cursor)]]));
    for (const { seq, name } of await aliases.all([...cursors.keys()]))
      if (name.startsWith('c:')) cursors.get(seq)?.push(BigInt(name.slice(2)));
    return cursors;
  }

  async function median(): Promise<bigint> {
    const cursors = (await latest.all(LATEST)).map(BigInt).toSorted((a, b) => (a < b ? -1 : a > b ? 1 : 0));
    return cursors[Math.floor(cursors.length / 2)] ?? -1n;
  }

  return {
    async prune({ now, before, settled, after, limit }) {
      await shred();
      const work = async (): Promise<Pruned> => {
        const watermark = await session.cursorState('watermark');
        // Without a watermark there is no floor yet. One odd cursor must not raise the later floor above future events.
        const top = watermark === null ? await median() : BigInt(watermark);
        let floor = BigInt((await session.cursorState('pruned_to')) ?? -1);
        let until = Number((await session.state('pruned_before')) ?? 0);
        const { finished, next } = await rows.old(before, after, limit);
        const purged: number[] = [];
        const removed: number[] = [];
        const cursorsBySeq = await cursorsOf(finished);
        for (const row of finished) {
          const cursors = cursorsBySeq.get(row.seq) ?? [];
          const covered = watermark !== null && cursors.length > 0;
          if (covered ? cursors.some((cursor) => cursor >= top) : row.seq > settled) {
            if (row.whole === 1) purged.push(row.seq);
            continue;
          }
          for (const cursor of cursors) if (cursor <= top && cursor > floor) floor = cursor;
          until = Math.max(until, lastTimeOf(row, now, settled) + 1);
          removed.push(row.seq);
        }
        await purgeBodies(purged);
        const pruned = { next, rows: removed.length, bodies: purged.length };
        if (removed.length === 0) return pruned;
        await remove(removed);
        if (floor >= 0n) await session.setState('pruned_to', floor);
        if (until > 0) await session.setState('pruned_before', until);
        return pruned;
      };
      return session.write(work, 'work', 'door', 'lead');
    },
    newestEvent: async () => (await newest.get()) ?? 0,
    async purge(before, after, limit) {
      await shred();
      const work = async (): Promise<Pruned> => {
        const { finished, next } = await rows.whole(before, after, limit);
        await purgeBodies(finished.map(({ seq }) => seq));
        return { next, rows: 0, bodies: finished.length };
      };
      return session.write(work, 'work', 'door', 'lead');
    },
  };
}

/** Reads the events of a step in order of receipt: those that are finished, and where to continue. */
function createOldRows({ statement, dialect }: Session) {
  // A handler that waits for its file still needs tasks of these events.
  const fannedOut = `select ${dialect.min}(cast(value as bigint), coalesce((select min(waits_from) from handlers), cast(value as bigint)))
    from state where name = 'fanned_out'`;
  const finished = `seq <= (${fannedOut}) and not exists (select 1 from undecided where event = seq)
    and not exists (select 1 from owed where event = seq)
    and not exists (select 1 from tasks where id ${idsOfEvent('seq')} and state not in ('done', 'skipped'))`;
  const list = (also: string) => {
    const old = statement<OldRow>(`
      select seq, received_at as at, cast(cursor as text) as cursor, created_at,
        case when body is not null then 1 else 0 end as whole, case when ${finished} then 1 else 0 end as finished from events
      where received_at >= @at and (received_at > @at or seq > @seq) and received_at < @before
        and seq < (select max(seq) from events) ${also}
      order by received_at, seq limit @limit`);
    return async (before: number, after: Receipt | null, limit: number) => {
      const from = after ?? { at: Number.MIN_SAFE_INTEGER, seq: 0 };
      const found = await old.all({ ...from, before, limit });
      return { finished: found.filter((row) => row.finished === 1), next: nextOf(found, limit) };
    };
  };
  return { old: list(''), whole: list('and body is not null') };
}

function createRemoval({ statement, value, count, dialect }: Session) {
  const listed = dialect.oneOf('@seqs', 'bigint');
  // The ids of all tasks that the events can have. Equal ids, unlike ranges of ids, let PostgreSQL use the index.
  const theirTask = `in (select value * ${HANDLERS} + h.id from ${dialect.listOf('@seqs')} cross join handlers h)`;
  const removeTasks = value<'done' | 'skipped'>(`delete from tasks where id ${theirTask} returning state`);
  // Attempts and notes may exist without their task after a rerun or a move.
  const removals = [
    `attempts where task ${theirTask}`,
    `notes where task ${theirTask}`,
    `seen_by_origin where event ${listed}`,
    `redeliveries where event ${listed}`,
    `aliases where seq ${listed}`,
    `events where seq ${listed}`,
  ].map((rows) => statement(`delete from ${rows}`));
  const bodies = statement<{ seq: number; origin: Origin; type: string; body: Uint8Array }>(
    `select seq, origin, type, body from events where seq ${listed} and body is not null`,
  );
  const removeBody = statement('update events set body = null, digest = ? where seq = ?');

  return {
    purgeBodies: async (seqs: number[]): Promise<void> => {
      for (let at = 0; at < seqs.length; at += BODIES) {
        const rows = await bodies.all({ seqs: seqs.slice(at, at + BODIES) });
        await Promise.all(
          rows.map(({ seq, origin, type, body }) => {
            // Null: the stored bytes can no longer be read.
            const digest = orUndefined(() => digestOf(dataOfBody(origin, type, body))) ?? null;
            return removeBody.run(digest, seq);
          }),
        );
      }
    },
    /** Removes finished events. */
    remove: async (seqs: number[]): Promise<void> => {
      const states = await removeTasks.all({ seqs });
      for (const removal of removals) await removal.run({ seqs });
      const done = states.filter((state) => state === 'done').length;
      const tasks = { 'tasks.done': -done, 'tasks.skipped': done - states.length, 'pruned.done': done };
      await count({ events: -seqs.length, ...tasks });
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
