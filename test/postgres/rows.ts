// The rows of a store in a form that is equal for both kinds: numbers of rows become ranks or names, and bytes digests.
import { createHash } from 'node:crypto';
import type { Kind, Queries } from '../stores.ts';

/** Tables that only one kind has: SQLite's index of ids, and PostgreSQL's locks, instances and version. */
const OF_ONE_KIND = new Set([
  ...['latest_ids', 'ids', 'id_segments', 'id_filters', 'sqlite_sequence'],
  ...['locks', 'lead', 'instances', 'boots', 'version'],
]);
/** Columns of PostgreSQL alone: processes belong to an instance, lanes have a reserved column, handlers were seen. */
const LEFT_OUT = new Set(['processes.instance', 'lanes.part', 'handlers.seen_at']);
/** Random, measured, or of one kind: the id of the store, when it was created, who ran, and how long answers took. */
const ROWS_LEFT_OUT: Record<string, string> = {
  store: 'where 1 = 0',
  state: `where name not in ('born', 'id_version', 'runner')`,
  counters: `where name not like 'ack.%'`,
};
/** Texts of errors and of the service may have a NUL. PostgreSQL has none, see src/store/postgres/database.ts. */
const MAY_HAVE_NUL = new Set(['tasks.error', 'attempts.error', 'gaps.reason']);
/** States that are the number of an event. */
const EVENT_STATES = new Set(['fanned_out', 'moved']);
/** Columns that hold the number of a row. */
const NUMBERS: Record<string, string[]> = {
  'events.seq': ['aliases.seq', 'conflicts.seq', 'tasks.event', 'redeliveries.event', 'seen_by_origin.event'].concat([
    'undecided.event',
    'owed.event',
  ]),
  'conflicts.id': [],
  'quarantine.id': [],
  'gaps.id': [],
  'dirty_lanes.n': [],
};
/** Rows whose number follows from an order that the kinds need not share. So the row's name stands for it. */
const NAMES: Record<string, { sql: string; columns: string[] }> = {
  lanes: {
    sql: `name || ' of ' || handler || '/' || rerun`,
    columns: ['lanes.id', 'tasks.lane', 'lane_progress.lane', 'dirty_lanes.lane'],
  },
  dead_groups: { sql: `error_pattern || ' of ' || handler`, columns: ['dead_groups.id', 'tasks.dead_group'] },
};
const TASKS = ['tasks.id', 'attempts.task', 'notes.task', 'claims.task'];
const TASKS_OF_AN_EVENT = 4_096;

type Show = (value: string) => string | undefined;

export interface Table {
  digest: string;
  /** Each row as JSON, sorted. */
  rows: string[];
}

export function tablesOf({ query }: Pick<Queries, 'query'>, kind: Kind): Map<string, Table> {
  const shows = showsOf(query);

  function shown(table: string, name: string, row: Record<string, unknown>): unknown {
    const value = row[name] ?? null;
    const isEvent = table === 'state' && name === 'value' && EVENT_STATES.has(row['name'] as string);
    const column = isEvent ? 'events.seq' : `${table}.${name}`;
    if (value === null) return null;
    if (value instanceof Uint8Array) return createHash('sha256').update(value).digest('base64');
    const show = shows.get(column);
    const text = value as string;
    if (show) return show(text) ?? `no row: ${text}`;
    return MAY_HAVE_NUL.has(column) ? text.replaceAll('\0', '\uFFFD') : text;
  }

  const tables = [...columnsOf(query, kind)].map(([table, columns]): [string, Table] => {
    const selected = columns.map(({ sql }) => sql).join();
    const found = query<Record<string, unknown>>(`select ${selected} from ${table} ${ROWS_LEFT_OUT[table] ?? ''}`);
    const rows = found
      .map((row) => JSON.stringify(columns.map(({ name }) => [name, shown(table, name, row)])))
      .toSorted();
    return [table, { rows, digest: createHash('sha256').update(rows.join('\n')).digest('hex') }];
  });
  return new Map(tables);
}

/** How to show the columns that hold the number of a row. */
function showsOf(query: Queries['query']): Map<string, Show> {
  const shows = new Map<string, Show>();
  for (const [column, others] of Object.entries(NUMBERS)) {
    const [table, name] = column.split('.');
    const rows = query<{ n: number }>(`select ${name} as n from ${table} order by ${name}`);
    const ranks = new Map(rows.map(({ n }, rank) => [String(n), `row ${rank}`]));
    for (const one of [column, ...others]) shows.set(one, (value) => ranks.get(value));
  }
  for (const [table, { sql, columns }] of Object.entries(NAMES)) {
    const named = new Map(
      query<{ id: number; name: string }>(`select id, ${sql} as name from ${table}`).map(({ id, name }) => [
        String(id),
        name,
      ]),
    );
    for (const one of columns) shows.set(one, (value) => named.get(value));
  }
  const event = shows.get('events.seq');
  for (const one of TASKS)
    shows.set(one, (value) => {
      const handler = Number(value) % TASKS_OF_AN_EVENT;
      return `${event?.(String((Number(value) - handler) / TASKS_OF_AN_EVENT))} of ${handler}`;
    });
  return shows;
}

interface Column {
  name: string;
  sql: string;
}

function columnsOf(query: Queries['query'], kind: Kind): Map<string, Column[]> {
  const listed = query<{ t: string; name: string; type: string }>(
    kind.name === 'sqlite'
      ? `select m.name as t, c.name, lower(c.type) as type from sqlite_schema m join pragma_table_info(m.name) c where m.type = 'table'`
      : `select table_name as t, column_name as name, data_type as type from information_schema.columns where table_schema = current_schema()`,
  );
  const tables = Map.groupBy(listed, ({ t }) => t);
  return new Map(
    [...tables]
      .filter(([table]) => !OF_ONE_KIND.has(table))
      .toSorted(([a], [b]) => (a < b ? -1 : 1))
      .map(([table, columns]) => [
        table,
        columns
          .toSorted((a, b) => (a.name < b.name ? -1 : 1))
          .filter(({ name }) => !LEFT_OUT.has(`${table}.${name}`))
          .map(({ name, type }) => ({
            name,
            // A cursor is larger than the numbers that JavaScript keeps exactly.
            sql: type === 'blob' || type === 'bytea' ? name : `cast(${name} as text) as ${name}`,
          })),
      ]),
  );
}
