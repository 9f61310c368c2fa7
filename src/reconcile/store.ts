// The SQL of reconciliation: where it stands, and its gaps. Only the ingest writes events.
import { stateOf, type Database, type Sql, type Values } from '../store/sql.ts';
import { isBehind, type Cursor } from '../wire/cursor.ts';
import type { Reading } from '../wire/event.ts';

/** The overlap of a pass covers at most this many stored events: ten pages. */
const BACK = 10_000;

/** Cursors of stored events, without those of `npx kit trigger`, which may be no cursors of the service. */
const SERVICES = `select cast(cursor as text) as v from events
  where cursor is not null and coalesce(id, '') not like 'kit!_%' escape '!' order by events.cursor`;

const cursorOf = async (sql: Sql, text: string, values: Values = {}): Promise<Cursor | null> =>
  (await sql.get<{ v: Cursor | null }>(text, values))?.v ?? null;

export function positionOf(db: Database): Promise<Record<'watermark' | 'lowest' | 'newest', Cursor | null>> {
  return db.read(async (tx) => ({
    watermark: await stateOf(tx, 'watermark'),
    lowest: await cursorOf(tx, `${SERVICES} limit 1`),
    newest: await cursorOf(tx, `${SERVICES} desc limit 1`),
  }));
}

/** Stores where replay begins, if that is not stored yet. */
export function beginAt(db: Database, cursor: Cursor): Promise<void> {
  return db.write(async (tx) => {
    for (const name of ['watermark', 'beginning'] as const)
      if ((await stateOf(tx, name)) === null) await tx.set(name, cursor);
  });
}

/** Where the overlap begins: below events received since `since`. Null: at the beginning. Undefined: no such events. */
export function behindOf(db: Database, watermark: Cursor, since: number): Promise<Cursor | null | undefined> {
  return db.read(async (tx) => {
    const recent = `select cast(min(c) as text) as v from (select cursor as c, received_at as at from events
      where cursor <= cast(@watermark as bigint) order by cursor desc limit ${BACK}) recent where at >= @since`;
    const oldest = await cursorOf(tx, recent, { watermark, since });
    if (oldest === null) return undefined;
    const least = (await stateOf<Cursor>(tx, 'floor')) ?? (await stateOf<Cursor>(tx, 'beginning'));
    const below = 'select cast(max(cursor) as text) as v from events where cursor < cast(@oldest as bigint)';
    const found = (await cursorOf(tx, below, { oldest })) ?? least;
    return isBehind(found, least) ? least : found;
  });
}

/** The highest of these cursors whose event was stored at `at` or before. */
export function highestStored(db: Database, cursors: Cursor[], at: number): Promise<Cursor | null> {
  return cursorOf(
    db,
    `select cast(max(cursor) as text) as v from events
      where cursor in (select cast(value as bigint) from json_each(@list)) and received_at <= @at`,
    { list: JSON.stringify(cursors), at },
  );
}

/** The middle one of the stored cursors between these two. Null: there is none. */
export function middleStored(db: Database, low: Cursor, high: Cursor): Promise<Cursor | null> {
  return cursorOf(
    db,
    `with inside as (select cursor from events where cursor > cast(@low as bigint) and cursor < cast(@high as bigint))
      select cast(cursor as text) as v from inside order by inside.cursor
      limit 1 offset (select count(*) / 2 from inside)`,
    { low, high },
  );
}

/** Adds a gap, or sets the missing end of the last one; moves the watermark to `upTo`. Null: the end is unknown yet. */
export function addGap(db: Database, now: number, after: Cursor, upTo: Cursor | null, reason: string): Promise<void> {
  return db.write(async (tx) => {
    const isKnown = (await tx.get('select 1 from gaps where up_to is null limit 1')) !== undefined;
    if (isKnown && upTo !== null)
      await tx.run('update gaps set up_to = cast(@upTo as bigint) where up_to is null', { upTo });
    const open = `insert into gaps (after, up_to, reason, opened_at)
      values (cast(@after as bigint), cast(@upTo as bigint), @reason, @now)`;
    if (!isKnown) await tx.run(open, { after, upTo, reason, now });
    if (upTo !== null && isBehind(await stateOf<Cursor>(tx, 'watermark'), upTo)) await tx.set('watermark', upTo);
  });
}

/** Closes the gap that begins at `from`, and those that lie between `from` and `to`. `to` null: only the first. */
export function closeGaps(db: Database, now: number, from: Cursor, to: Cursor | null): Promise<number> {
  return db.run(
    `update gaps set closed_at = @now where closed_at is null and up_to is not null and (after = cast(@from as bigint)
      or (after > cast(@from as bigint) and up_to <= cast(@to as bigint)))`,
    { from, to, now },
  );
}

/** Closes gaps whose `kit.gap` task is done, and if replay `isShown` to its end, gaps without an end. Resolves with the missing `kit.gap` events of gaps whose end is known. */
export function untoldGaps(db: Database, now: number, isShown = false): Promise<Reading[]> {
  return db.write(async (tx) => {
    await tx.run(
      `update gaps set closed_at = @now where closed_at is null and ((up_to is null and @isShown = 1) or exists (
        select 1 from events e join tasks t on t.event = e.seq and t.state = 1 where e.id = 'gap:' || cast(gaps.id as text)))`,
      { now, isShown: Number(isShown) },
    );
    const untold = await tx.all<{ gap: number; after: string; upTo: string; reason: string }>(
      `select id as gap, cast(after as text) as after, cast(up_to as text) as "upTo", reason from gaps
        where up_to is not null and closed_at is null
          and not exists (select 1 from events e where e.id = 'gap:' || cast(gaps.id as text))`,
    );
    return untold.map((gap) => {
      const body = Buffer.from(JSON.stringify({ 'kit.gap': gap }));
      const event = { cursor: null, id: `gap:${gap.gap}`, type: 'kit.gap', session: null, createdAt: now, body };
      return { event: { origin: 'kit' as const, ...event } };
    });
  });
}
