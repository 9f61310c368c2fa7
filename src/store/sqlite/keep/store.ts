// The keep role of the store: replay's position, alarms, pruning, and checkpoints of the WAL.
import type { RaisedAlarm } from '../../alarms.ts';
import type { Cursor } from '../../../wire/cursor.ts';
import type { IngestStore } from '../../ingest.ts';
import type {
  Ahead,
  Crash,
  DeliveredType,
  KeepStore,
  Receipts,
  ReplayRun,
  ReplayState,
  Stretch,
  VerifyAccount,
} from '../../keep.ts';
import { createIdSweep } from '../ingest/ids.ts';
import { createPruning } from './prune.ts';
import { createByTime } from '../ingest/by-time.ts';
import { EVENT_KEY, type Session, type Sync } from '../session.ts';
import { HANDLERS } from '../work/waiting.ts';
import { createWatermark } from '../ingest/watermark.ts';

const DAY_MS = 86_400_000;
/** Bytes of a WAL frame: page and header. Frames are counted, because the file stays large when the WAL begins anew. */
const FRAME_BYTES = 4_096 + 24;

type Upkeep = Omit<KeepStore, 'accept' | 'note' | 'sync' | 'brokenHandlers'>;

export function createKeepStore(
  session: Session,
  accept: Sync<IngestStore>['accept'],
  idsInSegment?: number,
): Sync<Upkeep> {
  const { db } = session;
  const watermark = createWatermark(session);
  const text = (column: string): string => `cast(${column} as text)`;
  const lowest = db
    .prepare<unknown[], Cursor | null>(
      `select ${text('min(cursor)')} from events where cursor >= ? and conflicting = 0`,
    )
    .pluck();
  const newest = db
    .prepare<[], Cursor | null>(
      `select ${text('max(cursor)')} from events where cursor is not null and conflicting = 0`,
    )
    .pluck();
  const older = db
    .prepare<unknown[], Cursor>(`
    select ${text('cursor')} from (
      select cursor from events where seq <= ? and cursor is not null and conflicting = 0 order by seq desc limit 100)
    as latest where cursor >= ? order by latest.cursor`)
    .pluck();
  const lowestDelivered = db
    .prepare<[], Cursor>(
      `select ${text('cursor')} from events where cursor is not null and conflicting = 0 and id is not null order by events.cursor limit 1`,
    )
    .pluck();
  const dropOldIds = createIdSweep(session, idsInSegment);
  const { bounds, lastBefore } = createByTime(db);
  const ofEvent = `id between seq * ${HANDLERS} and seq * ${HANDLERS} + ${HANDLERS - 1}`;
  const unseen = db.prepare<unknown[], { seq: number; type: string | null }>(`
    select seq, case when origin = 'webhook' and cursor > @from and conflicting = 0
      and not exists (select 1 from seen_by_origin where event = seq and origin in ('replay', 'stream')) then type end as type
    from events where seq > @after and seq <= @last order by seq limit @limit`);
  const above = db
    .prepare<unknown[], Cursor>(`
    select ${text('cursor')} from events where cursor > ? and conflicting = 0 order by events.cursor limit 1`)
    .pluck();
  const below = db
    .prepare<unknown[], Cursor>(`
    select ${text('cursor')} from events where cursor < ? and conflicting = 0 order by events.cursor desc limit 1`)
    .pluck();
  const atMost = db
    .prepare<unknown[], Cursor>(`
    select ${text('cursor')} from events where cursor <= ? and conflicting = 0 order by events.cursor desc limit 1`)
    .pluck();
  const stretch = db.prepare<unknown[], { cursor: Cursor; type: string; tasks: number; open: number; dead: number }>(`
    select ${text('cursor')} as cursor, type,
      (select count(*) from tasks where ${ofEvent}) as tasks,
      (select count(*) from tasks where ${ofEvent} and state = 'ready') as open,
      (select count(*) from tasks where ${ofEvent} and state = 'dead') as dead
    from events where events.cursor > @after and conflicting = 0 and (events.cursor <= @upTo or received_at < @before)
    order by events.cursor limit @limit`);
  const types = db.prepare<[], DeliveredType>(
    'select type, delivered_at as deliveredAt, missed, missed_since as missedSince from types',
  );
  const removeArrivals = db.prepare('delete from arrivals where day < ?');
  const removeQuarantine = db.prepare('delete from quarantine where received_at < ?');
  const removeConflicts = db.prepare('delete from conflicts where received_at < ?');
  const removeLanes = db.prepare(`
    delete from lanes where used_at < ?
      and not exists (select 1 from tasks where lane = lanes.id and state = 'ready' and alone = 0)`);
  const newestDeadGroup = db.prepare<[], { id: number; handler: string; error: string | null }>(`
    select c.id, h.name as handler, t.error from dead_groups c join handlers h on h.id = c.handler
      join tasks t on t.id = (select max(id) from tasks where dead_group = c.id and state = 'dead')
    where c.dead > 0 order by c.id desc limit 1`);
  const lastContradicted = db
    .prepare<[], string>(
      `select ${EVENT_KEY} from conflicts c join events e on e.seq = c.seq order by c.id desc limit 1`,
    )
    .pluck();
  const raised = db.prepare<[], Omit<RaisedAlarm, 'cleared'> & { cleared: number }>(
    'select name, detail, since, told_at as toldAt, level, news, cleared from alarms',
  );
  const raise = db.prepare(`
    insert into alarms (name, since, detail) values (@name, @now, @detail) on conflict (name) do update set
      detail = @detail, since = case when cleared then @now else since end, cleared = 0`);
  const clear = db.prepare('update alarms set cleared = 1 where name = ?');
  const told = db.prepare('update alarms set told_at = ?, level = ?, news = ? where name = ?');
  const forget = db.prepare('delete from alarms where name = ?');

  return {
    watermark: () => session.cursorState('watermark'),
    beginsAt: () => session.cursorState('begins_at'),
    anchoredAt: () => session.state('anchored_at') as number | null,
    lowestDelivered: () => lowestDelivered.get() ?? null,
    lowerWatermark: watermark.lower,
    watermarkAhead: watermark.ahead,
    ceiling: watermark.ceiling,
    lowered: () => JSON.parse(String(session.state('lowered'))) as Ahead | null,
    giveUpWatermark: (now) =>
      session.write(() => {
        const given = session.cursorState('watermark');
        if (given === null) return null;
        const state = { watermark: null, proved_from: null, begins_at: null, anchored_at: null, refused: null };
        accept({ readings: [], now, gap: { after: given, upTo: null, reason: 'forgotten' }, state });
        return given;
      }),
    calls: () => JSON.parse(String(session.state('calls'))) as number[] | null,
    replayState: () => JSON.parse(String(session.state('replay'))) as ReplayState | null,
    replayRuns: () => JSON.parse(String(session.state('replay_runs') ?? '[]')) as ReplayRun[],
    newestCursor: () => newest.get() ?? null,
    cursorAbove: (bound) => above.get(BigInt(bound ?? -1)) ?? null,
    cursorBelow: (bound) => (bound === null ? newest.get() : below.get(BigInt(bound))) ?? null,
    cursorUpTo: (bound) => atMost.get(BigInt(bound)) ?? null,
    anchors(before) {
      const last = lastBefore(before);
      // Cursors below the end of the last gap do not count, because the service no longer has their events.
      const from = BigInt(session.cursorState('proved_from') ?? 0);
      const latest = older.all(last, from);
      return {
        lowest: lowest.get(from) ?? null,
        older: latest[Math.floor(latest.length / 2)] ?? null,
        young: (bounds().last ?? 0) > last,
      };
    },
    unseen(after, upTo, limit) {
      const from = session.cursorState('proved_from');
      if (from === null) return { types: [], next: after };
      const rows = unseen.all({ after, last: upTo, from: BigInt(from), limit });
      const found = new Map<string, number>();
      for (const { type } of rows) if (type !== null) found.set(type, (found.get(type) ?? 0) + 1);
      return { types: [...found].map(([type, events]) => ({ type, events })), next: rows.at(-1)?.seq ?? after };
    },
    blind: () => JSON.parse(String(session.state('blind'))) as string[] | null,
    snapshots: () =>
      JSON.parse(String(session.state('snapshots'))) as { at: number; counters: Record<string, number> }[],
    compared: () => Number(session.state('compared')),
    crashes: () => JSON.parse(String(session.state('crashes') ?? '[]')) as Crash[],
    newestDeadGroup() {
      const row = newestDeadGroup.get();
      return row ? { id: row.id, handler: row.handler, error: row.error ?? '' } : null;
    },
    lastContradicted: () => lastContradicted.get() ?? null,
    verifying: () => JSON.parse(String(session.state('verify'))) as VerifyAccount | null,
    stretch(after, upTo, before, limit) {
      const rows = stretch.all({ after: BigInt(after), upTo: BigInt(upTo), before, limit });
      const sums = new Map<string, Stretch['types'][number]>();
      for (const { type, tasks, open, dead } of rows) {
        const sum = sums.get(type) ?? { type, stored: 0, handled: 0, dead: 0 };
        sums.set(type, sum);
        sum.stored++;
        if (dead > 0) sum.dead++;
        else if (tasks > 0 && open === 0) sum.handled++;
      }
      return { types: [...sums.values()], next: rows.length === limit ? (rows.at(-1)?.cursor ?? null) : null };
    },
    types: () => types.all(),
    openHistory: () =>
      session.write(() => {
        if (session.state('history_reading') === null) session.setState('history_reading', 'open');
      }),
    endHistory: (upTo) =>
      session.write(() => {
        if (session.state('history') === null) session.setState('history', BigInt(upTo));
      }),
    closeHistory: () =>
      session.write(() => {
        if (session.state('history_reading') === 'open') session.setState('history_reading', 'over');
      }),
    reconcileAsked: () => Number(session.state('reconcile_asked')),
    newestEvent: () => bounds().last ?? 0,
    receipts: () => JSON.parse(String(session.state('receipts'))) as Receipts | null,
    ...createPruning(session),
    sweep: (before) => {
      dropOldIds(before);
      session.write(() => {
        session.count({ quarantined: -removeQuarantine.run(before).changes });
        removeConflicts.run(before);
        // `lanes_swept` tells the process that keeps lanes in memory not to use the ids of removed lanes.
        if (removeLanes.run(before).changes > 0)
          session.setState('lanes_swept', Number(session.state('lanes_swept') ?? 0) + 1);
        removeArrivals.run(Math.floor(before / DAY_MS));
      });
    },
    checkpoint(restart) {
      const [{ log }] = db.pragma('wal_checkpoint(PASSIVE)') as [{ log: number }];
      if (restart) db.pragma('wal_checkpoint(RESTART)');
      return restart ? 0 : log * FRAME_BYTES;
    },
    raised: () => raised.all().map((alarm) => ({ ...alarm, cleared: alarm.cleared === 1 })),
    raise: (name, detail, now) => void raise.run({ name, detail, now }),
    clear: (name) => void clear.run(name),
    told: (name, level, news, now) => void told.run(now, level, news, name),
    forget: (name) => void forget.run(name),
  };
}
