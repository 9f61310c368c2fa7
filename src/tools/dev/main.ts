// `npm run dev`: a real kit on a store of its own, events from the simulated service or from your account, a page to send
// them, and a line for each attempt. What you save is loaded at once.
import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { readdirSync, watch } from 'node:fs';
import { dirname, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { EXIT } from '../../base/errors.ts';
import { createSandbox } from '../sandbox.ts';
import { startService } from '../simulator/service.ts';
import { createActions } from './actions.ts';
import { attemptLine, noted, otherLine, toldBy, type Told } from './lines.ts';
import { envOf, readOptions, refuse } from './options.ts';
import { startServer } from './server.ts';

const SRC = dirname(dirname(import.meta.dirname));
/** How long it waits: before it forces a stop, until an editor has saved, until the store has an attempt's error. */
const [STOP_MS, SETTLE_MS, ERROR_MS] = [1_000, 50, 100];

const { live, store, inspect, traffic, chaos, ...options } = readOptions();
const token = randomBytes(24).toString('hex');
const onEnd = (): void => void end(EXIT.failed);
const kit = await createSandbox({ cwd: import.meta.dirname, store, token, onLine: take, onEnd }).catch(refuse);
const onDisabled = (): void => service.webhook.enable();
// Ten times faster, because the service waits 30 s before its second attempt.
const service = await startService({ url: kit.url, speed: 10, earlier: true, onDisabled });
const actions = createActions(service, live);
const page = await startServer(kit.opsUrl, token, actions);
let saving: NodeJS.Timeout | undefined;

for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => void end(EXIT.done));
print(`page      ${page}/#send
trigger   WEBHOOK_SECRET=${service.secret} npx kit trigger MessageReceived --url ${kit.url}
store     DATABASE_URL=sqlite:${store} npx kit status
handlers  ${envOf(live).HANDLERS_DIR}: what you save is loaded at once. Ctrl-C ends all.\n`);
await load();
// Each folder is watched by itself: a recursive watch misses changes of files that an editor replaces.
const inside = readdirSync(SRC, { recursive: true, withFileTypes: true }).filter((one) => one.isDirectory());
for (const folder of [SRC, envOf(live).HANDLERS_DIR, ...inside.map(({ parentPath, name }) => join(parentPath, name))])
  watch(folder, (_, name) => /^[^.].*\.ts$/.test(name ?? '') && save());
watch('.', (_, name) => name === '.env' && save(true));
await kit.read('status').catch(() => {});
actions.switch({ traffic, chaos });
const command = { darwin: 'open', win32: 'explorer' }[process.platform as string] ?? 'xdg-open';
if (!options['no-open'] && process.stdout.isTTY)
  spawn(command, [`${page}/#send`], { stdio: 'ignore' }).on('error', () => {});

function save(isEnv = false): void {
  clearTimeout(saving);
  saving = setTimeout(() => void load(isEnv), SETTLE_MS);
}

/** Loads what was saved. A kit that is still starting may have read the old files, so it is started again. */
async function load(isEnv = false): Promise<void> {
  const fault = await actions.load();
  if (fault) return print(noted('broken', `${fault} (correct it and save; what was loaded stays in use)`));
  if (!isEnv && kit.reload()) return;
  await kit.stop(STOP_MS);
  const own = { WEBHOOK_SECRET: service.secret, API_BASE_URL: service.url, API_KEY: service.key, LOG_LEVEL: 'debug' };
  kit.start({ ...own, ...envOf(live) }, inspect === undefined ? [] : [`--inspect=${inspect}`]);
}

function take(line: string): void {
  const told = toldBy(line);
  if (told?.['msg'] === 'an attempt has ended') void tell(told);
  else print(told ? otherLine(told) : line);
}

/** Prints one attempt. Its error is not in the log: it is read from the store, which gets it a moment later. */
async function tell(told: Told): Promise<void> {
  const { outcome = '', handler = '', key = '' } = told as Record<string, string>;
  if (!['again', 'dead', 'skipped'].includes(outcome)) return print(attemptLine(told));
  await sleep(ERROR_MS);
  const tasks = await kit.read('tasks', { handler, event: key }).catch(() => []);
  print(attemptLine(told, (tasks as Told[])[0]));
}

async function end(code: number): Promise<void> {
  await Promise.all([kit.stop(STOP_MS), service.stop()]);
  process.exit(code);
}

/** Prints a text. Paths in it become relative to the current folder. */
function print(text: string | undefined): void {
  if (text !== undefined) process.stdout.write(`${text.replaceAll(`${process.cwd()}/`, '')}\n`);
}
