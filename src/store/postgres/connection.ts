// The connections of one process to PostgreSQL, and its transactions. Statements are sent without waiting for those before
// them. Names in their text become numbers.
import { Pool, type PoolClient, type QueryConfig, type QueryResult } from 'pg';
import { systemClock, type Clock } from '../../base/clock.ts';
import type { Change, Database, Values } from '../sql.ts';
import { StoreError } from '../store.ts';
import { LONGEST_STEP_MS, type SqlRow, type SqlValue } from '../work.ts';
import { faultOf, isRepeatable, ofUser } from './fault.ts';
import { lockLanes, touch } from './lanes.ts';
import { bound, numbered, types } from './values.ts';

/** A frozen process loses its locks after 3 s. Others wait for them a little longer. */
const POOL = {
  application_name: 'webhook-receiver-kit',
  keepAlive: true,
  pipeline: true,
  connectionTimeoutMillis: 3_000,
  idle_in_transaction_session_timeout: 3_000,
  lock_timeout: 4_000,
  statement_timeout: 6_000,
  query_timeout: 7_000,
};
/**
 * Every commit is on disk. Rows are found by an index: plans are made while a store is small, and one that reads a whole
 * table would become slower with each event.
 */
const WAYS = ['seqscan', 'hashjoin', 'mergejoin', 'material', 'memoize'].map((way) => `enable_${way}=off`);
const SETTINGS = ['synchronous_commit=on', 'jit=off', 'plan_cache_mode=force_generic_plan', ...WAYS];
const SNAPSHOT = 'begin isolation level repeatable read read only';
/** How often a transaction is repeated if another one was in its way. */
const TRIES = 5;

const COUNT = `insert into state values (@name, @n) on conflict (name)
  do update set value = cast(cast(state.value as bigint) + cast(excluded.value as bigint) as text)`;
const SET = 'insert into state values (@name, @value) on conflict (name) do update set value = excluded.value';

export interface Tx extends Change {
  last(text: string, values?: Values): void;
  /** Sends the text as it is: several statements, or one with numbered values. `extended`: only one is allowed. */
  query(config: string | (QueryConfig & { queryMode?: 'extended'; query_timeout?: number })): Promise<QueryResult>;
}

type End = (how: 'commit' | 'rollback') => Promise<QueryResult>;

export class Connections implements Database {
  readonly dialect = 'postgres';
  readonly schema: string;
  readonly clock: Clock;
  readonly #pool: Pool;
  readonly #prepared = new Map<string, { name: string; text: string; names: string[] }>();
  #lead: Promise<PoolClient | null> | undefined;
  /** The server takes care of its own log. */
  checkpoint = async (): Promise<number> => 0;

  /** `?schema=` names the schema that holds the tables. */
  constructor(address: string, { max = 20, clock = systemClock }: { max?: number; clock?: Clock } = {}) {
    this.clock = clock;
    const url = new URL(address);
    this.schema = url.searchParams.get('schema') || 'kit';
    url.searchParams.delete('options');
    if (!/^[a-z_][a-z0-9_]{0,62}$/.test(this.schema))
      throw new StoreError(
        'damaged',
        'the schema of the address must have only a-z, 0-9 and _, no digit first, and at most 63 characters',
      );
    const settings = [...SETTINGS, `search_path="${this.schema}",public`].map((setting) => `-c ${setting}`);
    this.#pool = new Pool({ ...POOL, connectionString: url.href, options: settings.join(' '), max, types });
    this.#pool.on('error', () => {});
    // A connection that ends while it is used fails its statements, and says so here too.
    this.#pool.on('connect', (client) => client.on('error', () => {}));
  }

  all = <Row>(text: string, values?: Values): Promise<Row[]> => this.#once((tx) => tx.all<Row>(text, values));
  get = <Row>(text: string, values?: Values) => this.#once((tx) => tx.get<Row>(text, values));
  run = (text: string, values?: Values): Promise<number> => this.#once((tx) => tx.run(text, values));

  async write<Result>(work: (tx: Tx) => Promise<Result>, times?: 'once'): Promise<Result> {
    for (let left = times === 'once' ? 0 : TRIES; ; left--) {
      try {
        return await this.#transaction('begin', work);
      } catch (error) {
        if (left <= 0 || !isRepeatable(error)) throw error;
      }
    }
  }

  read<Result>(work: (tx: Tx) => Promise<Result>): Promise<Result> {
    return this.#transaction(SNAPSHOT, work);
  }

