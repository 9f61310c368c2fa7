// How handler files are loaded, and how their faults are named. A thread loads them, with Node's own loader.
import { once } from 'node:events';
import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { Worker } from 'node:worker_threads';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { HandlerFile } from '../../src/store/work.ts';
import { createFolder } from '../store/fixture.ts';

const GOOD = `export default { on: '*', handle() {} };`;
const src = (path: string): string => JSON.stringify(`file://${resolve('src', path)}`);
const THREAD = `
  const { AsyncLocalStorage } = require('node:async_hooks');
  const { parentPort } = require('node:worker_threads');
  const scopes = new AsyncLocalStorage();
  const modules = Promise.all([import(${src('run/load.ts')}), import(${src('run/stray.ts')}), import(${src('kit.ts')})]);
  const ready = modules.then(([load, { traceErrors }, kit]) => (traceErrors({ scopes, log: {} }), { load, kit }));
  parentPort.on('message', async ({ folder, ...options }) => {
    const { load, kit } = await ready;
    const thrown = [];
    try {
      const { handlers, files } = await load.loadHandlers(folder, { scopes, ...options });
      for (const { handle } of handlers)
        try { await handle() } catch (error) { thrown.push(error instanceof kit.Dead ? 'Dead' : String(error)) }
      const plain = handlers.map(({ handle, lane, setup, on, ...rest }) => ({ ...rest, lane: typeof lane, on: [...on] }));
      parentPort.postMessage({ handlers: plain, files, thrown });
    } catch (error) { parentPort.postMessage({ error: String(error) }) }
  });`;

interface Told {
  handlers: { name: string; on: string[]; [field: string]: unknown }[];
  files?: HandlerFile[];
  thrown: string[];
  error?: string;
}

let thread: Worker;
beforeAll(() => void (thread = new Worker(THREAD, { eval: true, execArgv: [] })));
afterAll(() => thread.terminate());

async function load(
  files: Record<string, string>,
  { replay = false, without = [] as string[], folder = createFolder() } = {},
) {
  for (const [name, text] of Object.entries(files)) {
    mkdirSync(dirname(join(folder, name)), { recursive: true });
    writeFileSync(join(folder, name), text);
  }
  const told = once(thread, 'message') as Promise<[Told]>;
  const blamed = without.map((name) => [join(folder, name), 'it ended its process (SIGKILL)']);
  thread.postMessage({ folder, replay, without: Object.fromEntries(blamed) as Record<string, string> });
  const [{ files: found = [], ...rest }] = await told;
  // Faults relative to the folder.
  const short = (text: string): string => text.replaceAll(`${folder}/`, '');
  const faults = found.flatMap(({ fault }) => (fault === null ? [] : short(fault)));
  return { ...rest, files: found.map((file) => ({ ...file, file: short(file.file) })), faults };
}

describe('a handler', () => {
  test('gets its defaults, and the name of its file, unless it names others', async () => {
    const own = `name: 'mine', order: 'strict', laneHoldMs: 1, maxAgeMs: 3, rate: { perMinute: 4 }, retry: { attempts: 5 }`;
    const { files, handlers } = await load(
      { 'a.ts': GOOD, 'b.ts': GOOD.replace('on:', `${own}, on:`) },
      { replay: true },
    );
    const defaults = {
      order: 'window',
      laneHoldMs: 120_000,
      timeoutMs: 30_000,
      maxAgeMs: null,
      onStale: 'run',
      rate: null,
    };
    const set = { order: 'strict', laneHoldMs: 1, maxAgeMs: 3, rate: { perMinute: 4 } };
    expect(files.map(({ name }) => name)).toEqual(['a', 'mine']);
    expect(handlers).toMatchObject([
      { name: 'a', retry: { attempts: 20, firstMs: 1_000, maxMs: 3_600_000 }, ...defaults },
      { name: 'mine', retry: { attempts: 5, firstMs: 1_000 }, ...set },
    ]);
  });

  test("can import '#kit' from any folder, whose errors are the kit's own, and use `this`", async () => {
    const { faults, thrown } = await load({
      'a.ts': `import { defineHandler, Dead } from '#kit';
        import type { KitEvent } from '#kit';
        export default defineHandler({ on: '*', handle(event: KitEvent) { throw new Dead('no'); } });`,
      'b.mjs': `export default { on: '*', name: 'me', handle() { throw this.name; } };`,
    });
    expect([faults, thrown]).toEqual([[], ['Dead', 'me']]);
  });

  test('is a .ts, .mts, .js or .mjs file in the folder itself that is no test and does not begin with _ or a dot', async () => {
    const not = ['_e.ts', 'f.test.ts', 'g.spec.ts', 'h.d.ts', '.i.ts', 'j.md', 'sub/l.ts', 'm.ts.bak'];
    const are = ['a.ts', 'b.mts', 'c.js', 'd.mjs'];
    const { files } = await load({
      'package.json': '{ "type": "module" }',
      ...Object.fromEntries([...are.map((name) => [name, GOOD]), ...not.map((name) => [name, 'not a handler {'])]),
    });
    expect(files.map(({ file, fault }) => [file, fault])).toEqual(are.map((name) => [name, null]));
  });
});

