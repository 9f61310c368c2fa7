// `npm run dev`: a real kit on a store of its own, a source of events, a page, and a readable line for each attempt. A
// saved handler is loaded within a second. A file that cannot be loaded is reported, and the other handlers keep running.
import '../../base/node/checked.js';
import { spawn } from 'node:child_process';
import { copyFileSync, existsSync, readFileSync, rmSync } from 'node:fs';
import { resolve } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { systemClock as clock } from '../../base/clock.ts';
import { EXIT } from '../../base/errors.ts';
import { eventTypes } from '../../events.ts';
import { open } from '../../store/open.ts';
import type { Store } from '../../store/store.ts';
import { DEFAULT_PREFIX } from '../../wire/headers.ts';
import { createSandbox, freePort, type MainProcess } from '../sandbox.ts';
import { HEAD, parse, readable } from './lines.ts';
import { createLive } from './live.ts';
import { kitEnv, readArgs, readConfig, SECRET } from './options.ts';
import { createActions } from './page/actions.ts';
import { SESSION, type Shown } from './page/context.ts';
import { createRecord } from './page/record.ts';
import { createDevPage } from './page/server.ts';
import { createEventTypes } from './page/types.ts';
import { createSimulated } from './simulated.ts';
import { watchFiles } from './watch.ts';

/** The same ports each time, so that bookmarks and copied commands stay right. */
const PORTS = { page: 3010, webhook: 3011, ops: 3012 };
const END_MS = 1_000;
/** How long the store may be locked while the page reads. */
const BUSY_MS = 2_000;
const EVENTS = fileURLToPath(new URL('../../events.ts', import.meta.url));
const folder = process.cwd();

const { inspect, live, opens, ...given } = readArgs();
const config = readConfig(live);
const ended = new AbortController();
const storeFile = resolve(given.store);
const storeUrl = `sqlite:${storeFile}`;
let store: Store | undefined;
const isNew = !existsSync(storeFile);
/** Beside a store that `npm run dev` has made, and may clear. */
const mark = `${storeFile}-dev`;
if (!isNew && !isMarked()) refuse(`${given.store} was not made by npm run dev: name another file with --store`);
if (!isNew) openStore();
const newest = store ? (await store.read.status(store.now())).newestCursor : null;
const source = live
  ? createLive({ config, newest, say: notice, signal: ended.signal })
  : await createSimulated({ ...given, store });
const ports = {
  PORT: process.env['PORT'] ?? String(await freePort(PORTS.webhook)),
  OPS_PORT: process.env['OPS_PORT'] ?? String(await freePort(PORTS.ops)),
};
const kitsOwn = { ...ports, DATABASE_URL: storeUrl, ...source.env };
const env = kitEnv(config, kitsOwn);
const kit = await createSandbox('dev', env, inspect === undefined ? [] : [`--inspect=${inspect}`]);
const endpoint = { url: kit.url, secret: SECRET };
const types = createEventTypes(EVENTS, eventTypes);
const record = createRecord(folder);
const shown: Shown = { kit: 'starting', handlers: [], faults: [], notice: '' };
const actions = createActions({
  ...{ source, endpoint, opsUrl: kit.opsUrl, handlersDir: config.handlersDir, shown, types, record },
  store: () => store,
  clear,
  changed: () => page.changed(),
});
const page = await createDevPage(PORTS.page, actions);
let main: MainProcess | undefined;
let greeted = false;
let stopping = false;
let starting = Promise.resolve();

for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => void end(EXIT.done));
watchFiles([config.handlersDir], [EVENTS], saved);
// A reload keeps the environment of the handlers, so a changed .env needs another start.
watchFiles([], [resolve('.env')], () => void startAgain(() => Object.assign(env, kitEnv(config, kitsOwn))));
print(`page      ${page.url}`);
startKit();

function startKit(): void {
  const started = kit.start();
  let refusal = '';
  main = started;
  createInterface({ input: started.stdout }).on('line', take);
  createInterface({ input: started.stderr }).on('line', (line) => {
    refusal = `${refusal}${line}\n`.slice(-10_000);
    print(line);
  });
  started.once('close', (code) => {
    main = undefined;
    shown.kit = 'down';
    if (ended.signal.aborted || stopping) return;
    const fixable = greeted || [config.handlersDir, EVENTS].some((path) => refusal.includes(path));
    if (!fixable) {
      if (refusal.includes('is served by')) print('npm run dev -- --store <file> keeps its events in another file');
      void end(EXIT.configuration);
      return;
    }
    shown.faults = here(refusal).split('\n').filter(Boolean);
    page.changed();
    print(`the kit has ended with ${code}: it starts again when you save a file`);
  });
}

