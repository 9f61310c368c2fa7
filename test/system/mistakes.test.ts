// The usual mistakes of a newcomer, in `npm run dev` on a copy of the project: each is named once, with the handler, the
// event, the line of the user's own file, and what to do.
import { spawn, spawnSync, type ChildProcess } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { fixture, signedRequest } from '#kit/testing';
import { until } from './kit.ts';

const project = mkdtempSync(join(tmpdir(), 'kit-mistakes-'));
const at = (path: string): string => join(project, path);
const EVENTS = readFileSync('src/events.ts', 'utf8');
let dev: ChildProcess;
let output = '';

function launch(...args: string[]): [string, string[]] {
  return [process.execPath, [at('src/base/node/launch.js'), ...args]];
}

const env = { PATH: process.env['PATH'], TMPDIR: join(project, 'temp'), NO_COLOR: '1' };

beforeAll(async () => {
  for (const path of ['src', 'package.json', 'vitest.config.ts', 'test/memory-folder.ts'])
    cpSync(path, at(path), { recursive: true });
  symlinkSync(resolve('node_modules'), at('node_modules'));
  mkdirSync(at('temp'));
  rmSync(at('src/handlers/log.ts'));
  writeFileSync(at('src/handlers/_lib.ts'), 'export const size = (text: string): number => text.length;\n');
  writeFileSync(at('src/handlers/good.ts'), handler(''));
  const [command, args] = launch('src/tools/dev/main.ts');
  dev = spawn(command, args, { cwd: project, env });
  for (const stream of [dev.stdout, dev.stderr]) stream?.on('data', (chunk: Buffer) => (output += chunk.toString()));
  await until(() => /WEBHOOK_SECRET=/.test(output));
});

afterAll(async () => {
  dev.kill('SIGTERM');
  await until(() => dev.exitCode !== null || dev.signalCode !== null);
  rmSync(project, { recursive: true, force: true, maxRetries: 10 });
});

/** A handler whose work is in line 9. */
function handler(work: string, fields = ''): string {
  return `import { defineHandler } from '#kit';
import { size } from './_lib.ts';
export default defineHandler({
  on: 'MessageReceived',
  order: 'arrival', lane: 'none',
  retry: { attempts: 1 },
  ${fields}
  async handle(event, ctx) {
    if (size(event.data.push_name) === 1) { ${work} }
  },
});
`;
}

/** Saves the file, and resolves to the lines that follow up to the outcome of the reload. */
async function save(file: string, source: string): Promise<string[]> {
  const from = output.length;
  writeFileSync(at(file), source);
  // The keep process may still restart after the save before, and tries again by itself.
  const lines = (): string[] =>
    output
      .slice(from)
      .split('\n')
      .filter((line) => !line.includes('(retrying. '));
  await until(() =>
    lines()
      .slice(0, -1)
      .some((line) => /^(reloaded|broken) /.test(line)),
  );
  return lines();
}

/** Sends an event to the saved handler, and resolves to its id. */
async function post(): Promise<string> {
  const id = randomUUID();
  const event = fixture('MessageReceived', { id, cursor: null, data: { push_name: '!' } });
  const [, url = ''] = /(http:\/\/127\.0\.0\.1:\d+\/webhooks)/.exec(output) ?? [];
  const [, secret = ''] = /WEBHOOK_SECRET=(\S+)/.exec(output) ?? [];
  const { headers, body } = signedRequest({ ...event, createdAt: new Date().toISOString() }, { secret });
  expect((await fetch(url, { method: 'POST', headers, body })).status).toBe(204);
  return id;
}

/** Sends an event, and resolves to the lines about its fault, once one of them matches. */
async function send(words: RegExp): Promise<string[]> {
  const id = await post();
  const lines = (): string[] => output.split('\n').filter((line) => line.trimStart().startsWith(`i:${id}  `));
  await until(() => lines().some((line) => words.test(line)));
  return lines();
}

const BAD = 'src/handlers/bad.ts';
/** The first line of each mistake in the user's own file. */
const LINE = `${BAD}:9`;