describe('a fault names its file, its line and the fix, and the others work:', () => {
  test.each<[string, string, RegExp]>([
    ['a syntax error', `\nexport default { on: '*', handle( }`, /^greet\.ts:2: SyntaxError: /],
    ['a throw while it loads', `\nthrow new Error('no such queue');`, /^greet\.ts:2: no such queue/],
    ['a rejection while it loads', `\nvoid Promise.reject(new Error('no queue')); ${GOOD}`, /^greet\.ts:2: no queue/],
    ['an exit while it loads', `\nprocess.exit(3); ${GOOD}`, /^greet\.ts:2: called process\.exit, .*throw an error/],
    ['an import that is not there', `import './nowhere.ts'; ${GOOD}`, /^greet\.ts: .*nowhere\.ts/],
    ['a throw in what it imports', `import './_shared.ts'; ${GOOD}`, /^greet\.ts: _shared\.ts:2: broken/],
    ['no default export', `export const a = 1;`, /: has no default export: export default defineHandler/],
    ['a default export that is none', `export default 5;`, /: the default export is no handler: export/],
    ['no handle', `export default { on: '*' };`, /handle: is required: an async function of the event and ctx/],
    ['a field of another kind', `export default { on: '*', handle() {},\n timeoutMs: '1' };`, /ts:2: timeoutMs: /],
    ['an unknown field', `export default { on: '*', handle() {},\n history: true };`, /:2: history: is no field/],
    [
      'strict order without a key',
      `export default { on: '*', order: 'strict', handle() {} };`,
      /needs API_BASE_URL and/,
    ],
  ])('%s', async (_, text, fault) => {
    const { faults, handlers, files } = await load({
      'greet.ts': text,
      'other.ts': GOOD,
      '_shared.ts': `\nthrow new Error('broken');`,
    });
    expect(faults).toEqual([expect.stringMatching(fault)]);
    expect(handlers.map(({ name }) => name)).toEqual(['other']);
    expect(files).toMatchObject([{ name: 'greet' }, { name: 'other' }]);
  });

  test('two handlers of one name: the second', async () => {
    const { faults, files } = await load({ 'a.ts': GOOD.replace('on:', `name: 'b', on:`), 'b.ts': GOOD });
    expect(faults).toEqual(['b.ts: is named b, like a.ts: give it another name']);
    expect(files).toMatchObject([{ name: 'b' }, { name: 'b.ts' }]);
  });

  test('a file that ended a process is not loaded again', async () => {
    const { faults, handlers } = await load({ 'a.ts': GOOD, 'b.ts': GOOD }, { without: ['a.ts'] });
    expect(faults).toEqual(['a.ts: it ended its process (SIGKILL)']);
    expect(handlers).toHaveLength(1);
  });

  test('a folder that does not exist', async () => {
    const { error } = await load({}, { folder: '/nowhere/handlers' });
    expect(error).toContain('HANDLERS_DIR cannot be read: /nowhere/handlers: create it, or name another');
  });
});
