// Checks everything that a delivery depends on. Signed test events check the way that deliveries take.
import { randomUUID } from 'node:crypto';
import { z } from 'zod';
import { iso, type Clock } from '../base/clock.ts';
import { describe } from '../base/errors.ts';
import type { Config } from '../config.ts';
import { signedHeaders } from '../service/sign.ts';
import { createService } from '../service/service.ts';
import { alarmsOf } from './alarms.ts';
import { define, type OperationContext } from './define.ts';
import { count, headlineOf, SECOND_MS } from './judge.ts';
import { post } from './post.ts';
import { readFacts } from './store/facts.ts';

interface Finding {
  state: 'ok' | 'warning' | 'fault';
  text: string;
}

type Check = (context: OperationContext, config: Config) => Promise<Finding>;

const ok = (text: string): Finding => ({ state: 'ok', text });
const warning = (text: string): Finding => ({ state: 'warning', text });
const fault = (text: string): Finding => ({ state: 'fault', text });
const JUDGED = { ok, busy: ok, warning, critical: fault };

/** Bytes of a test event. It is large and oddly spaced, so that it shows a proxy that limits or rewrites bodies. */
const LARGE = 1_100_000;

export const ANSWERS: Record<string, string> = {
  '401': 'the signature is refused',
  '404': 'nothing is at this path: check WEBHOOK_PATH',
  '413': 'BODY_LIMIT_BYTES or the proxy limits bodies: let 12 MiB pass',
  '503': 'the store cannot be written, or too many large bodies come at once: see the log',
  ECONNREFUSED: 'nothing listens at this address',
  ENOTFOUND: 'the host name is not known: check DNS',
  TimeoutError: 'no answer within 10 s: check the firewall and the proxy',
};

/** Sends a signed `webhook.ping`, as the service's test does. Null: the answer was a 2xx. Otherwise what went wrong. */
async function ping(url: string, secret: string, config: Config, clock: Clock): Promise<string | null> {
  // By `kit_`, `receive` recognises the kit's own tests, which do not prove that the service's webhook is on.
  const named = { id: `kit_${randomUUID()}`, type: 'webhook.ping' };
  const rest = { cursor: null, session_id: null, webhook_id: 'doctor', data: { message: 'doctor' } };
  const event = { ...named, created_at: iso(clock.now()), ...rest };
  const body = Buffer.from(`${JSON.stringify(event, null, '\t')}${' '.repeat(LARGE)}\n`);
  const about = { ...named, deliveryId: randomUUID(), attempt: 1, prefix: config.WEBHOOK_HEADER_PREFIX };
  const timestampSeconds = Math.floor(clock.now() / SECOND_MS);
  const failure = await post(url, body, signedHeaders({ ...about, body, secrets: [secret], timestampSeconds }));
  return failure && `${failure}${ANSWERS[failure] ? `: ${ANSWERS[failure]}` : ''}`;
}

type Server = Record<'version' | 'mayCreate' | 'free', number> & Record<'synced' | 'encoding', string>;

const SERVER = `select cast(current_setting('server_version_num') as int) as version,
  current_setting('synchronous_commit') as synced, current_setting('server_encoding') as encoding,
  has_schema_privilege(current_schema(), 'create') as "mayCreate",
  cast(current_setting('max_connections') as int) - (select count(*) from pg_stat_activity) as free`;
/** About how many connections one more instance opens. */
const CONNECTIONS = 25;

const CHECKS: Record<string, Check> = {
  async store({ db }) {
    const server = db.dialect === 'postgres' ? await db.get<Server>(SERVER) : undefined;
    if (!server) return ok('a file of SQLite');
    const { version, synced, encoding, mayCreate, free } = server;
    if (version < 140_000) return fault('the server is older than PostgreSQL 14: update it');
    if (encoding !== 'UTF8') return fault(`the database has the encoding ${encoding}: create one with UTF8`);
    if (synced !== 'on')
      return fault(`synchronous_commit is ${synced}, so a power failure loses deliveries: set it to on`);
    if (mayCreate === 0) return fault('the user of DATABASE_URL may not create tables in its schema: grant it create');
    if (free < CONNECTIONS) return warning(`the server has ${free} free connections, too few for another instance`);
    return ok(`PostgreSQL ${Math.floor(version / 10_000)}, with ${free} free connections`);
  },
  async receiver({ clock }, config) {
    const url = `http://localhost:${config.PORT}${config.WEBHOOK_PATH}`;
    for (const [n, secret] of config.WEBHOOK_SECRET.entries()) {
      const why = await ping(url, secret, config, clock);
      if (why) return fault(`secret ${n + 1} of WEBHOOK_SECRET: ${why}. If .env was changed, send SIGHUP to the kit`);
    }
    return ok(`takes deliveries that are signed with ${count(config.WEBHOOK_SECRET.length, 'secret')}`);
  },
  async 'public address'({ clock }, config) {
    if (config.PUBLIC_URL === undefined)
      return warning('PUBLIC_URL is not set, so the way through the proxy is not checked');
    const why = await ping(config.PUBLIC_URL, config.WEBHOOK_SECRET[0] ?? '', config, clock);
    if (!why) return ok('deliveries pass the proxy, byte for byte');
    return fault(why.startsWith('401') ? 'the proxy changes the body or the headers: let it pass them unchanged' : why);
  },
  async service({ clock }, { API_BASE_URL: baseUrl, API_KEY: apiKey }) {
    if (!baseUrl || !apiKey) return warning('API_BASE_URL and API_KEY are not set: what webhooks miss is not fetched');
    const serviceFor = createService({ baseUrl, apiKey, paid: false, callsPerMinute: 2, clock });
    await serviceFor(AbortSignal.timeout(10 * SECOND_MS)).call('ReplayEvents', { limit: 1 });
    return ok('API_KEY can read the history');
  },
  async alerts(_, { ALERT_URL: url }) {
    if (!url) return warning('ALERT_URL is not set: alarms are not posted; see status, page and log');
    const text = 'A test by npx kit doctor: alarms come here';
    const why = await post(url, JSON.stringify({ text, content: text, alarm: 'test', state: 'test' }));
    return why ? fault(`ALERT_URL does not take alarms (${why})`) : ok('ALERT_URL has taken a test alarm');
  },
};

export const doctor = define({
  name: 'doctor',
  about: 'checks everything that a delivery depends on; it sends signed test events and a test alarm',
  args: z.object({}),
  access: 'change',
  async run(context) {
    const config = context.config();
    const facts = await readFacts(context.db);
    const alarms = alarmsOf(facts, context.disk());
    const status = { name: 'status', ...headlineOf(facts, alarms) };
    const told = [status, ...alarms.filter(({ text }) => text !== status.text)];
    const rows = told.map(({ name: check, level, text }) => ({ check, ...JUDGED[level](text) }));
    for (const [check, run] of Object.entries(CHECKS))
      rows.push({ check, ...(await run(context, config).catch((error: unknown) => fault(describe(error).message))) });
    return rows;
  },
  fails: (rows) => rows.some(({ state }) => state === 'fault'),
});
