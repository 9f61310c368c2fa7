// `npm run dev`: a real kit on a temporary store, a source of events, and a readable line for each attempt. A saved
// handler is loaded within a second. A file that cannot be loaded is reported, and the other handlers keep running.
import '../../base/node/checked.js';
import { readdirSync, watch } from 'node:fs';
import { dirname, join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { ConfigError, loadConfig, readEnv, VARIABLES, type Config } from '../../config.ts';
import { EXIT } from '../../base/errors.ts';
import { DEFAULT_PREFIX } from '../../wire/headers.ts';
import { createSandbox, type MainProcess } from '../sandbox.ts';
import { createSimulated } from './simulated.ts';
import { HEAD, readable } from './lines.ts';
import { createLive } from './live.ts';

const SECRET = 'whsec_of_npm_run_dev_and_nothing_else';
const INSPECT_PORT = '9229';
/** A reload waits until no file was saved for this many milliseconds, because editors save a file in several steps. */
const SETTLE_MS = 50;
const END_MS = 1_000;

const { inspect, live } = readArgs();
const config = readConfig();
const ended = new AbortController();
const source = live ? createLive(config, print, ended.signal) : await createSimulated();
const kit = await createSandbox('dev', kitEnv(), inspect === undefined ? [] : [`--inspect=${inspect}`]);
let main: MainProcess | undefined;
let greeted = false;
let up = false;
let settling: NodeJS.Timeout | undefined;

for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => void end(EXIT.done));
watchFiles();
startKit();

function startKit(): void {
  const started = kit.start();
  let refusal = '';
  main = started;
  createInterface({ input: started.stdout }).on('line', (line) => {
    const { colour, folder } = { colour: process.stdout.isTTY, folder: process.cwd() };
    for (const text of readable(line, { live, colour, folder })) print(text);
    if (line.includes('"process":"receive"') && line.includes('"ready for deliveries"')) greet();
  });
  createInterface({ input: started.stderr }).on('line', (line) => {
    refusal = `${refusal}${line}\n`.slice(-10_000);
    print(line);
  });
  started.once('close', (code) => {
    main = undefined;
    up = false;
    if (ended.signal.aborted) return;
    const fixable = greeted || code !== EXIT.configuration || refusal.includes(config.handlersDir);
    if (!fixable) void end(EXIT.configuration);
    else print(`the kit has ended with ${code}: it starts again when you save a file`);
  });
}

function greet(): void {
  up = true;
  if (greeted) return print('the kit has started again');
  greeted = true;
  print(`webhook   ${kit.url}
ops       ${kit.opsUrl}/api/status
send      WEBHOOK_SECRET=${SECRET} WEBHOOK_HEADER_PREFIX=${DEFAULT_PREFIX} npx kit trigger MessageReceived --url ${kit.url}
look      npx kit events
handlers  ${config.handlersDir}: they run as soon as you save them. Ctrl-C ends it.
${HEAD}`);
  void source.start({ url: kit.url, secret: SECRET, up: () => up });
}

/** Watches folders instead of files, because many editors replace the file when they save it. */
function watchFiles(): void {
  const { handlersDir } = config;
  const events = fileURLToPath(new URL('../../events.ts', import.meta.url));
  watch(dirname(events), (_, name) => name === 'events.ts' && saved());
  const inside = readdirSync(handlersDir, { recursive: true, withFileTypes: true }).filter((one) => one.isDirectory());
  for (const folder of [handlersDir, ...inside.map((one) => join(one.parentPath, one.name))]) {
    watch(folder, (_, name) => /^[^.].*\.[cm]?[jt]s$/.test(name ?? '') && saved());
  }
}

function saved(): void {
  clearTimeout(settling);
  settling = setTimeout(() => {
    if (up) main?.kill('SIGHUP');
    // A starting kit accepts no SIGHUP yet, and may have read the old file. So it gets the SIGHUP later.
    else if (main) saved();
    else startKit();
  }, SETTLE_MS);
}

/**
 * The environment of the kit. Handlers keep their own variables, as `npm start` would read them. The kit's variables
 * are replaced, so that the real store stays untouched.
 */
function kitEnv(): Record<string, string | undefined> {
  const handlersOwn = Object.entries(readEnv()).filter(([name]) => !VARIABLES.includes(name));
  return {
    ...Object.fromEntries(handlersOwn),
    WEBHOOK_SECRET: SECRET,
    HANDLERS_DIR: config.handlersDir,
    PORT: process.env['PORT'],
    OPS_PORT: process.env['OPS_PORT'],
    LOG_LEVEL: 'debug',
    PAID_OPERATIONS: 'refuse',
    ...source.env,
  };
}

function readConfig(): Config {
  try {
    const found = loadConfig(readEnv(), {
      only: live ? ['HANDLERS_DIR', 'API_BASE_URL', 'API_KEY'] : ['HANDLERS_DIR'],
    });
    readdirSync(found.handlersDir);
    if (live && !found.API_KEY)
      throw new ConfigError(['API_BASE_URL and API_KEY are required with --live: set them in .env']);
    return found;
  } catch (error) {
    const remedy = 'HANDLERS_DIR cannot be read: create the folder, or name another';
    return refuse(error instanceof ConfigError ? error.message : remedy, EXIT.configuration);
  }
}

function readArgs(): { inspect: string | undefined; live: boolean } {
  const args = process.argv.slice(2).map((arg) => (arg === '--inspect' ? `--inspect=${INSPECT_PORT}` : arg));
  try {
    const { values } = parseArgs({ args, options: { inspect: { type: 'string' }, live: { type: 'boolean' } } });
    const { inspect: port, live: real = false } = values;
    if (port === undefined || /^[1-9]\d{0,4}$/.test(port)) return { inspect: port, live: real };
  } catch {
    // Falls through to the refusal below.
  }
  return refuse('usage: npm run dev -- [--inspect[=port]] [--live]', EXIT.usage);
}

/** Adds the store and the port to each printed `npx kit`, so that a copied command finds this kit, not the real one. */
function print(text: string): void {
  const here = () => `DATABASE_URL=${kit.storeUrl} PORT=${new URL(kit.url).port} npx kit`;
  process.stdout.write(`${text.replaceAll(/(?<! PORT=\d+ )\bnpx kit\b/g, here)}\n`);
}

function refuse(message: string, code: number): never {
  process.stderr.write(`${message}\n`);
  process.exit(code);
}

async function end(code: number): Promise<void> {
  if (ended.signal.aborted) return;
  ended.abort();
  await kit.stop(END_MS);
  process.exit(code);
}
