// What ends a process, or could: it is told in words, and the others go on. Real processes.
import { spawnSync } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pino } from 'pino';
import { expect, onTestFinished, test } from 'vitest';
import type { Report } from '../../src/processes/channel.ts';
import { Supervised } from '../../src/processes/supervised.ts';
import { openSqlite } from '../../src/store/sqlite/open.ts';
import { deliver, ROOTS, startKit, until } from '../harness.ts';
import { createFolder, reading } from '../store/fixture.ts';

const EVENTS = join(ROOTS.second, 'src/events.ts');
/** In every process: src/events.ts reads like this. */
const broken = (source: string): string => `import { registerHooks } from 'node:module';
  const source = ${JSON.stringify(source)};
  const load = (url, context, next) =>
    url.endsWith('/src/events.ts') ? { source, format: 'module-typescript', shortCircuit: true } : next(url, context);
  registerHooks({ load });`;

test.each([
  ['throws', `\nthrow new Error('no such list');`],
  ['cannot be parsed', '\nexport const eventTypes = {{ };'],
])(
  'while src/events.ts %s, deliveries are taken, handlers wait, and alarm and commands name the line',
  async (_, text) => {
    const env = { NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(broken(text))}` };
    const kit = await startKit({ handlers: { 'one.ts': `export default { on: '*', handle() {} };` }, env });
    expect(await deliver(kit.url, {})).toBe(204);
    const alarmed = async (): Promise<boolean> =>
      (await kit.status()).alarms.some(({ name }) => name === 'handler_broken');
    await until('the alarm', alarmed);
    const own = { ...env, PATH: process.env['PATH'], DATABASE_URL: `sqlite:${join(kit.folder, 'events.db')}` };
    const status = spawnSync(process.execPath, [join(ROOTS.second, 'src/cli/main.ts'), 'status'], {
      cwd: kit.folder,
      env: own,
    });
    expect([status.status, status.stdout.toString()]).toEqual([0, expect.stringContaining(`one.ts: ${EVENTS}:2: `)]);
    await kit.stop();
  },
);

test('of a process that gives no sign of life, the log names the handler that began last', async () => {
  const folder = createFolder();
  const file = join(folder, 'handlers/spins.ts');
  mkdirSync(join(folder, 'handlers'));
  writeFileSync(file, `export default { on: '*', order: 'arrival', handle() { for (;;); } };`);
  const url = join(folder, 'events.db');
  const store = openSqlite(url);
  const lines: string[] = [];
  const reports: Report[] = [];
  const run = new Supervised({
    role: 'run',
    entry: 'run/main.ts',
    node: [],
    args: () => [JSON.stringify({ role: 'live', restart: false, newest: 0, without: {} })],
    env: () => ({ DATABASE_URL: `sqlite:${url}`, HANDLERS_DIR: join(folder, 'handlers'), LOG_LEVEL: 'silent' }),
    log: pino({ base: null }, { write: (line: string) => void lines.push(line) }),
    onReport: (report) => void reports.push(report),
  });
  onTestFinished(() => run.stop(0).finally(() => store.close()));
  run.start();
  const heard = (type: Report['type']) => () => reports.some((one) => one.type === type);
  await until('it to be ready', heard('ready'));
  await store.ingest.accept({ readings: [reading({ type: 'MessageReceived' })] });
  await until('the handler to begin', heard('began'));
  for (let second = 0; second < 10; second++) run.tick();
  await until('its death', () => lines.length > 1);
  expect(JSON.parse(lines[0] ?? '')).toMatchObject({ beganLast: `spins (${file})` });
});

test('a process that starts anew gets the variables that the kit was started with, whatever .env says by then', async () => {
  const source = `import { appendFileSync } from 'node:fs';
    export default { on: '*', handle: () => appendFileSync(process.env.FOLDER + '/lines', 'handled\\n') };`;
  const kit = await startKit({ handlers: { 'one.ts': source } });
  writeFileSync(join(kit.folder, '.env'), 'RUN_CONCURRENCY=abc');
  for (const pid of kit.pids('run/main')) process.kill(pid, 'SIGKILL');
  expect(await deliver(kit.url, { type: 'A' })).toBe(204);
  await until('the handler', () => kit.lines().length > 0);
  await kit.stop();
});

test('a fault of the store while run starts blames no file', async () => {
  const kit = await startKit({ handlers: { 'one.ts': `export default { on: '*', handle() {} };` } });
  const handled = async (count: number): Promise<boolean> => (await kit.status()).tasks.done === count;
  await deliver(kit.url, { type: 'Other' });
  await until('the first to be handled', () => handled(1));
  const store = openSqlite(join(kit.folder, 'events.db'));
  // As if a newer kit had changed it.
  store.db.raw.pragma('user_version = 2');
  for (const pid of kit.pids('run/main')) process.kill(pid, 'SIGKILL');
  await until('run to fail twice', () => (kit.output().match(/"run","how":"exit code/g)?.length ?? 0) >= 2);
  store.db.raw.pragma('user_version = 1');
  store.close();
  await deliver(kit.url, { type: 'Other' });
  await until('the second to be handled', () => handled(2));
  await kit.stop();
});
