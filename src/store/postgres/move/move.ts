// Moves an SQLite store into PostgreSQL while deliveries are accepted. Handlers and `keep` pause, so only deliveries change
// the file meanwhile. What they changed follows, and the last of it while they wait in memory. Until PostgreSQL is open, the file
// is the store: a start after a crash copies everything again.
import Database from 'better-sqlite3';
import { systemClock } from '../../../base/clock.ts';
import { OWN_STATE } from '../../health.ts';
import type { Moved } from '../../site.ts';
import type { MoveProgress } from '../../shown.ts';
import { StoreError } from '../../store.ts';
import { columnsOf, copyRows, digestOf, digestOfRows, isSame, rowsOf, type Column, type Target } from './tables.ts';

/**
 * Tables that only `run`, `keep` and people change. `setup_steps` is left out: tables of handlers are not copied, so every
 * step runs again.
 */
const STILL = [
  ...['handlers', 'lanes', 'lane_progress', 'tasks', 'dead_groups', 'attempts', 'notes', 'reruns', 'gaps', 'owed'],
  ...['samples', 'alarms'],
];
/** Tables with rows of events, and the column that names the event. Deliveries add to them, and change them. */
const OF_EVENTS = { events: 'seq', aliases: 'seq', redeliveries: 'event', seen_by_origin: 'event' } as const;
/** Small tables that deliveries change. They are copied at the end. */
const SMALL = ['types', 'arrivals', 'undecided', 'conflicts', 'quarantine', 'counters'];
/**
 * State that means nothing in another store: of a process, of the index of ids, and of the move. The main process, which
 * goes on, has delivery health in memory.
 */
const LEFT_OUT = `where name not in (${['runner', 'id_version', 'moved_to', 'moved_at', 'moving', ...OWN_STATE].map((name) => `'${name}'`).join()})`;
const SEQUENCES = ['lanes', 'handlers', 'dead_groups', 'reruns', 'gaps', 'conflicts', 'quarantine'];

/** Events that are copied while deliveries wait: fewer than this. */
const FEW = 2_000;
/** A delivery is committed within this time, milliseconds. */
const COMMITTED_MS = 10_000;

export interface MoveOptions {
  /** The file, which a store has open that nothing but deliveries changes. */
  path: string;
  target: Target;
  /** Holds deliveries, runs the work, and lets them go on. */
  hold: (work: () => Promise<void>) => Promise<void>;
  /** Notes that a move has begun, so that nobody takes the half of a store for a whole one. */
  begin: () => Promise<void>;
  onProgress: (progress: MoveProgress) => void;
}

/** The time up to which deliveries of the file are copied. */
interface Mark {
  /** The number of the last event. */
  seq: number;
  /** Unix milliseconds. Deliveries that were received earlier are committed. */
  at: number;
}

/** Throws StoreError, also if a table differs afterwards. */
export async function move({ path, target, hold, begin, onProgress }: MoveOptions): Promise<Moved> {
  const source = new Database(path, { readonly: true, timeout: 5_000 });
  const columns = new Map<string, Column[]>();
  for (const table of [...STILL, ...Object.keys(OF_EVENTS), ...SMALL, 'state'])
    columns.set(table, await columnsOf(target, source, table));
  const of = (table: string): Column[] => columns.get(table) ?? [];

  try {
    await begin();
    await empty(target);
    // Deliveries go on while snapshots of the file are copied, each with what came after the one before.
    source.exec('begin');
    let mark = markOf(source);
    const progress: MoveProgress = { rows: 0, of: countOf(source) };
    const onRows = (count: number): void => {
      progress.rows += count;
      onProgress(progress);
    };
    for (const table of [...Object.keys(OF_EVENTS), ...STILL]) {
      const copied = await copyRows(target, table, of(table), rowsOf(source, table, of(table)), { onRows });
      if (!isSame(copied, await digestOf(target, table, of(table)))) throw differs(table);
    }
    const still = stillIn(source);
    source.exec('commit');
    for (let rows = FEW; rows >= FEW;) {
      source.exec('begin');
      const next = markOf(source);
      rows = await copyChanged(source, target, of, mark);
      if (rows < FEW) for (const table of Object.keys(OF_EVENTS)) await compareCounts(source, target, table);
      source.exec('commit');
      mark = next;
    }

    let heldMs = 0;
    await hold(async () => {
      const heldAt = performance.now();
      await copyChanged(source, target, of, mark);
      // Repeated deliveries are found by their time. A clock that was set back meanwhile shows here.
      for (const table of ['aliases', 'redeliveries', 'seen_by_origin']) await compareCounts(source, target, table);
      for (const table of [...SMALL, 'state']) await copySmall(source, target, table, of(table));
      for (const [what, value] of stillIn(source)) if (still.get(what) !== value) throw differs(what);
      await setSequences(target);
      heldMs = performance.now() - heldAt;
    });
    return { events: countIn(source, 'events'), heldMs };
  } finally {
    source.close();
  }
}

