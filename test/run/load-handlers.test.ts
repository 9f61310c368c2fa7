// How handlers are loaded: which files are handlers, and how their faults are named. A thread loads them, with Node's
// own loader.
import { once } from 'node:events';
import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { Worker } from 'node:worker_threads';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { createFolder } from './fixture.ts';
import type { Asked, Told } from './loading.ts';

const GOOD = `export default { on: '*', handle() {} };`;

function write(files: Record<string, string>): string {
  const folder = createFolder();
  for (const [name, text] of Object.entries(files)) {
    mkdirSync(dirname(join(folder, name)), { recursive: true });
    writeFileSync(join(folder, name), text);
  }
  return folder;
}

let loader: Worker;
beforeAll(() => void (loader = new Worker(new URL('loading.ts', import.meta.url), { execArgv: [] })));
afterAll(() => loader.terminate());

async function load(folder: string, replay = false): Promise<Told> {
  const told = once(loader, 'message') as Promise<[Told]>;
  loader.postMessage({ folder, replay } satisfies Asked);
  return (await told)[0];
}

async function loadFiles(files: Record<string, string>, replay = false): Promise<Told & { folder: string }> {
  const folder = write(files);
  return { ...(await load(folder, replay)), folder };
}

describe('a handler', () => {
  test('gets its defaults, and the name of its file', async () => {
    const { faults, handlers } = await loadFiles({ 'greet.ts': GOOD });
    expect(faults).toEqual([]);
    expect(handlers).toEqual([
      {
        name: 'greet',
        rate: null,
        on: '*',
        lane: 'conversation',
        order: 'window',
        retry: { attempts: 20, firstMs: 1_000, maxMs: 3_600_000 },
        laneHoldMs: 120_000,
        timeoutMs: 30_000,
        maxAgeMs: null,
        onStale: 'run',
        history: false,
        setup: 'undefined',
      },
    ]);
  });

  test('keeps every field that it sets', async () => {
    const { faults, handlers } = await loadFiles({
      'greet.ts': `export default {
        name: 'mine', on: ['A', 'B'], lane: (event) => event.key, order: 'arrival', retry: { attempts: 3 }, laneHoldMs: 1,
        timeoutMs: 2, maxAgeMs: 3, onStale: 'skip', history: true, rate: { perMinute: 4 }, setup(tx) {}, async handle(event, ctx) {},
      };`,
    });
    expect(faults).toEqual([]);
    expect(handlers).toEqual([
      {
        name: 'mine',
        rate: { perMinute: 4 },
        on: ['A', 'B'],
        lane: 'function',
        order: 'arrival',
        retry: { attempts: 3, firstMs: 1_000, maxMs: 3_600_000 },
        laneHoldMs: 1,
        timeoutMs: 2,
        maxAgeMs: 3,
        onStale: 'skip',
        history: true,
        setup: 'function',
      },
    ]);
  });

  test('may have a list of SQL and functions as its setup', async () => {
    const { faults, handlers } = await loadFiles({
      'a.ts': `export default { on: '*', setup: ['create table a (b)', (tx) => {}], handle() {} };`,
    });
    expect(faults).toEqual([]);
    expect(handlers).toMatchObject([{ setup: 'object' }]);
  });

  test.each(["'create table a (b)'", "['create table a (b)', 1]", '{}'])(
    'is refused with the setup %s',
    async (setup) => {
      const { faults } = await loadFiles({ 'a.ts': `export default { on: '*', setup: ${setup}, handle() {} };` });
      expect(faults).toEqual([
        expect.stringMatching(/a\.ts:1: setup: must be a function, or a list of SQL and functions/),
      ]);
    },
  );

  test('may ask for strict order if there is an API key', async () => {
    const strict = { 'a.ts': `export default { on: '*', order: 'strict', handle() {} };` };
    const { faults, handlers } = await loadFiles(strict, true);
    expect(faults).toEqual([]);
    expect(handlers).toMatchObject([{ order: 'strict' }]);
  });

  test("can import '#kit' from any folder, and its Skip, Dead and RetryAfter are the kit's own classes", async () => {
    const { faults, handlers, thrown } = await loadFiles({
      'a.ts': `import { defineHandler, Dead } from '#kit';
        import type { KitEvent } from '#kit';
        export default defineHandler({ on: 'MessageReceived', handle(event: KitEvent) { throw new Dead('no'); } });`,
      'b.mjs': `import { Skip } from '#kit';
        export default { on: '*', handle() { throw new Skip('no'); } };`,
    });
    expect(faults).toEqual([]);
    expect(handlers.map(({ on }) => on)).toEqual([['MessageReceived'], '*']);
    expect(thrown).toEqual(['Dead', 'Skip']);
  });

  test('may use `this` for its own fields', async () => {
    const { thrown } = await loadFiles({
      'a.ts': `export default { on: '*', name: 'me', handle() { throw this.name; } };`,
    });
    expect(thrown).toEqual(['me']);
  });

  test('is a .ts, .mts, .js or .mjs file in the folder itself that is no test and does not begin with _', async () => {
    const files = [
      'a.ts',
      'b.mts',
      'c.js',
      'd.mjs',
      '_e.ts',
      'f.test.ts',
      'g.spec.ts',
      'h.d.ts',
      '.i.ts',
      'j.md',
      'k.json',
      'sub/l.ts',
      'm.ts.bak',
    ];
    const { faults, handlers } = await loadFiles({
      'package.json': '{ "type": "module" }',
      ...Object.fromEntries(files.map((name) => [name, /^[a-d]/.test(name) ? GOOD : 'not a handler {'])),
    });
    expect(faults).toEqual([]);
    expect(handlers.map(({ name }) => name)).toEqual(['a', 'b', 'c', 'd']);
  });

  test('may import a file that is no handler', async () => {
    const { faults, handlers } = await loadFiles({
      '_shared.ts': `export const types: string[] = ['A'];`,
      'a.ts': `import { types } from './_shared.ts'; export default { on: types, handle() {} };`,
    });
    expect(faults).toEqual([]);
    expect(handlers).toMatchObject([{ on: ['A'] }]);
  });
});

