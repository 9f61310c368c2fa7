// No personal data, phone number, secret, key or token may leave the kit through its log, metrics, alarms or errors.
// The kit gets the whole catalogue of bad inputs, handlers and a service that quote their input, and wrong
// configuration. All of these contain marks. Then all output of the kit is searched for the marks.
import { spawn } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { connect, type AddressInfo } from 'node:net';
import { join, resolve } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { itemsUnder } from '../documents.ts';
import { API_KEY, item, startReplayServer, type ReplayServer } from '../reconcile/replay-server.ts';
import { catalogue, envelope, fieldsOf, MARKS, post, SECRET } from './catalogue.ts';
import { createKit, until, type Kit } from './kit.ts';

/** Ways in which a handler can output its input. */
const DEEDS = [
  'throw new Error(text)',
  'throw Object.assign(new Error(text), { name: text, cause: new Error(text), text })',
  'throw Object.assign(new Error("x"), { stack: text })',
  'throw text',
  'throw { message: text, toString: () => text }',
  'throw new AggregateError([new Error(text)], text)',
  'throw new Dead(text)',
  'throw new Skip(text)',
  'JSON.parse(text)',
  'await ctx.complete((tx) => tx.run(text))',
  'void Promise.reject(new Error(text)); await new Promise((done) => setTimeout(done, 50))',
  'setTimeout(() => void Promise.reject(new Error(text)), 50)',
  // Throws outside the handler's promise, which ends the process of `run`, and then the process for isolated tasks.
  'outside.push(text); await new Promise(() => {})',
];
const HANDLER = `
import { Dead, Skip } from '#kit';
const outside = [];
setInterval(() => { const text = outside.pop(); if (text) throw new Error(text); }, 5);
const deeds = [${DEEDS.map((deed) => `async (text, ctx) => { ${deed}; }`).join(',\n')}];
export default {
  on: '*',
  order: 'arrival',
  lane: (event) => { if (event.cursor === '2000') throw new Error(JSON.stringify(event.data)); return event.data.from ?? ''; },
  laneHoldMs: 0,
  retry: { attempts: 2, firstMs: 1, maxMs: 1 },
  async handle(event, ctx) {
    const deed = deeds[Number(event.cursor) - 2000];
    await deed?.(String(event.data.body), ctx);
  },
};
`;

/** Output that must contain no mark, with its origin. */
const said: [where: string, text: string][] = [];
/** Pages and answers for people with a token. They may show text of senders, but no secrets of the kit. */
const shown: [where: string, text: string][] = [];
const STRANGERS = new Set(['phone', 'text', 'name', 'header']);
const posts: string[] = [];
let lines: Record<string, unknown>[] = [];
let kit: Kit;
let service: ReplayServer;
const alertee = createServer((req, res) => {
  let text = '';
  req.on('data', (chunk: Buffer) => void (text += chunk.toString()));
  req.on('end', () => {
    posts.push(text);
    res.writeHead(posts.length < 3 ? 500 : 200).end();
  });
});

beforeAll(async () => {
  service = await startReplayServer(Date.now);
  service.publish(item('1'));
  await new Promise<void>((done) => alertee.listen(0, '127.0.0.1', done));
  const secretFile = join((kit = await createKit({ quotes: HANDLER }, settings())).folder, 'secret');
  writeFileSync(secretFile, SECRET);
  await kit.start();
  // Waits for `keep`, because alarms count only what happens after its start.
  await kit.alive('keep');
  for (const [name, bytes] of catalogue()) said.push([name, await exchange(kit.port, bytes, name.includes('cut off'))]);
  for (const index of DEEDS.keys()) await exchange(kit.port, post(envelope({ cursor: String(2_000 + index) })));
  await lies();
  const open = `select 1 from tasks where state = 'ready' limit 1`;
  // One task or several were at work when the process died. The handler waits for a reload if its file ended the
  // process soon after the start.
  await until(() => /the process of this task died|a process died while it ran these tasks/.test(kit.output()));
  await kit.reload();
  await until(() => kit.query(open).length === 0 && kit.output().includes('"role":"run-solo"'));
  await until(() =>
    ['conflict', 'dead_letters', 'clock_skew', 'lane_fault'].every((name) => posts.some((one) => one.includes(name))),
  );
  await askOps();
  await askCli();
  await slips(secretFile);
  await kit.stop();
  said.push(['stdout and stderr', kit.output()], ...posts.map((text): [string, string] => ['ALERT_URL', text]));
  lines = kit
    .output()
    .split('\n')
    .filter((line) => line.startsWith('{'))
    .map((line) => JSON.parse(line) as Record<string, unknown>);
}, 300_000);

