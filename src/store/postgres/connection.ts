// The connections of one process to PostgreSQL, and its transactions. Names in the text of a statement become numbers.
import { Pool, types as standard, type PoolClient, type QueryConfig, type QueryResult } from 'pg';
import type { Database, Sql, Values } from '../sql.ts';
import { StoreError } from '../store.ts';
import { faultOf, isRepeatable } from './fault.ts';

const LIMITS = {
  connectionTimeoutMillis: 3_000,
  /** A frozen process lets go of its locks after this time; others wait for them a little longer. */
  idle_in_transaction_session_timeout: 3_000,
  lock_timeout: 4_000,
  query_timeout: 7_000,
};
/**
 * Every commit is on disk. Rows are found by an index: plans are made while a store is small, and one that reads a whole
 * table would become slower with each event.
 */
const WAYS = ['seqscan', 'hashjoin', 'mergejoin', 'material', 'memoize'].map((way) => `enable_${way}`);
const SETTINGS = ['synchronous_commit=on', 'jit=off', ...WAYS.map((way) => `${way}=off`)];
/** For reads of whole tables. */
export const ANY_PLAN = WAYS.map((way) => `; set local ${way} = on`).join('');
const SNAPSHOT = 'begin isolation level repeatable read read only';
/** How often a transaction is tried that another one was in the way of. */
const TRIES = 5;

/** As SQLite has them: truth is 0 or 1, and what has no shape of its own is text. */
const PARSERS = new Map<number, (text: string) => unknown>([
  ...[21, 23, 700, 701, 1700].map((oid) => [oid, Number] as const),
  [16, (text) => Number(text === 't')],
  [17, standard.getTypeParser(17)],
  [20, integerOf],
]);
const types = { getTypeParser: ((oid: number) => PARSERS.get(oid) ?? String) as never };

/** `extended`: one statement alone. */
type Query = QueryConfig & { queryMode?: 'extended'; query_timeout?: number };

export interface Tx extends Sql {
  /** Its answer is not waited for before the commit is sent. If it fails, so does the transaction. */
  last(text: string, values?: Values): void;
  /** As it is: several statements, or values by number. */
  query(config: string | Query): Promise<QueryResult>;
  /** Whether the transaction has not ended. */
  isOpen(): boolean;
}

interface Prepared {
  name: string;
  text: string;
  names: string[];
}

export class Connections implements Database {
  readonly dialect = 'postgres';
  readonly schema: string;
  readonly #pool: Pool;
  readonly #prepared = new Map<string, Prepared>();
  #lead: Promise<PoolClient | null> | undefined;

  /** `?schema=` names where the tables are. */
  constructor(address: string, max = 10) {
    const url = new URL(address);
    this.schema = take(url, 'schema') ?? 'kit';
    if (!/^[a-z_][a-z0-9_]{0,62}$/.test(this.schema))
      throw new StoreError('io', `DATABASE_URL: the schema must be small letters, digits and _, not ${this.schema}`);
    const settings = [...SETTINGS, `search_path=${this.schema},public`].map((setting) => `-c ${setting}`);
    const options = [take(url, 'options') ?? '', ...settings].join(' ');
    const connection = { connectionString: url.href, options, application_name: 'webhook-receiver-kit' };
    this.#pool = new Pool({ ...connection, ...LIMITS, max, types, keepAlive: true, pipeline: true });
    this.#pool.on('error', () => {});
    // A connection that ends while it is used fails its statements, and says so here too.
    this.#pool.on('connect', (client) => client.on('error', () => {}));
  }

  all<Row>(text: string, values?: Values): Promise<Row[]> {
    return this.#once((tx) => tx.all<Row>(text, values));
  }

  get<Row>(text: string, values?: Values): Promise<Row | undefined> {
    return this.#once((tx) => tx.get<Row>(text, values));
  }

  run(text: string, values?: Values): Promise<number> {
    return this.#once((tx) => tx.run(text, values));
  }

  async write<Result>(work: (tx: Tx) => Promise<Result>, { tries = TRIES } = {}): Promise<Result> {
    for (let left = tries - 1; ; left--) {
      try {
        return await this.#transaction('begin', work);
      } catch (error) {
        if (left <= 0 || !isRepeatable(error)) throw error;
      }
    }
  }

  /** `more`: statements that come first. */
  read<Result>(work: (tx: Tx) => Promise<Result>, more = ''): Promise<Result> {
    return this.#transaction(`${SNAPSHOT}${more}`, work);
  }

  /** Statements without values. */
  async script(text: string): Promise<void> {
    await this.#once((tx) => tx.query(text));
  }

