// One connection to the server. It is opened when it is needed, and again after it was lost.
import { readFileSync } from 'node:fs';
import type { Client, QueryConfig, QueryResult } from 'pg';
import { systemClock } from '../../base/clock.ts';
import { requireComplete, stepsIn } from '../migration-steps.ts';
import type { Migrated } from '../site.ts';
import { StoreError } from '../store.ts';
import { faultOf, remedyOf, UNSYNCED } from './fault.ts';

const MIGRATIONS = new URL('migrations/', import.meta.url);
const NAMES = stepsIn(MIGRATIONS);
const STEPS = NAMES.map((name) => readFileSync(new URL(name, MIGRATIONS), 'utf8'));
/** The oldest migration whose kit can use the schema of this one. Raise it when a migration removes or changes something. */
const OLDEST = 1;
/** Names of the kit's tables. */
export const TABLES: ReadonlySet<string> = new Set(
  STEPS.flatMap((text) => [...text.matchAll(/^create table (\w+)/gm)].map(([, name = '']) => name)),
);

/** SQL for the time of the database, Unix milliseconds. */
export const NOW = 'cast(extract(epoch from clock_timestamp()) * 1000 as bigint)';

/** Maximum milliseconds to wait for a connection. */
const CONNECT_MS = 3_000;

export interface Address {
  /** Without `schema`, which is the kit's own parameter. */
  url: string;
  schema: string;
  /** For errors: without user and password. */
  name: string;
}

export function addressOf(given: string): Address {
  const url = new URL(given);
  const schema = url.searchParams.get('schema') ?? 'kit';
  url.searchParams.delete('schema');
  const other = schema === 'kit' ? '' : `, schema ${schema}`;
  return { url: url.href, schema, name: `${url.host}${url.pathname}${other}` };
}

export type Connection = ReturnType<typeof createConnection>;

/** `owner`: it creates the schema, and brings it up to date. Others find it ready. */
export function createConnection(
  { url, schema, name }: Address,
  owner: boolean,
  answerMs: number,
  onMigrated: (migrated: Migrated) => void = () => {},
) {
  let client: Promise<Client> | undefined;
  let current: Client | undefined;
  let closed = false;
  /** Called when the channel of the schema rings. */
  let heard: (() => void) | undefined;
  /** The database's clock minus this process's monotonic clock, milliseconds. Null: not known yet. */
  let offset: number | null = null;
  let sync = 'on';
  let inside = false;

  async function connect(): Promise<Client> {
    requireComplete(NAMES, MIGRATIONS);
    const { default: pg } = await import('pg');
    const opened = new pg.Client({
      connectionString: url,
      application_name: 'webhook-receiver-kit',
      connectionTimeoutMillis: CONNECT_MS,
      keepAlive: true,
      pipeline: true,
    });
    opened.setTypeParser(20, Number);
    opened.setTypeParser(1700, Number);
    opened.on('error', () => lose(opened));
    opened.on('end', () => lose(opened));
    try {
      await opened.connect();
      await prepare(opened);
      await readClock(opened);
      if (heard) await listen(opened);
    } catch (error) {
      // Otherwise repeated tries would use up the connections of the server.
      void opened.end().catch(() => {});
      throw error;
    }
    return (current = opened);
  }

  async function listen(on: Client): Promise<void> {
    on.on('notification', () => heard?.());
    await on.query(`listen ${schema}`);
  }

  /** Half the way there and back is the largest error. */
  async function readClock(of: Client): Promise<void> {
    const before = performance.now();
    const { rows } = await of.query(`select ${NOW} as now`);
    offset = Number((rows as { now: number }[])[0]?.now) - (before + performance.now()) / 2;
  }

  function lose(lost: Client): void {
    if (current === lost) [client, current] = [undefined, undefined];
  }

  async function prepare(opened: Client): Promise<void> {
    const { rows } = await opened.query(
      `select current_setting('synchronous_commit') as sync, current_setting('server_encoding') as encoding`,
    );
    const { sync: found = '', encoding = '' } = (rows as { sync: string; encoding: string }[])[0] ?? {};
    if (!/^(UTF8|SQL_ASCII)$/.test(encoding))
      throw new StoreError(
        'unwritable',
        `${name} cannot store every character, its encoding is ${encoding}: create a database with encoding 'UTF8'`,
      );
    if (/off|local/.test(found))
      throw new StoreError(
        'unwritable',
        `${name} would lose acknowledged events. ${remedyOf(UNSYNCED)}`,
        Object.assign(new Error('commits are not synced'), { code: UNSYNCED }),
      );
    sync = found;
    const from = owner ? await migrate(opened, { schema, name }) : 0;
    if (from > 0) onMigrated({ from, to: STEPS.length });
    const shown = await opened.query(`select '${schema}' = any(current_schemas(false)) as inside`);
    inside = (shown.rows as { inside: boolean }[])[0]?.inside === true;
    const at = await versionOf(opened, schema);
    requireAdmitted(at, name);
    if (at.version < STEPS.length)
      throw new StoreError(
        'missing',
        `there is no store at ${name}, or it is of an older kit: start the receiver once, or restart it`,
      );
  }

  return {
    /** Resolves when the connection can be used. Throws StoreError. */
    async open(): Promise<void> {
      if (closed)
        throw new StoreError(
          'unwritable',
          `the connection to ${name} was closed: see the server, and open the store again`,
        );
      client ??= connect();
      try {
        await client;
      } catch (error) {
        client = undefined;
        throw faultOf(error, name) ?? error;
      }
    },
    /** The statement is sent at once. The server runs statements one after another. */
    query(text: string, values?: unknown[], more?: object): Promise<QueryResult> {
      if (!current)
        return Promise.reject(
          new StoreError('unwritable', `the connection to ${name} ended: see the server; it will be opened again`),
        );
      const config = { text, ...(values && { values }), query_timeout: answerMs, ...more };
      return current.query(config as QueryConfig);
    },
    /** Calls `work` whenever somebody rings, from the next connection on. */
    onRing: (work: () => void): void => {
      heard = work;
      if (current) listen(current).catch(() => {});
    },
    /** `synchronous_commit` as it was found. Transactions set it, because the server may be reloaded with another one. */
    sync: (): string => sync,
    /** Whether names without a schema may mean the kit's tables: `search_path` names its schema, or the user of that name. */
    inside: (): boolean => inside,
    /** The time of the database, Unix milliseconds. */
    now: (): number => (offset === null ? systemClock.now() : Math.round(performance.now() + offset)),
    /** Call it now and then, because the clocks drift. */
    async follow(): Promise<void> {
      if (current) await readClock(current);
    },
    close(): void {
      closed = true;
      void current?.end().catch(() => {});
    },
    /** Drops the connection, for example after an error that leaves its state unknown. */
    drop(): void {
      const lost = current;
      [client, current] = [undefined, undefined];
      void lost?.end().catch(() => {});
    },
  };
}

