// Removes events older than RETENTION_DAYS, a page at a time, if replay and every handler have passed them and none of their
// tasks waits. Removes nothing while the clock may be wrong, because ages would be wrong too.
import { iso } from '../base/clock.ts';
import { DAY_MS, HOUR_MS } from '../operations/judge.ts';
import { readFacts } from '../operations/store/facts.ts';
import { tell } from '../operations/store/open.ts';
import { walk } from '../operations/store/walk.ts';
import { stateOf, type Change, type Database } from '../store/sql.ts';
import { Counts, STATES } from '../store/counts.ts';
import { isBehind, type Cursor } from '../wire/cursor.ts';
import type { Keep, Step } from './keep.ts';

/** The pause between two pages, in which deliveries get the lock. */
const PAUSE_MS = 50;
/** Events in a page. */
const PAGE = 500;
type Found = { rows: number } & Record<'to' | 'oldest', number | null>;

// Pruning waits for a handler whose file is broken or missing: it will want these events.
const OLD = `select seq from events e
  where seq > @after and seq <= @to and received_at < @before
    and seq <= (select coalesce(min(position), 9000000000000000) from handlers)
    and (e.cursor is null or e.cursor <= cast(@watermark as bigint) or cast(@watermark as bigint) is null)
    and not exists (select 1 from tasks t where t.event = e.seq and t.state = 0)`;

export function createPruning({ db, config, log }: Keep): Step {
  let after = 0;
  return async () => {
    const { newestAt, state } = await readFacts(db);
    const now = db.clock.now();
    const known = Math.max(newestAt ?? 0, Number(state['pruned_at'] ?? 0));
    if (known > 0 && now - known > DAY_MS) {
      const words = 'nothing is pruned now: the clock is over a day ahead of the newest event and the last prune';
      log.warn({ now: iso(now), known: iso(known) }, words);
      return HOUR_MS;
    }
    const next = await prune(db, now - config.RETENTION_DAYS * DAY_MS, after);
    after = next ?? 0;
    if (next !== null) return PAUSE_MS;
    await tell(db, 'pruned_at', now);
    return HOUR_MS;
  };
}

/**
 * Takes the page of events numbered above `after`, and removes those that were received before `before`, that replay and
 * every handler have passed, and that have no waiting task. Resolves with the page's last number. Null: no later event is
 * old enough, because events are numbered in the order of their receipt.
 */
export async function prune(db: Database, before: number, after = 0): Promise<number | null> {
  const page = `select max(seq) as "to", count(*) as rows, min(received_at) as oldest
    from (select seq, received_at from events where seq > @after order by seq limit ${PAGE}) page`;
  const { to = null, rows = 0, oldest } = (await db.get<Found>(page, { after })) ?? {};
  if (to !== null && Number(oldest) < before) await db.write((tx) => remove(tx, { before, after, to }));
  if (rows === PAGE && Number(oldest) < before) return to;
  await db.run('delete from quarantine where received_at < @before', { before });
  const floor = await stateOf<Cursor>(db, 'floor');
  // A lane above the floor stays: its `done_cursor` still tells which tasks are late.
  const lanes = `delete from lanes where id > @from and id <= @to and due_at is null and boot is null
    and done_cursor <= cast(@floor as bigint)
    and not exists (select 1 from tasks t where t.lane = lanes.id and t.state = 0)`;
  if (floor !== null) await walk(db, 'lanes', 'id', (stretch) => db.run(lanes, { ...stretch, floor }));
  return null;
}

async function remove(tx: Change, range: { before: number; after: number; to: number }): Promise<void> {
  let floor = await stateOf<Cursor>(tx, 'floor');
  const old = await tx.all<{ seq: number }>(OLD, { ...range, watermark: await stateOf(tx, 'watermark') });
  if (old.length === 0) return;
  const seqs = JSON.stringify(old.map(({ seq }) => seq));
  const IN = 'in (select cast(value as bigint) from json_each(@seqs))';
  // On PostgreSQL, a rerun may meanwhile have put tasks back: these and their events stay.
  const ENDED = `delete from tasks where event ${IN} and state > 0 returning handler, state`;
  const tasks = await tx.all<{ handler: number; state: number }>(ENDED, { seqs });
  const EVENTS = `delete from events where seq ${IN} and not exists (select 1 from tasks where event = seq)
    returning cast(cursor as text) as cursor`;
  const events = await tx.all<{ cursor: Cursor | null }>(EVENTS, { seqs });
  await tx.run(`delete from attempts where event ${IN}`, { seqs });
  const counts = new Counts();
  for (const { handler, state } of tasks) counts.add(handler, STATES[state] ?? 'waiting', -1);
  await counts.write(tx);
  const done = tasks.filter(({ state }) => STATES[state] === 'done').length;
  await tx.count({ events: -events.length, pruned: events.length, pruned_done: done });
  for (const { cursor } of events) if (cursor !== null && isBehind(floor, cursor)) floor = cursor;
  if (floor !== null) await tx.set('floor', floor);
}