/** A mistake that the reload names: the source, and the words after the file. */
const BROKEN: Record<string, [string, RegExp]> = {
  'a syntax error': [handler('if (;'), /^:9: SyntaxError: /],
  'a missing package': [
    `${handler('')}import 'left-pad';\n`,
    /^:12: cannot find the package left-pad: npm install left-pad/,
  ],
  'a missing ending in an import': [
    handler('').replace('./_lib.ts', './_lib'),
    /^:2: cannot find \.\/_lib: did you mean \.\/_lib\.ts\?/,
  ],
  'a file that does not exist': [
    handler('').replace('./_lib.ts', './lib.ts'),
    /^:2: cannot find \.\/lib\.ts: there is no such file/,
  ],
  'an import that the kit does not have': [
    handler('').replace('{ defineHandler }', '{ defineHandler, Skp }'),
    /^:1: SyntaxError: .*Skp/,
  ],
  'bad SQL in setup': [
    handler('', `setup: (tx) => void tx.run('create tabel t (n)'),`),
    /^:7: setup of handler bad failed: SqliteError: near "tabel"/,
  ],
  'two handlers of one name': [handler('', `name: 'good',`), /^: is named good, like .*: give it another name/],
  'no default export': [handler('').replace('export default', 'export const it ='), /^: has no default export: export/],
  'a default export that is no handler': [`export default async () => {};\n`, /^: the default export is no handler: /],
  'a throw at import': [`\nthrow new Error('no queue');\n`, /^:2: no queue/],
  'a missing variable': [
    `\nif (!process.env['QUEUE_URL']) throw new Error('QUEUE_URL is not set');\n`,
    /^:2: QUEUE_URL/,
  ],
  'a wrong value of an option': [
    handler('').replace(`'arrival'`, `'stirct'`),
    /^:5: order: must be 'arrival', 'window' or 'strict', not "stirct"/,
  ],
  'an unknown option': [
    handler('', 'timeoutMS: 5,'),
    /^:7: timeoutMS: is no field of a handler: did you mean timeoutMs\?/,
  ],
};

describe('a mistake that the reload finds is named in one line, with its line in the file, and what to do', () => {
  test.each(Object.entries(BROKEN))('%s', async (name, [source, words]) => {
    const lines = (await save(BAD, source)).filter((line) => line.startsWith('broken '));
    expect(lines).toHaveLength(1);
    const [, file, rest] =
      /^broken +(src\/handlers\/(?:bad|good)\.ts)(.*) \(the (old handlers keep running|others go on)\)$/.exec(
        lines[0] ?? '',
      ) ?? [];
    expect(rest, lines[0]).toMatch(words);
    if (name !== 'two handlers of one name') expect([file, rest?.includes(BAD)]).toEqual([BAD, false]);
  });

  test('a misspelt type in `on`', async () => {
    const lines = await save(BAD, handler('').replace('MessageReceived', 'MesageReceived'));
    const told = lines.findIndex((line) => line.includes('MesageReceived'));
    expect(lines.slice(told, told + 2)).toEqual([
      'the kit    bad: on "MesageReceived", which is not in src/events.ts: did you mean MessageReceived?',
      `           ${BAD}:4`,
    ]);
  });

  test.each([
    ['a syntax error in src/events.ts', EVENTS.replace('define({', 'define({{'), /^src\/events\.ts:\d+: SyntaxError/],
    ['a throw in src/events.ts', `${EVENTS}throw new Error('no type');\n`, /^src\/events\.ts:\d+: Error: no type/],
  ])('%s', async (_, source, words) => {
    await save(BAD, handler(''));
    const lines = (await save('src/events.ts', source)).filter((line) => line.startsWith('broken '));
    expect(lines.map((line) => line.replace(/^broken +/, ''))).toEqual([expect.stringMatching(words)]);
    const [command, args] = launch('src/main.ts');
    const start = spawnSync(command, args, { cwd: project, env, encoding: 'utf8' });
    expect(start.stderr).toMatch(/^\/.*\/src\/events\.ts:\d+: .*\nNothing starts until src\/events\.ts is fixed\.\n$/);
    expect(start.status).toBe(78);
    await save('src/events.ts', EVENTS);
  });
});

/** A mistake that an event shows: the handler's work in line 9, and the words between the event's key and the place. */
const FAILS: Record<string, [string, RegExp]> = {
  'a wrong field of data': [`(event.data as any).sender.name;`, /^TypeError: .*reading 'name'\)/],
  'bad SQL in ctx.complete': [
    `await ctx.complete(async (tx) => void (await tx.run('insert into orders values (1)')));`,
    /^SqliteError: no such table: orders .* → create the table in setup$/,
  ],
  'no await on ctx.complete': [
    `void ctx.complete((tx) => void tx.run('insert into orders values (1)'));`,
    /^SqliteError: no such table: orders/,
  ],
  'bad SQL in ctx.read': [`await ctx.read('select * form orders');`, /^SqliteError: near "form"/],
  'too few values': [`await ctx.read('select ?');`, /^RangeError: .* → after the SQL give one value for each \?$/],
  'a call that fails': [`await fetch('http://127.0.0.1:1/');`, /^TypeError: fetch failed: /],
  'a variable that is not set': [
    `await fetch(process.env['QUEUE_URL'] as string);`,
    /^TypeError: Failed to parse URL from undefined.* → is its variable in \.env\?$/,
  ],
  'a change of the event': [
    `(event.data as any).body = '';`,
    /^TypeError: .* → an event is frozen: change a copy of it$/,
  ],
  'a note that is too large': [`await ctx.note('a', 'b'.repeat(2_000));`, /^Error: ctx\.note: .* exceeds 1024 bytes/],
  'a row that is too large': [
    `await ctx.complete(async (tx) => void (await tx.run('create table b (x text)'), await tx.run('insert into b values (zeroblob(2000000000))')));`,
    /^SqliteError: string or blob too big/,
  ],
  'an error deep in a library': [
    `const { z } = await import('zod'); z.object({ a: z.string() }).parse({});`,
    /^ZodError: /,
  ],
  'a lost ctx': [`await (ctx as any).ctx.complete();`, /^TypeError: .*complete/],
};