afterAll(async () => {
  await kit.remove();
  await service.close();
  alertee.close();
});

function settings(): Record<string, string> {
  return {
    WEBHOOK_SECRET: '',
    WEBHOOK_SECRET_FILE: 'secret',
    API_BASE_URL: service.url,
    API_KEY,
    OPS_TOKEN: MARKS.token,
    OPS_READ_TOKEN: MARKS.readToken,
    ALERT_URL: `http://127.0.0.1:${(alertee.address() as AddressInfo).port}/${MARKS.alert}`,
    HEARTBEAT_URL: `http://127.0.0.1:1/${MARKS.alert}`,
    REPLAY_FROM: 'start',
    RECONCILE_INTERVAL_SECONDS: '1',
    RECONCILE_CALLS_PER_MINUTE: '119',
    BODY_LIMIT_BYTES: '10000000',
    LOG_LEVEL: 'trace',
  };
}

/** Resolves to the answer to these bytes. */
function exchange(port: number, bytes: Buffer, cut = false): Promise<string> {
  return new Promise((done) => {
    let text = '';
    const socket = connect({ port, host: '127.0.0.1' });
    socket.on('data', (chunk) => void (text += chunk.toString()));
    socket.on('error', () => {});
    socket.on('close', () => done(text));
    // An incomplete request gets its answer only after the sending side is closed.
    if (/^\w+ \S+ HTTP[^]*\r\n\r\n/.test(bytes.toString('latin1')) && !cut) socket.write(bytes);
    else socket.end(bytes);
  });
}

/** Makes the service quote the request in its errors, and send items that cannot be read. */
async function lies(): Promise<void> {
  const quoting = {
    code: API_KEY,
    message: API_KEY,
    reason: `${MARKS.text} ${API_KEY}`,
    requestId: `${MARKS.text} ${API_KEY}`,
  };
  service.lie({ status: 400, body: { error: quoting } }, { status: 503, body: `<p>${API_KEY} ${MARKS.text}</p>` });
  service.lie({ body: `{"events":[{"${MARKS.text}"` }, { body: { events: MARKS.text, [MARKS.text]: API_KEY } });
  const odd = ['{', `{"${MARKS.text}":1}`, JSON.stringify({ MessageReceived: MARKS.text }), MARKS.text];
  service.publish(
    item('3000', 'MessageReceived', fieldsOf()),
    ...odd.map((text, i) => ({ cursor: String(3_001 + i), json_payload: text })),
  );
  service.lie((_, truth) => ({ ...truth, body: { ...(truth.body as object), next_cursor: MARKS.phone } }));
  const quarantined = `select 1 from quarantine where origin = 'replay'`;
  await until(() => kit.query(quarantined).length > 0);
}

