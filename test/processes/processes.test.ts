// What ends a process, or could: it is told in words, and the others go on. Real processes.
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { deliver, ROOTS, startKit, until } from '../harness.ts';

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