function markOf(source: Database.Database): Mark {
  const seq = Number(source.prepare('select coalesce(max(seq), 0) from events').pluck().get());
  return { seq, at: systemClock.now() - COMMITTED_MS };
}

/** What only `run`, `keep` and people change: the rows of these tables, and the states of tasks. */
function stillIn(source: Database.Database): Map<string, number> {
  const states = source.prepare<[], [string, number]>(`select name, value from counters where name like 'tasks.%'`);
  return new Map([...STILL.map((table) => [table, countIn(source, table)] as const), ...states.raw().all()]);
}

/** Events that came after the mark, and those that a delivery repeated since, with all their rows. Returns how many. */
async function copyChanged(
  source: Database.Database,
  target: Target,
  of: (table: string) => Column[],
  { seq, at }: Mark,
): Promise<number> {
  const changed = source
    .prepare<[number, number], number>(
      'select seq from events where seq > ? union select event from redeliveries where received_at >= ?',
    )
    .pluck()
    .all(seq, at);
  for (let from = 0; from < changed.length; from += FEW) {
    const some = changed.slice(from, from + FEW).join();
    for (const [table, column] of Object.entries(OF_EVENTS)) {
      const where = `where ${column} in (${some})`;
      await target.query(`delete from ${target.schema}.${table} ${where}`);
      const copied = await copyRows(target, table, of(table), rowsOf(source, table, of(table), where));
      if (!isSame(copied, await digestOf(target, table, of(table), where))) throw differs(table);
    }
  }
  return changed.length;
}

async function compareCounts(source: Database.Database, target: Target, table: string): Promise<void> {
  const { rows } = await target.query(`select count(*) from ${target.schema}.${table}`);
  if (countIn(source, table) !== Number((rows as [string][])[0]?.[0])) throw differs(table);
}

async function copySmall(source: Database.Database, target: Target, table: string, columns: Column[]): Promise<void> {
  const where = table === 'state' ? LEFT_OUT : '';
  await target.query(`delete from ${target.schema}.${table} ${where}`);
  const copied = await copyRows(target, table, columns, rowsOf(source, table, columns, where));
  if (!isSame(copied, await digestOf(target, table, columns, where))) throw differs(table);
  if (!isSame(copied, digestOfRows(rowsOf(source, table, columns, where)))) throw differs(table);
}

async function empty(target: Target): Promise<void> {
  const tables = [...STILL, ...Object.keys(OF_EVENTS), ...SMALL, 'claims', 'dirty_lanes', 'boots'];
  await target.query(`truncate ${tables.map((table) => `${target.schema}.${table}`).join()}`);
}

async function setSequences(target: Target): Promise<void> {
  const { schema } = target;
  await target.query(
    `select setval('${schema}.event_seq', greatest(1, (select coalesce(max(seq), 0) from ${schema}.events)))`,
  );
  for (const table of SEQUENCES)
    await target.query(
      `select setval(pg_get_serial_sequence('${schema}.${table}', 'id'), greatest(1, (select coalesce(max(id), 0) from ${schema}.${table})))`,
    );
}

function countIn(source: Database.Database, table: string): number {
  return Number(source.prepare(`select count(*) from ${table}`).pluck().get());
}

function countOf(source: Database.Database): number {
  return [...STILL, ...Object.keys(OF_EVENTS)].reduce((sum, table) => sum + countIn(source, table), 0);
}

function differs(table: string): StoreError {
  return new StoreError(
    'unwritable',
    `the move stopped, and the file stays the store: see that nobody else writes to the table ${table}, which differs`,
  );
}