/** Takes a line of the kit's output. */
function take(line: string): void {
  for (const text of readable(line, { live, colour: process.stdout.isTTY, folder })) print(text);
  const told = parse(line);
  if (!told) return;
  record.take(told);
  const { process: role, handlers, faults, problems, msg } = told;
  if (Array.isArray(faults ?? problems))
    shown.faults = ((faults ?? problems) as unknown[]).map((one) => here(String(one)));
  if (role === 'receive' && Array.isArray(handlers)) Object.assign(shown, { handlers, faults: [] });
  if (role === 'receive' && msg === 'ready for deliveries') greet();
  page.changed();
}

function greet(): void {
  shown.kit = 'up';
  shown.faults = [];
  copyFileSync(`${storeFile}-id`, mark);
  openStore();
  if (greeted) return print('the kit has started again');
  greeted = true;
  print(`webhook   ${kit.url}
store     ${kit.opsUrl}
send      WEBHOOK_SECRET=${SECRET} WEBHOOK_HEADER_PREFIX=${DEFAULT_PREFIX} npx kit trigger MessageReceived --url ${kit.url}
look      npx kit events
handlers  ${config.handlersDir}: they run as soon as you save them. Ctrl-C ends it.
${HEAD}`);
  void source.start({ ...endpoint, up: () => shown.kit === 'up' }).catch(() => {});
  if (isNew) void sendSample();
  if (opens && process.stdout.isTTY) openBrowser(page.url);
}

async function sendSample(): Promise<void> {
  const [sample] = types.examples(SESSION, clock.now());
  if (sample && !live) await actions.changes.send(sample).catch((error: unknown) => notice(String(error)));
}

function saved(): void {
  void types.reload().then(() => page.changed());
  if (shown.kit === 'up') main?.kill('SIGHUP');
  // A starting kit accepts no SIGHUP yet, and may have read the old file. So it gets the SIGHUP later.
  else if (main) setTimeout(saved, 50);
  else startKit();
}

function openStore(): void {
  store ??= open(storeUrl, { busyMs: BUSY_MS });
}

async function clear(): Promise<void> {
  if (shown.kit !== 'up') throw new Error('the kit is not running, so its store stays: the terminal says why');
  await startAgain(() => {
    record.clear();
    for (const suffix of ['', '-wal', '-shm', '-id']) rmSync(`${storeFile}${suffix}`, { force: true });
  });
}

/** Stops the kit and starts it again, one call after another. */
function startAgain(meanwhile: () => void): Promise<void> {
  starting = starting.then(() => stopAndStart(meanwhile));
  return starting;
}

async function stopAndStart(meanwhile: () => void): Promise<void> {
  if (ended.signal.aborted) return;
  stopping = true;
  shown.kit = 'starting';
  await kit.stop(END_MS);
  store?.close();
  store = undefined;
  meanwhile();
  stopping = false;
  startKit();
}

/** The mark holds the identity of the store that was made, so that no other store at its place is taken for it. */
function isMarked(): boolean {
  const [made, present] = [mark, `${storeFile}-id`].map((file) => (existsSync(file) ? readFileSync(file, 'utf8') : ''));
  return made !== '' && made === present;
}

function openBrowser(url: string): void {
  const { platform, env: own } = process;
  const shows = platform === 'darwin' || platform === 'win32' || own['DISPLAY'] || own['WAYLAND_DISPLAY'];
  const command = platform === 'darwin' ? 'open' : platform === 'win32' ? 'explorer' : 'xdg-open';
  if (shows && own['BROWSER'] !== 'none')
    spawn(command, [url], { stdio: 'ignore', detached: true })
      .on('error', () => {})
      .unref();
}

function notice(text: string): void {
  shown.notice = text;
  page.changed();
  print(text);
}

/** Adds the store and the port to each `npx kit`, so that a copied command finds this kit, not the real one. */
function here(text: string): string {
  const named = /\s/.test(storeUrl) ? `'${storeUrl}'` : storeUrl;
  return text.replaceAll(/(?<! PORT=\d+ )\bnpx kit\b/g, () => `DATABASE_URL=${named} PORT=${ports.PORT} npx kit`);
}

function print(text: string): void {
  process.stdout.write(`${here(text)}\n`);
}

function refuse(message: string): never {
  process.stderr.write(`${message}\n`);
  process.exit(EXIT.usage);
}

async function end(code: number): Promise<void> {
  if (ended.signal.aborted) return;
  ended.abort();
  await kit.stop(END_MS);
  store?.close();
  process.exit(code);
}