async function askOps(): Promise<void> {
  const ask = async (path: string, token: string, init: RequestInit = {}, into = said): Promise<void> => {
    const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' };
    const response = await fetch(`http://127.0.0.1:${kit.opsPort}${path}`, { headers, ...init });
    into.push([
      `${init.method ?? 'GET'} ${path}: ${response.status}`,
      JSON.stringify([...response.headers]) + (await response.text()),
    ]);
  };
  const quiet = [
    '/metrics',
    '/api/status',
    '/api/events',
    '/api/events.ndjson',
    '/api/quarantine',
    '/livez',
    '/readyz',
  ];
  const pages = ['/events', '/events.ndjson', '/reconciliation', '/refused/1', '/nowhere', '/login'];
  const telling = ['/', '/events/c%3A2000', '/events/c%3A3000', '/dead-letters', '/dead-letters?group=1', '/refused'];
  for (const path of [...quiet, ...pages]) {
    await ask(path, MARKS.readToken);
    await ask(path, MARKS.header);
  }
  for (const path of telling) {
    // The page /refused shows headers of unsigned requests even to people with the read token.
    await ask(path, MARKS.readToken, {}, path === '/refused' ? shown : said);
    await ask(path, MARKS.token, {}, shown);
    await ask(path, MARKS.header);
  }
  await ask('/api/events.ndjson?bodies', MARKS.token, {}, shown);
  await ask('/api/events/3000/body', MARKS.token, { method: 'POST' }, shown);
  for (const path of [
    `/${MARKS.header}`,
    `/api/events?limit=${MARKS.header}`,
    `/api/tasks?state=${MARKS.header}`,
    `/api/events/${MARKS.phone}`,
    '/api/%E0%A4%A',
  ])
    await ask(path, MARKS.token);
  for (const body of [
    `{"${MARKS.header}`,
    `"${MARKS.header}"`,
    JSON.stringify({ ids: [MARKS.phone], filter: { state: MARKS.header } }),
    MARKS.header.repeat(100_000),
  ]) {
    await ask('/api/tasks/retry', MARKS.token, { method: 'POST', body });
    await ask('/api/tasks/retry', MARKS.readToken, { method: 'POST', body });
  }
}

async function askCli(): Promise<void> {
  for (const args of ['status', 'events', 'tasks', 'gaps', 'quarantine', 'verify'].flatMap((name) => [
    [name],
    [name, '--json'],
  ]))
    await cli({}, ...args);
  await cli({}, 'explain', 'c:3000');
  await cli({}, 'reconcile');
  await cli({}, 'doctor');
  await cli({}, 'trigger', 'webhook.ping');
}

/** Mistakes of the operator: secrets under wrong names, or in values that are refused. */
async function slips(secretFile: string): Promise<void> {
  writeFileSync(secretFile, `whsec_${MARKS.newSecret},${SECRET}`);
  await kit.reload();
  writeFileSync(secretFile, MARKS.slip);
  kit.signal('SIGHUP');
  await until(() => kit.output().includes('the old one stays in force'));
  const wrong = {
    WEBHOOK_SECRET: MARKS.slip,
    WEBHOOK_SECRET_FILE: `whsec_${MARKS.slip}`,
    API_KEY: `svc_live_${MARKS.slip} ${MARKS.slip}`,
    OPS_TOKEN: 'zqconfig',
    OPS_READ_TOKEN_FILE: MARKS.slip,
    ALERT_URL: MARKS.slip,
    DATABASE_URL: `postgres://user:${MARKS.slip}@host/db`,
    PUBLIC_URL: `ftp://user:${MARKS.slip}@host`,
    WEBHOOK_PATH: `?${MARKS.slip}`,
    REPLAY_FROM: MARKS.phone + MARKS.slip,
    LOG_LEVEL: MARKS.slip,
    PORT: MARKS.slip,
  };
  await execute('start', [resolve('src/main.ts')], wrong);
  await cli(wrong, 'status');
  await cli(wrong, 'doctor');
}

function cli(env: Record<string, string>, ...args: string[]): Promise<void> {
  return execute(`npx kit ${args.join(' ')}`, [resolve('src/cli/kit.js'), ...args], {
    ...settings(),
    PORT: String(kit.port),
    OPS_PORT: String(kit.opsPort),
    HANDLERS_DIR: join(kit.folder, 'handlers'),
    DATABASE_URL: `sqlite:${join(kit.folder, 'events.db')}`,
    ...env,
  });
}