  /** True: of all instances, this process does what only one may do. It does so until its connection ends. */
  async leads(): Promise<boolean> {
    const lead = (this.#lead ??= this.#takeLead());
    const client = await lead.catch(() => null);
    // A frozen leader asks no more, so the server ends its connection.
    const isAlive = Boolean(await client?.query('select 1').catch(() => null));
    if (!isAlive && this.#lead === lead) {
      client?.release(true);
      this.#lead = undefined;
    }
    return isAlive;
  }

  /** An advisory lock until the transaction ends. `try`: the row says whether it is `mine`. */
  lock = (what: string, n = '0', how: '' | 'try_' = ''): string =>
    `select pg_${how}advisory_xact_lock(hashtext('${this.schema} ${what}'), ${n}) as mine`;

  async close(): Promise<void> {
    (await this.#lead?.catch(() => null))?.release(true);
    await this.#pool.end();
  }

  async #takeLead(): Promise<PoolClient | null> {
    const client = await this.#pool.connect();
    const { rows } = await client.query(this.lock('lead', '0', 'try_').replace('_xact', ''));
    if ((rows as { mine: number }[])[0]?.mine !== 1) {
      client.release();
      return null;
    }
    await client.query('set idle_session_timeout = 15000');
    return client;
  }

  async #once<Result>(work: (tx: Tx, end: End) => Promise<Result>, sent: Promise<QueryResult>[] = []): Promise<Result> {
    const client = await this.#pool.connect().catch(refuse);
    let isLost = false;
    let isOver = false;
    // Work that goes on after a failure must not send statements outside of its transaction, or into the next one.
    const query: Tx['query'] = (config) => {
      const answer = isOver ? Promise.reject(new Error('the transaction is over')) : client.query(config).catch(refuse);
      // If another statement fails first, nobody waits for this answer.
      answer.catch(() => {});
      return answer;
    };
    const end: End = (how) => {
      isOver = true;
      return client.query(how).catch(refuse);
    };
    try {
      return await work(this.#tx(client, query, sent), end);
    } catch (error) {
      isLost = error instanceof StoreError && error.code === 'io';
      throw error;
    } finally {
      client.release(isLost);
    }
  }

  #transaction<Result>(begin: string, work: (tx: Tx) => Promise<Result>): Promise<Result> {
    const sent: Promise<QueryResult>[] = [];
    return this.#once(async (tx, end) => {
      sent.push(tx.query(begin));
      try {
        const result = await work(tx);
        // If a statement has failed, the server rolls back here.
        sent.push(end('commit'));
        const { command } = (await Promise.all(sent)).at(-1) ?? {};
        if (command !== 'COMMIT') throw new Error('a statement failed, so the transaction was rolled back');
        return result;
      } catch (error) {
        await end('rollback');
        // If a statement that was sent before has failed, its error is the cause of this one, and is thrown instead.
        await Promise.all(sent);
        throw error;
      }
    }, sent);
  }

  /** `sent`: what the transaction waits for before it is over. */
  #tx(client: PoolClient, query: Tx['query'], sent: Promise<QueryResult>[]): Tx {
    let limitMs = POOL.query_timeout;
    const named = (text: string, values: Values = {}): Promise<QueryResult> => {
      const { names, ...prepared } = this.#prepare(text);
      return query({ ...prepared, values: names.map((name) => bound(values[name])) });
    };
    const last: Tx['last'] = (text, values) => void sent.push(named(text, values));
    const tx: Tx = {
      dialect: 'postgres',
      all: async <Row>(text: string, values?: Values) => (await named(text, values)).rows as Row[],
      get: async <Row>(text: string, values?: Values) => (await named(text, values)).rows[0] as Row | undefined,
      run: async (text, values) => (await named(text, values)).rowCount ?? 0,
      last,
      query,
      lock: async (what) => {
        const patience = what === 'setup' ? 'set local lock_timeout = 0; set local statement_timeout = 0; ' : '';
        if (patience) limitMs = LONGEST_STEP_MS;
        if (typeof what !== 'string') await lockLanes(tx, [...what]);
        else await query({ text: `${patience}${this.lock(what)}`, query_timeout: limitMs });
      },
      touch: (lanes) => touch(tx, [...lanes]),
      count: async (counts) => {
        const names = Object.keys(counts).filter((name) => counts[name] !== 0);
        for (const name of names.toSorted()) last(COUNT, { name, n: String(counts[name]) });
      },
      set: async (name, value) => last(SET, { name, value: JSON.stringify(value) }),
      user: async (sql: string, values: SqlValue[]) => {
        const own = { text: sql.includes('$1') ? sql : numbered(sql).text, values: values.map(bound) };
        const answer = query({ ...own, queryMode: 'extended', query_timeout: limitMs });
        const { rows, rowCount } = await answer.catch((error: unknown) => Promise.reject(ofUser(error)));
        if (client.getTransactionStatus() === 'I')
          throw new Error('the statements of a tx must not end its transaction');
        return { rows: rows as SqlRow[], changes: rowCount ?? 0 };
      },
    };
    return tx;
  }

  #prepare(text: string): { name: string; text: string; names: string[] } {
    const known = this.#prepared.get(text) ?? { name: `kit${this.#prepared.size}`, ...numbered(text) };
    this.#prepared.set(text, known);
    return known;
  }
}

function refuse(error: unknown): never {
  throw faultOf(error);
}
