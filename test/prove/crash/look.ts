// Checks that must hold for a store's file at any moment, even after its writers were killed. The checks only read, so
// that the kit's next start still finds what the crash has left.
import { IN_A_PART } from '../../../src/store/sqlite/ingest/ids.ts';
import Database from 'better-sqlite3';
import type { SimulatedEvent } from '../../../src/tools/simulator/history.ts';

export interface Known {
  /** Ids whose delivery was answered with a 2xx. */
  acknowledged: Iterable<string>;
  /** Keys of events whose `ctx.complete` had returned. */
  completed?: Iterable<string>;
  /** The service's events in cursor order, from the first event that a webhook delivered. */
  happened?: SimulatedEvent[];
}

/** Every violation, as a sentence. The store must have been written with the handler of story.ts. */
export function violationsIn(path: string, { acknowledged, completed = [], happened = [] }: Known): string[] {
  const db = new Database(path, { readonly: true, timeout: 5_000 });
  try {
    const list = (sql: string): string[] => db.prepare<[], string>(sql).pluck().all();
    const found: string[] = [];
    const report = (what: string, keys: string[]): void => {
      if (keys.length > 0) found.push(`${what}: ${keys.slice(0, 5).join(', ')}${keys.length > 5 ? ' …' : ''}`);
    };
    const whole = list('pragma integrity_check');
    if (whole[0] !== 'ok') report('integrity_check', whole);

    const ids = new Set(list('select id from events where id is not null'));
    report(
      'acknowledged but not stored',
      [...acknowledged].filter((id) => !ids.has(id)),
    );
    // The index of ids is checked here, because SQLite's integrity check does not cover it.
    report('two events of one id', list('select id from events where id is not null group by id having count(*) > 1'));
    report(
      'an event that is not found by its id',
      list(`select id from events where id is not null
        and not exists (select 1 from latest_ids l where l.id = events.id and l.event = seq)
        and not exists (select 1 from ids i where i.segment in (select segment from id_segments) and ${IN_A_PART} and i.id = events.id and i.event = seq)`),
    );
    const cursors = new Set(list('select cast(cursor as text) from events where cursor is not null'));
    const [watermark] = list(`select cast(value as text) from state where name = 'watermark' and value is not null`);
    const passed = happened.flatMap(({ cursor }) => (cursor !== null && isUpTo(cursor, watermark) ? [cursor] : []));
    report(
      'below the watermark but not stored',
      passed.filter((cursor) => !cursors.has(cursor)),
    );

    const handles = list(`select name from sqlite_schema where name = 'seen'`).length > 0;
    const seen = handles ? list('select key from seen') : [];
    const effects = new Set(seen);
    if (handles) report('completed twice', list('select key from seen group by key having count(*) > 1'));
    report(
      'completed, but without its effect',
      [...completed].filter((key) => !effects.has(key)),
    );
    const done = list(`select 'c:' || e.cursor from tasks t join events e on e.seq = t.event where t.state = 'done'`);
    const tasks = new Set(done);
    report(
      'done without its effect',
      done.filter((key) => !effects.has(key)),
    );
    report(
      'an effect whose task is not done',
      [...effects].filter((key) => !tasks.has(key)),
    );
    report('given up', list(`select cast(event as text) from tasks where state in ('dead', 'skipped')`));
    return found;
  } finally {
    db.close();
  }
}

/** The number of rows that the handler has written (effects), and the number of stored events. */
export function countsIn(path: string): { effects: number; events: number } {
  const db = new Database(path, { readonly: true, timeout: 5_000 });
  try {
    const count = (table: string): number => db.prepare<[], number>(`select count(*) from ${table}`).pluck().get() ?? 0;
    return { effects: count('seen'), events: count('events') };
  } finally {
    db.close();
  }
}

function isUpTo(cursor: string, watermark: string | undefined): boolean {
  return watermark !== undefined && BigInt(cursor) <= BigInt(watermark);
}