describe('a fault names its file and the fix', () => {
  test.each<[string, string, RegExp]>([
    ['a syntax error', `export default { on: '*', handle( }`, /syntax|expected|unexpected/i],
    ['half a file', `export default { on: '*', hand`, /syntax|expected|unexpected/i],
    ['syntax that cannot be stripped', `enum A { B } ${GOOD}`, /enum/i],
    ['a throw while it loads', `throw new Error('no such queue'); ${GOOD}`, /no such queue/],
    ['an import that is not there', `import './nowhere.ts'; ${GOOD}`, /nowhere\.ts/],
    [
      'no default export',
      `export const handler = ${GOOD.slice('export default '.length)}`,
      /no default export: export default defineHandler/,
    ],
    ['a default export that is none', `export default 5;`, /: the default export is no handler: export/],
    ['a default export of null', `export default null;`, /: the default export is no handler: /],
    ['no type', `export default { handle() {} };`, /on: must be an event type, several, or "\*"/],
    ['an empty list of types', `export default { on: [], handle() {} };`, /on: /],
    ['no handle', `export default { on: '*' };`, /handle: is required: an async function of the event and ctx/],
    ['a handle that is no function', `export default { on: '*', handle: 'x' };`, /handle: is required/],
    ['a field of another kind', `export default { on: '*', timeoutMs: '30 s', handle() {} };`, /timeoutMs: /],
    ['a time without end', `export default { on: '*', timeoutMs: Infinity, handle() {} };`, /timeoutMs: /],
    ['a negative time', `export default { on: '*', laneHoldMs: -1, handle() {} };`, /laneHoldMs: /],
    [
      'a lane that is none',
      `export default { on: '*', lane: 'number', handle() {} };`,
      /lane: must be conversation, session, none, or a function/,
    ],
    ['an order that is none', `export default { on: '*', order: 'any', handle() {} };`, /order: must be/],
    ['a field that is not known', `export default { on: '*', handle() {}, timeout: 5 };`, /timeout/],
    [
      'a field of retry that is not known',
      `export default { on: '*', handle() {}, retry: { times: 5 } };`,
      /retry.*times/,
    ],
    ['no attempts', `export default { on: '*', handle() {}, retry: { attempts: 0 } };`, /retry\.attempts: /],
    ['a name that is none', `export default { on: '*', name: 'a b', handle() {} };`, /name: must be 1 to 100 letters/],
    [
      'strict order without an API key',
      `export default { on: '*', order: 'strict', handle() {} };`,
      /order: 'strict' needs API_BASE_URL and API_KEY: only replay can prove .*use 'window'/,
    ],
  ])('%s', async (_, text, wording) => {
    const { faults, handlers, folder } = await loadFiles({ 'greet.ts': text });
    expect(handlers).toEqual([]);
    expect(faults).toHaveLength(1);
    expect(faults[0]?.replace(':1: ', ': ').startsWith(`${join(folder, 'greet.ts')}: `)).toBe(true);
    expect(faults[0]).toMatch(wording);
    expect(faults[0]).not.toContain('\n');
  });

  test('its line is named if it is known, also in a file that the handler imports', async () => {
    const { faults, folder } = await loadFiles({
      'greet.ts': `export default {\n  on: '*',\n  handle( };`,
      'throws.ts': `\nthrow new Error('no');`,
      'imports.ts': `import './_broken.ts';`,
      '_broken.ts': `\n\nconst x: = 1;`,
    });
    expect(faults.map((fault) => fault.split(' ')[0])).toEqual([
      `${folder}/greet.ts:3:`,
      `${folder}/imports.ts:`,
      `${folder}/throws.ts:2:`,
    ]);
    expect(faults[1]).toContain(`${folder}/_broken.ts:3: `);
  });

  test('fractions of a millisecond are refused or rounded, because the store keeps whole milliseconds', async () => {
    const { handlers } = await loadFiles({ 'a.ts': `export default { on: '*', laneHoldMs: 0.5, handle() {} };` });
    for (const { laneHoldMs } of handlers) expect(Number.isInteger(laneHoldMs)).toBe(true);
  });

  test('the faults of all files are reported at once', async () => {
    const { faults, folder } = await loadFiles({ 'a.ts': 'export default {', 'b.ts': 'export {};', 'c.ts': GOOD });
    expect(faults.map((fault) => fault.slice(folder.length + 1).split(':')[0])).toEqual(['a.ts', 'b.ts']);
  });

  test('two handlers with the same name', async () => {
    const { faults, folder } = await loadFiles({
      'a.ts': `export default { name: 'b', on: '*', handle() {} };`,
      'b.ts': GOOD,
    });
    expect(faults).toEqual([`${folder}/b.ts: is named b, like ${folder}/a.ts: give it another name`]);
  });

  test('a folder that does not exist', async () => {
    const { faults } = await load('/nowhere/handlers');
    expect(faults).toEqual(['HANDLERS_DIR cannot be read: /nowhere/handlers: create it, or name another']);
  });
});
