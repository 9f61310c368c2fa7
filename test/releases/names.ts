// The public surface by name, from the registries of the code, from types, and from JSON answers about the store of a
// release. tsc compares the lists of fields below with the types.
import { copyFileSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pino } from 'pino';
import { RULES } from '../../src/alarms/rules/index.ts';
import { EXIT } from '../../src/base/errors.ts';
import { systemClock } from '../../src/base/clock.ts';
import { VARIABLES } from '../../src/config.ts';
import * as kit from '../../src/kit.ts';
import { HISTOGRAMS, METRICS } from '../../src/ops/metrics.ts';
import { createOpsServer } from '../../src/ops/server.ts';
import { open } from '../../src/store/open.ts';
import type { Store } from '../../src/store/store.ts';
import * as testing from '../../src/testing.ts';
import { commands, rowsUnder } from '../documents.ts';

/** Keys below this one are data. */
const CAUSES = 'causes';
/** Scripts that prove and measure the kit itself. */
const OWN_SCRIPTS = new Set(['bench', 'contract', 'pressure', 'prove', 'release']);

/** `file`: the SQLite store of a release, which is not changed. */
export async function publicNames(file: string): Promise<string[]> {
  const folder = mkdtempSync(join(tmpdir(), 'kit-names-'));
  const path = join(folder, 'events.db');
  copyFileSync(file, path);
  // The owner brings the schema up to date.
  open(`sqlite:${path}`, { owner: true }).close();
  try {
    const names = [
      ...(await commandNames()),
      ...Object.entries(EXIT).map(([name, code]) => `exit code ${code} ${name}`),
      ...VARIABLES.map((name) => `variable ${name}`),
      ...rowsUnder('src/ops/README.md', 'HTTP API').map(([request = '']) => `route ${request.replaceAll('`', '')}`),
      ...(await answerFields(path)),
      ...Object.keys(RULES).map((name) => `alarm ${name}`),
      ...metricNames(),
      ...fieldNames(),
      ...Object.keys(kit).map((name) => `export #kit ${name}`),
      ...Object.keys(testing).map((name) => `export #kit/testing ${name}`),
      ...scripts().map((name) => `npm script ${name}`),
      ...templates().map((name) => `template ${name}`),
    ];
    return [...new Set(names)].toSorted();
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

async function commandNames(): Promise<string[]> {
  return (await commands()).flatMap(({ name, usage }) => [
    `command ${name}`,
    ...[...synopsis(usage).matchAll(/--[a-z-]+/g)].map(([option]) => `command ${name} ${option}`),
  ]);
}

/** The forms of a command, without the words that explain them. */
function synopsis(usage: string): string {
  const lines = usage.split('\n').map((line) => line.trim().replace(/ {3,}.*/, ''));
  return lines.filter((line, n) => n === 0 || /^(npx kit |\[)/.test(line)).join('\n');
}

function metricNames(): string[] {
  return Object.entries({ ...METRICS, ...HISTOGRAMS }).flatMap(([name, { labels = [] }]) => [
    `metric ${name}`,
    ...labels.map((label) => `metric ${name} label ${label}`),
  ]);
}

function scripts(): string[] {
  const { scripts: all } = JSON.parse(readFileSync('package.json', 'utf8')) as { scripts: object };
  return Object.keys(all).filter((name) => !OWN_SCRIPTS.has(name));
}

function templates(): string[] {
  return readdirSync('templates').flatMap((name) => /^([\w-]+)\.ts$/.exec(name)?.[1] ?? []);
}

const HANDLER: Record<keyof kit.Handler, true> = {
  ...{ name: true, on: true, lane: true, order: true, retry: true, laneHoldMs: true, timeoutMs: true },
  ...{ maxAgeMs: true, onStale: true, history: true, rate: true, setup: true, handle: true },
};
const EVENT: Record<keyof kit.EventOf<string>, true> = {
  ...{ key: true, id: true, type: true, cursor: true, sessionId: true },
  ...{ createdAt: true, receivedAt: true, origin: true, data: true },
};
const CONTEXT: Record<keyof kit.Context, true> = {
  ...{ log: true, signal: true, attempt: true, late: true, unproven: true, lagMs: true, idempotencyKey: true },
  ...{ service: true, notes: true, note: true, read: true, complete: true },
};
const TX: Record<keyof kit.Tx, true> = { dialect: true, run: true, get: true, all: true };
const OPTIONS: Record<keyof testing.DeliverOptions, true> = {
  ...{ times: true, order: true, apartMs: true, crashAfter: true, service: true, clock: true, name: true },
};
const OUTCOME: Record<keyof testing.Outcome, true> = { tasks: true, calls: true, query: true, gaps: true, log: true };

function fieldNames(): string[] {
  const all = {
    'a handler': HANDLER,
    event: EVENT,
    ctx: CONTEXT,
    tx: TX,
    'deliver options': OPTIONS,
    'deliver outcome': OUTCOME,
  };
  return Object.entries(all).flatMap(([of, fields]) => Object.keys(fields).map((name) => `field of ${of}: ${name}`));
}

const READS = [
  ['status'],
  ['events'],
  ['tasks'],
  ['tasks', '--state', 'dead', '--groups'],
  ['tasks', '--lanes'],
  ['gaps'],
  ['quarantine'],
  ['handlers'],
  ['rerun'],
  ['reconcile', '--runs'],
  ['instances'],
];

/** The fields of the JSON of commands and of the API. Of events, each has other ones. */
async function answerFields(path: string): Promise<string[]> {
  const store = open(`sqlite:${path}`);
  try {
    const { events } = await store.read.events({ limit: 500 }, store.now());
    const keys = events.map(({ key }) => key);
    const names = [...(await commandFields(path, keys)), ...(await routeFields(store, keys))];
    return names.map((name) => `field ${name}`);
  } finally {
    store.close();
  }
}

async function commandFields(path: string, keys: string[]): Promise<string[]> {
  const known = new Map((await commands()).map((command) => [command.name, command]));
  const names: string[] = [];
  const before = { ...process.env };
  // Nothing listens on this port.
  Object.assign(process.env, { DATABASE_URL: `sqlite:${path}`, PORT: '1' });
  try {
    for (const [name = '', ...args] of [...READS, ...keys.map((key) => ['explain', key])]) {
      const text = await printed(async () => void (await known.get(name)?.run([...args, '--json'])));
      const options = args.filter((arg) => arg.startsWith('--'));
      names.push(...fieldsOf(JSON.parse(text), [name, ...options, '--json'].join(' ')));
    }
  } finally {
    for (const name of ['DATABASE_URL', 'PORT']) {
      if (before[name] === undefined) delete process.env[name];
      else process.env[name] = before[name];
    }
  }
  return names;
}

/** What the work writes to stdout. */
async function printed(work: () => Promise<void>): Promise<string> {
  const write = process.stdout.write.bind(process.stdout);
  let text = '';
  process.stdout.write = (chunk) => {
    text += String(chunk);
    return true;
  };
  try {
    await work();
  } finally {
    process.stdout.write = write;
  }
  return text;
}

const ROUTES = ['/api/status', '/api/events', '/api/tasks', '/api/dead-letters', '/api/jobs', '/api/quarantine'];
const NOTHING_SET = { OPS_TOKEN: undefined, OPS_READ_TOKEN: undefined, OPS_ORIGIN: undefined };

async function routeFields(store: Store, keys: string[]): Promise<string[]> {
  const server = createOpsServer({
    config: { ...NOTHING_SET, RETENTION_DAYS: 1, RUN_CONCURRENCY: 1 },
    store,
    rules: RULES,
    clock: systemClock,
    log: pino({ level: 'silent' }),
    disk: async () => ({ storeBytes: 0, logBytes: 0, freeBytes: 0 }),
    onChange: () => {},
  }).listen(0, '127.0.0.1');
  try {
    await once(server, 'listening');
    const { port } = server.address() as AddressInfo;
    const names: string[] = [];
    const paths = keys.map((key) => `/api/events/${encodeURIComponent(key)}`);
    for (const path of [...ROUTES, ...paths]) {
      const answer = await fetch(`http://127.0.0.1:${port}${path}`);
      if (!answer.ok) throw new Error(`${path} answered ${answer.status}`);
      names.push(...fieldsOf(await answer.json(), `GET ${path.replace(/(?<=events\/).+/, '<key>')}`));
    }
    return names;
  } finally {
    server.close();
    server.closeAllConnections();
  }
}

/** The paths of all fields. `[]`: of each element. */
function fieldsOf(value: unknown, path: string): string[] {
  if (Array.isArray(value)) return value.flatMap((one) => fieldsOf(one, `${path}[]`));
  if (typeof value !== 'object' || value === null) return [];
  return Object.entries(value).flatMap(([key, its]) => {
    const name = `${path}.${key}`;
    return [name, ...(key === CAUSES ? [] : fieldsOf(its, name))];
  });
}