describe('a mistake that an event shows is named in one line, with key, error and line, and nothing of the kit', () => {
  test.each(Object.entries(FAILS))('%s', async (_, [work, words]) => {
    expect((await save(BAD, handler(work))).join('\n')).toMatch(/^reloaded +bad, good/m);
    const lines = await send(/Error/);
    expect(lines).toHaveLength(1);
    const text = lines[0]?.trim().replace(/^i:\S+ +/, '') ?? '';
    expect(text).toMatch(words);
    expect(text.match(/src\/\S+?:\d+/g)).toEqual([LINE]);
  });

  test.each([
    ['a string', `throw 'a string';`, /^string: a string/],
    ['undefined', 'throw undefined;', /^undefined: undefined/],
    ['an object', `throw { message: 'of an SDK' };`, /^object: of an SDK/],
  ])('a thrown value that is no error has the file alone, and the advice: %s', async (_, work, words) => {
    await save(BAD, handler(work));
    const [text = '', ...more] = (await send(/throw an Error/)).map((line) => line.trim().replace(/^i:\S+ +/, ''));
    expect(more).toEqual([]);
    expect(text).toMatch(words);
    expect(text.endsWith(`(${BAD}) → throw an Error, which has a line`)).toBe(true);
  });

  test('a handler that never ends has the file, and the advice', async () => {
    await save(BAD, handler('await new Promise(() => {});', 'timeoutMs: 50,'));
    const [text = ''] = await send(/Timeout/);
    expect(text).toMatch(/ {2}Timeout: no result within 50 ms \(src\/handlers\/bad\.ts\) → await only what ends: /);
  });

  test('data that do not fit src/events.ts name the type and the field', async () => {
    await save(BAD, handler(''));
    await save('src/events.ts', EVENTS.replace('from: z.string()', 'sender: z.string()'));
    const [text = ''] = await send(/does not fit/);
    expect(text).toMatch(/data does not fit MessageReceived in src\/events\.ts: sender: .* → correct the type there; /);
    await save('src/events.ts', EVENTS);
  });

  test.each([
    [
      'a rejection that nobody awaits',
      `void fetch('http://127.0.0.1:1/');`,
      /await every promise/,
      /TypeError: fetch fai/,
    ],
    [
      'a throw in a timer',
      `setTimeout(() => { throw new Error('late'); }, 5);`,
      /catch it in the callback/,
      /Error: late/,
    ],
    ['process.exit', 'process.exit(1);', /a handler ends this process: throw an error instead/, /i:/],
  ])('%s is named with handler, key and line, and with the remedy', async (_, work, remedy, words) => {
    await save(BAD, handler(work));
    const from = output.length;
    const [line = ''] = await send(/bad\.ts/);
    expect(line).toMatch(words);
    expect(line.match(/src\/\S+?:\d+/g)).toEqual([LINE]);
    const before = output.slice(from).split('\n');
    expect(before[before.indexOf(line) - 1]).toMatch(new RegExp(`^ +bad: .*${remedy.source}`));
    await save(BAD, handler(''));
  });

  test('a value that is no promise, and a handler without async, are no mistakes', async () => {
    const work = `console.log('done', event.key); return 5;`;
    await save(BAD, handler(work).replace('async handle(event, ctx) {', 'handle(event): any {'));
    const id = await post();
    await until(() => output.includes(`done i:${id}\n`));
    expect(output).not.toMatch(new RegExp(`^ +i:${id} `, 'm'));
  });
});

test('a test of a handler that fails shows the error of the task', () => {
  mkdirSync(at('test/handlers'), { recursive: true });
  writeFileSync(at(BAD), handler(`throw new Error('no stock');`));
  writeFileSync(
    at('test/handlers/bad.test.ts'),
    `import { expect, test } from 'vitest';
import { deliver, fixture } from '#kit/testing';
import bad from '../../src/handlers/bad.ts';
test('it is done', async () => {
  const { tasks } = await deliver(bad, fixture('MessageReceived', { data: { push_name: '!' } }));
  expect(tasks).toMatchObject([{ state: 'done' }]);
});
`,
  );
  const [command, args] = launch('node_modules/vitest/vitest.mjs', 'run', '--project', 'handlers');
  const { stdout, stderr, status } = spawnSync(command, args, { cwd: project, env, encoding: 'utf8' });
  expect(stdout + stderr).toContain(`deliver: c:1001 dead, attempt 1: Error: no stock (${LINE})`);
  expect(status).toBe(1);
});
