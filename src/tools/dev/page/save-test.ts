// Writes a test of one handler on one stored event, and runs it.
import { spawn, spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { basename, dirname, extname, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { stripVTControlCharacters } from 'node:util';

const ROOT = fileURLToPath(new URL('../../../../', import.meta.url));
const TESTS = join(ROOT, 'test', 'handlers');
const OUTPUT = 20_000;

export interface SavedTest {
  /** Relative to the repository. */
  file: string;
  passed: boolean;
  output: string;
}

export interface TestOf {
  handler: string;
  handlersDir: string;
  key: string;
  type: string;
  /** The source text of the fixture, see admin/copies.ts. */
  fixture: string;
  /** How the task ended. A failed one should end as done. */
  state: string;
}

/** Throws an Error whose message is for people. */
export async function saveTest({ handler, handlersDir, key, type, fixture, state }: TestOf): Promise<SavedTest> {
  const source = fileOf(handler, handlersDir);
  if (!source) throw new Error(`no file in ${handlersDir} is the handler ${handler}: is it still there?`);
  if (!fixture.startsWith('fixture(')) throw new Error(`no test is written, because the body has ${fixture}`);
  const end = state === 'skipped' ? 'skipped' : 'done';
  const serves = /\bservice\b/.test(readFileSync(source, 'utf8'));
  const digest = createHash('sha256').update(key).digest('hex').slice(0, 6);
  const file = join(TESTS, `${handler}-${key.replaceAll(/[^\w]+/g, '').slice(0, 40)}-${digest}.test.ts`);
  const from = relative(dirname(file), source).replaceAll('\\', '/');
  if (!existsSync(file)) {
    mkdirSync(TESTS, { recursive: true });
    writeFileSync(file, textOf({ from, handler, type, key, fixture, end, serves }));
    // The same format as the rest of the repository. Without the formatter, the test works as well.
    spawnSync(join(ROOT, 'node_modules', '.bin', 'oxfmt'), [file], { cwd: ROOT });
  }
  return { file: relative(ROOT, file), ...(await run(file)) };
}

/** Answers that let a paid send pass. A handler that asks for more gets an error that says so. */
const SERVICE = `  vi.stubEnv('PAID_OPERATIONS', 'allow');
  const service = recorder({ quote: { quoteId: 'quote-1' }, send: {} });
`;

interface Text extends Record<'from' | 'handler' | 'type' | 'key' | 'fixture' | 'end', string> {
  /** The handler calls the service. */
  serves: boolean;
}

function textOf(of: Text): string {
  const error = of.end === 'done' ? 'null' : 'expect.any(String)';
  return `import { expect, test${of.serves ? ', vi' : ''} } from 'vitest';
import { deliver, fixture${of.serves ? ', recorder' : ''} } from '#kit/testing';
import handler from '${of.from}';

const event = ${of.fixture};

test(${JSON.stringify(`${of.handler}: ${of.type} ${of.key} ends as ${of.end}`)}, async () => {
${of.serves ? SERVICE : ''}  const { tasks } = await deliver(handler, event, { name: ${JSON.stringify(of.handler)}${of.serves ? ', service' : ''} });
  expect(tasks.map(({ state, error }) => ({ state, error }))).toEqual([{ state: '${of.end}', error: ${error} }]);
});
`;
}

/** The file whose name, or whose field \`name\`, is the handler's. */
function fileOf(handler: string, folder: string): string | undefined {
  const files = readdirSync(folder).filter((name) => /^[^_.].*\.(ts|mts|js|mjs)$/.test(name));
  const named = files.find((name) => basename(name, extname(name)) === handler);
  const naming = new RegExp(`\\bname:\\s*['"\`]${handler.replaceAll('.', '\\.')}['"\`]`);
  const found = files.find((name) => naming.test(readFileSync(join(folder, name), 'utf8'))) ?? named;
  return found && join(folder, found);
}

async function run(file: string): Promise<{ passed: boolean; output: string }> {
  const vitest = join(ROOT, 'node_modules', 'vitest', 'vitest.mjs');
  const args = ['--no-warnings', vitest, 'run', '--project', 'handlers', file];
  const child = spawn(process.execPath, args, { cwd: ROOT, env: { ...process.env, NO_COLOR: '1' } });
  let output = '';
  for (const stream of [child.stdout, child.stderr])
    stream.on('data', (chunk: Buffer) => (output = `${output}${chunk.toString()}`.slice(-OUTPUT)));
  const code = await new Promise((resolve) => child.once('close', resolve));
  return { passed: code === 0, output: stripVTControlCharacters(output).trim() };
}