function execute(where: string, args: string[], env: Record<string, string>): Promise<void> {
  return new Promise((done) => {
    const child = spawn(process.execPath, args, { cwd: kit.folder, env: { PATH: process.env['PATH'], ...env } });
    const hear = (chunk: Buffer): void => void said.push([where, chunk.toString()]);
    child.stdout.on('data', hear);
    child.stderr.on('data', hear);
    child.on('close', () => done());
  });
}

/** The mark itself, in hex, and in base64 at each of three offsets. */
function spellings(mark: string): string[] {
  const base64 = [0, 1, 2].map((offset) => {
    const text = Buffer.from(`${'x'.repeat(offset)}${mark}`).toString('base64');
    // Cuts off the characters that also encode neighbouring bytes.
    return text.slice(offset === 0 ? 0 : 4, -4);
  });
  return [mark, Buffer.from(mark).toString('hex'), ...base64];
}

test.each(Object.entries({ ...MARKS, key: API_KEY, short: 'zqconfig' }))(
  'no %s leaves the kit, in any encoding',
  (name, mark) => {
    const needles = spellings(mark).map((one) => one.toLowerCase());
    const leaks = (STRANGERS.has(name) ? said : [...said, ...shown]).flatMap(([where, text]) => {
      const low = text.toLowerCase();
      const at = needles.map((needle) => low.indexOf(needle)).find((found) => found >= 0);
      return at === undefined ? [] : [`${where}: …${text.slice(Math.max(0, at - 200), at + 100)}…`];
    });
    expect(leaks).toEqual([]);
  },
);

test('the search finds a mark in each encoding', () => {
  for (const encoding of ['utf8', 'hex', 'base64', 'base64url'] as const)
    for (const before of ['', 'a', 'ab', 'abc']) {
      const text = Buffer.from(`${before}${MARKS.text} and more`).toString(encoding);
      expect(
        spellings(MARKS.text).some((one) => text.includes(one)),
        `${encoding} ${before}`,
      ).toBe(true);
    }
});

test('the marks reached the store, the errors of tasks, and the quarantine', () => {
  const holds = (sql: string): number => kit.query<{ n: number }>(sql)[0]?.n ?? 0;
  expect(holds(`select count(*) as n from events where instr(body, '${MARKS.text}')`)).toBeGreaterThan(20);
  expect(holds(`select count(*) as n from tasks where instr(error, '${MARKS.text}')`)).toBeGreaterThan(5);
  expect(holds(`select count(*) as n from quarantine where instr(body, '${MARKS.text}')`)).toBeGreaterThan(5);
  expect(posts.length).toBeGreaterThan(3);
  for (const [where, text] of shown) expect(where, text).toMatch(/: 200$/);
  const telling = shown.filter(([, text]) =>
    [MARKS.text, MARKS.phone, MARKS.header].some((mark) => text.includes(mark)),
  );
  expect(telling.length).toBeGreaterThan(3);
});

test('each line of the log is one object, with the fixed fields first and documented fields after them', () => {
  const items = itemsUnder('src/ops/README.md', 'Log lines');
  const documented = new Set(items.flatMap((line) => line.split(':')[0]?.match(/\w+/g) ?? []));
  expect(documented.size).toBeGreaterThan(25);
  expect(
    kit
      .output()
      .split('\n')
      .filter((line) => line !== '' && !line.startsWith('{')),
  ).toEqual([]);
  for (const line of lines) expect(Object.keys(line).slice(0, 3)).toEqual(['level', 'time', 'process']);
  const strange = lines.flatMap((line) => Object.keys(line).filter((name) => !documented.has(name)));
  expect([...new Set(strange)]).toEqual([]);
});