/** Throws StoreError if the schema was changed by a newer kit so that this one cannot use it. */
export function requireAdmitted({ version, oldest }: Version, name: string): void {
  if (oldest > STEPS.length)
    throw new StoreError('newer', `${name} was written by a newer kit (${version}): update this clone`);
}

/**
 * Applies missing migrations. Instances that start together wait for each other. Resolves to the version before; 0: the
 * schema is new, or lacked none.
 */
async function migrate(client: Client, { schema, name }: Pick<Address, 'schema' | 'name'>): Promise<number> {
  await client.query('begin');
  try {
    await client.query(`select pg_advisory_xact_lock(hashtext('webhook-receiver-kit ' || $1))`, [schema]);
    const { version, oldest } = await versionOf(client, schema);
    if (version < STEPS.length) {
      await client.query(`create schema if not exists ${schema}; set local search_path = ${schema};
        create table if not exists version (version int not null, oldest int not null)`);
      if (version > 0 && oldest < OLDEST) await excludeOlder(client, name);
      for (const step of STEPS.slice(version)) await client.query(step);
      await client.query(`delete from version; insert into version values (${STEPS.length}, ${OLDEST})`);
    }
    await client.query('commit');
    return version < STEPS.length ? version : 0;
  } catch (error) {
    await client.query('rollback').catch(() => {});
    throw error;
  }
}

/**
 * The migrations to come shut out older kits. Their instances accept deliveries, so they must be stopped by a person who
 * can start newer ones at once. One that was taken for lost may come back: the lead is taken from it, and it then ends.
 */
async function excludeOlder(client: Client, store: string): Promise<void> {
  await client.query(`select 1 from locks where name = 'lead' for update`);
  const { rows } = await client.query(`
    select name, version from instances where lost_at is null and until_at > ${NOW} order by instance`);
  const names = (rows as { name: string; version: string }[]).map(({ name, version }) => `${name} (${version})`);
  if (names.length === 0) return void (await client.query('delete from lead'));
  const words = `${store}: instances of older kits run, which its new schema would not admit: ${names.join(', ')}. They go on: stop them all, then start this one`;
  throw new StoreError('unwritable', words, undefined, true);
}

interface Version {
  version: number;
  oldest: number;
}

/** `version` 0: there is no store. Kits from `oldest` on can use it, so that instances can be updated one by one. */
async function versionOf(client: Client, schema: string): Promise<Version> {
  const there = await client.query(`select to_regclass('${schema}.version') is not null as there`);
  if (!(there.rows as { there: boolean }[])[0]?.there) return { version: 0, oldest: 0 };
  const { rows } = await client.query(`select version, oldest from ${schema}.version`);
  return (rows as Version[])[0] ?? { version: 0, oldest: 0 };
}