  /** Whether this process does what one process alone does, for all instances. It does so until its connection ends. */
  async leads(): Promise<boolean> {
    this.#lead ??= this.#takeLead();
    const client = await this.#lead.catch(() => null);
    if (!client) this.#lead = undefined;
    return client !== null;
  }

  async close(): Promise<void> {
    (await this.#lead?.catch(() => null))?.release(true);
    await this.#pool.end();
  }

  async #takeLead(): Promise<PoolClient | null> {
    const client = await this.#pool.connect();
    const { rows } = await client.query(`select pg_try_advisory_lock(${lockKey(this, 'lead')}) as mine`);
    if ((rows as { mine: number }[])[0]?.mine !== 1) {
      client.release();
      return null;
    }
    client.once('end', () => (this.#lead = undefined));
    return client;
  }

  async #once<Result>(work: (tx: Tx) => Promise<Result>, sent?: Promise<QueryResult>[]): Promise<Result> {
    const client = await this.#pool.connect().catch(refuse);
    let isLost = false;
    try {
      return await work(this.#tx(client, sent));
    } catch (error) {
      isLost = error instanceof StoreError && error.code === 'io';
      throw error;
    } finally {
      client.release(isLost);
    }
  }

  #transaction<Result>(begin: string, work: (tx: Tx) => Promise<Result>): Promise<Result> {
    const sent: Promise<QueryResult>[] = [];
    return this.#once(async (tx) => {
      // Statements are sent without waiting for those before them. If one fails, the server rolls back at the end.
      sent.push(tx.query(begin));
      try {
        const result = await work(tx);
        sent.push(tx.query('commit'));
        const { command } = (await Promise.all(sent)).at(-1) ?? {};
        if (command !== 'COMMIT') throw new Error('a statement failed, so the transaction was rolled back');
        return result;
      } catch (error) {
        await tx.query('rollback');
        // It may only follow from a statement that was sent before.
        await Promise.all(sent);
        throw error;
      }
    }, sent);
  }

  /** `sent`: what the transaction waits for before it is over. */
  #tx(client: PoolClient, sent: Promise<QueryResult>[] = []): Tx {
    const query: Tx['query'] = (config) => {
      const answer = client.query(config).catch(refuse);
      // Another statement may fail first.
      answer.catch(() => {});
      return answer;
    };
    const named = (text: string, values: Values = {}): Promise<QueryResult> => {
      const { names, ...prepared } = this.#prepare(text);
      return query({ ...prepared, values: names.map((name) => bound(values[name])) });
    };
    return {
      dialect: 'postgres',
      all: async <Row>(text: string, values?: Values) => (await named(text, values)).rows as Row[],
      get: async <Row>(text: string, values?: Values) => (await named(text, values)).rows[0] as Row | undefined,
      run: async (text, values) => (await named(text, values)).rowCount ?? 0,
      last: (text, values) => void sent.push(named(text, values)),
      query,
      isOpen: () => client.getTransactionStatus() !== 'I',
    };
  }

  #prepare(text: string): Prepared {
    let known = this.#prepared.get(text);
    if (!known) {
      known = { name: `kit${this.#prepared.size}`, ...numbered(text) };
      this.#prepared.set(text, known);
    }
    return known;
  }
}

/** The number of an advisory lock, for `pg_advisory_xact_lock` and its like. */
export const lockKey = ({ schema }: Pick<Connections, 'schema'>, what: string): string =>
  `hashtext('${schema} ${what}')`;

/** Quoted text and comments stay as they are. */
const TOKEN = /'(?:[^']|'')*'|"(?:[^"]|"")*"|--[^\n]*|\/\*[\s\S]*?\*\/|@(\w+)/g;

function numbered(text: string): { text: string; names: string[] } {
  const names: string[] = [];
  const replaced = text.replaceAll(TOKEN, (token, name?: string) => {
    if (name === undefined) return token;
    if (!names.includes(name)) names.push(name);
    return `$${names.indexOf(name) + 1}`;
  });
  return { text: replaced, names };
}

/** Text cannot hold a NUL there. */
function bound(value: unknown): unknown {
  if (typeof value === 'string') return value.includes('\0') ? value.replaceAll('\0', '\uFFFD') : value;
  if (typeof value === 'boolean') return Number(value);
  return Array.isArray(value) ? value.map(bound) : value;
}

function integerOf(text: string): number | bigint {
  const value = Number(text);
  return Number.isSafeInteger(value) ? value : BigInt(text);
}

function refuse(error: unknown): never {
  throw faultOf(error);
}

function take(url: URL, name: string): string | undefined {
  const value = url.searchParams.get(name) ?? undefined;
  url.searchParams.delete(name);
  return value;
}
