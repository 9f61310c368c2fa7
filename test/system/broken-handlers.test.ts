// Handler files that cannot be used. At the first start, the kit names every such file and starts nothing. At a reload,
// the old handlers stay. When `run` restarts, the handler of such a file waits for a fix and misses no event.
import { renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { createKit, deliver, makeEvent, until, type Kit } from './kit.ts';

const handler = (table: string, more = ''): string => `
${more}
export default {
  on: 'MessageReceived', order: 'arrival', retry: { attempts: 3, firstMs: 10, maxMs: 20 },
  setup(tx) { tx.run('create table if not exists ${table} (n integer primary key, key text)'); },
  async handle(event, ctx) {
    if (event.data.body === 'exit') process.exit(9);
    await ctx.complete((tx) => tx.run('insert into ${table} (key) values (?)', event.key));
  },
};
`;

/** Blocks its process as a loop does, but leaves the processor to others. Loops are in handlers.test.ts. */
const BLOCK = 'Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);';

const setup = (body: string): string => `export default { on: '*', ${body}, handle() {} };`;

interface Deed {
  source: string;
  /** The location of the fault, as printed after the file's name. */
  line: string;
  words: RegExp;
}

const DEEDS: Record<string, Deed> = {
  'has a slip': { source: `export default {\n  on: };`, line: ':2: ', words: /SyntaxError/ },
  'throws while it is loaded': { source: `\nthrow new Error('no queue');`, line: ':2: ', words: /no queue/ },
  'rejects at its top level': { source: `\n\nawait Promise.reject(new Error('no'));`, line: ':3: ', words: /no/ },
  'leaves a rejection unawaited': {
    source: `\nvoid Promise.reject(new Error('astray'));\n${setup('lane: "none"')}`,
    line: ':2: ',
    words: /astray/,
  },
  'ends the process while it is loaded': { source: `\nprocess.exit(0);`, line: ':2: ', words: /exit code 0.*loaded/ },
  'throws in a callback while it is loaded': {
    source: `setImmediate(() => {\n  throw new Error('later'); });\nawait new Promise((resolve) => setTimeout(resolve, 50));\n${setup('lane: "none"')}`,
    line: ':2: ',
    words: /later/,
  },
  'blocks while it is loaded': { source: BLOCK, line: ': ', words: /blocked its process while it was loaded/ },
  'never ends to load': { source: `await new Promise(() => {});`, line: ': ', words: /did not load within 10 s/ },
  'puts a clock of its own in place of all': {
    source: `\nDate.now = () => 0;\n${setup('lane: "none"')}`,
    line: ':2: ',
    words: /read only|assign/,
  },
  'replaces what others use': {
    source: `\n\nglobalThis.setTimeout = () => {};\n${setup('lane: "none"')}`,
    line: ':3: ',
    words: /read only|assign/,
  },
  'has a setup that throws': {
    source: setup(`\nsetup() { throw new Error('no table'); }`),
    line: ':2: ',
    words: /no table/,
  },
  'has a setup that fails in SQL': {
    source: setup(`setup(tx) {\ntx.run('create tabel x (y)'); }`),
    line: ':2: ',
    words: /tabel/,
  },
  'has a step of its setup that fails': {
    source: setup(`setup: ['create table y (z)',\n(tx) => tx.run('create tabel x (y)')]`),
    line: ':2: ',
    words: /failed in step 2: .*tabel/,
  },
  'has SQL in its setup that fails': {
    source: setup(`setup: ['create table z (y)', 'create tabel x (y)']`),
    line: ': setup of handler ',
    words: /failed in step 2: .*tabel/,
  },
  'awaits a timer in its setup': {
    source: setup('async setup() { await new Promise((resolve) => setTimeout(resolve, 1)); }'),
    line: ': ',
    words: /only tx may be awaited/,
  },
  'ends the process in its setup': {
    source: setup(`setup() {\nprocess.exit(3); }`),
    line: ':2: ',
    words: /exit code 3.*setup/,
  },
  'blocks in its setup': {
    source: setup(`setup() { ${BLOCK} }`),
    line: ': ',
    words: /blocked its process during its setup/,
  },
  'has no default export': { source: `export const x = 1;`, line: ': ', words: /no default export/ },
};

interface Alarm {
  name: string;
  detail: string;
}

/** Creates a kit, which `atEnd` removes. The tests run concurrently, because they mostly wait. */
async function stage(sources: Record<string, string>, atEnd: (work: () => Promise<void>) => void) {
  const kit: Kit = await createKit(sources);
  atEnd(() => kit.remove());
  return {
    kit,
    file: (name: string): string => join(kit.folder, 'handlers', `${name}.ts`),
    alarms: (): Alarm[] => kit.query<Alarm>('select name, detail from alarms where cleared = 0'),
    keys: (table: string): string[] =>
      kit.query<{ key: string }>(`select key from ${table} order by n`).map(({ key }) => key),
    lines: (words: string): number => kit.output().split(words).length - 1,
    /** Kills `run`. Resolves to its pid. */
    async crash(): Promise<number> {
      const pid = await kit.alive('run');
      process.kill(pid, 'SIGKILL');
      return pid;
    },
  };
}

test.concurrent('E60: the first start names all faulty files with their line, and starts nothing', async ({
  onTestFinished,
}) => {
  const names = Object.keys(DEEDS);
  const sources = Object.fromEntries(names.map((deed, n) => [`deed${n}`, DEEDS[deed]?.source ?? '']));
  // `setup` functions run only if every file has loaded. So one kit names all files that fail to load, and another kit
  // those that fail in `setup`.
  const stages = [names.filter((deed) => !deed.includes('setup')), names.filter((deed) => deed.includes('setup'))];
  for (const part of stages) {
    const it = await stage({ good: handler('good') }, onTestFinished);
    for (const deed of part)
      it.kit.addHandler(`deed${names.indexOf(deed)}`, sources[`deed${names.indexOf(deed)}`] ?? '');
    await expect(it.kit.start()).rejects.toThrow('the kit ended with 78');
    for (const deed of part) {
      const said = it.kit
        .output()
        .split('\n')
        .filter((one) => one.includes(`deed${names.indexOf(deed)}.ts`));
      expect(said, deed).toHaveLength(1);
      expect(said[0]).toContain(`${it.file(`deed${names.indexOf(deed)}`)}${DEEDS[deed]?.line}`);
      expect(said[0]).toMatch(DEEDS[deed]?.words ?? /./);
    }
    expect(it.kit.output()).not.toContain('good.ts');
  }
});

/** The failures that the test of reloads takes from DEEDS. The test of the first start takes all of them. */
const WAYS = ['slip', 'unawaited', 'ends the process', 'blocks', 'never ends', 'setup that throws'];
const chosen = Object.entries(DEEDS).filter(([deed]) => WAYS.some((way) => deed.includes(way)));

test.concurrent.for(chosen)(
  'E60: a file that %s does not replace its handler at a reload, and the handler waits when run restarts',
  async ([, { source, line, words }], { onTestFinished }) => {
    const it = await stage({ good: handler('good'), bad: handler('bad') }, onTestFinished);
    await it.kit.start();
    expect(await deliver(it.kit, makeEvent(1))).toBe(204);
    await until(() => it.keys('good').length === 1 && it.keys('bad').length === 1);
    const before = await it.kit.alive('run');

    it.kit.addHandler('bad', source);
    it.kit.signal('SIGHUP');
    await until(() => it.lines('the old handlers keep running') === 1);
    expect(it.kit.output()).toContain(`${it.file('bad')}${line}`);
    expect(it.kit.output()).toMatch(words);
    expect(it.kit.output()).not.toContain('run has restarted');
    expect(it.kit.pid('run')).toBe(before);
    await deliver(it.kit, makeEvent(2));
    await until(() => it.keys('bad').length === 2);
    await until(() => it.alarms().some(({ name, detail }) => name === 'handler_failing' && detail.includes('bad.ts')));

    await it.crash();
    await until(() => it.lines('wait until they can be loaded') === 1);
    for (let n = 3; n < 9; n++) await deliver(it.kit, makeEvent(n, 1));
    await until(() => it.keys('good').length === 8);
    expect(it.keys('bad')).toHaveLength(2);

    await until(() => it.alarms().some(({ detail }) => detail.includes('handler bad waits, the others go on')));
    await it.kit.alive('run', await it.crash());

    it.kit.addHandler('bad', handler('bad'));
    it.kit.signal('SIGHUP');
    await until(() => it.lines('run has restarted') === 1);
    await until(() => it.keys('bad').length === 8);
    expect(it.keys('bad').slice(2)).toEqual([1_003, 1_004, 1_005, 1_006, 1_007, 1_008].map((n) => `c:${n}`));
    expect(it.lines('wait until they can be loaded')).toBe(1);
    await until(() => it.alarms().length === 0 || !it.alarms().some(({ detail }) => detail.includes('bad.ts')));
  },
);

test.concurrent('E60: a waiting handler misses no event over a restart of the kit, and keeps the task that a crash interrupted', async ({
  onTestFinished,
}) => {
  const it = await stage({ good: handler('good'), bad: handler('bad') }, onTestFinished);
  await it.kit.start();
  await deliver(it.kit, makeEvent(1));
  await until(() => it.keys('bad').length === 1);
  it.kit.addHandler('bad', 'export default {');
  await it.crash();
  await until(() => it.lines('wait until they can be loaded') === 1);
  await deliver(it.kit, makeEvent(2));
  await until(() => it.keys('good').length === 2);
  await it.kit.stop();
  await expect(it.kit.start()).rejects.toThrow('the kit ended with 78');
  it.kit.addHandler('bad', handler('bad'));
  await it.kit.start();
  await deliver(it.kit, makeEvent(3));
  await until(() => it.keys('bad').length === 3);
  expect(it.keys('bad')).toEqual(['c:1001', 'c:1002', 'c:1003']);
});

test.concurrent('E60: a broken file that is renamed keeps its handler if the handler has a name; a deleted handler is gone', async ({
  onTestFinished,
}) => {
  const named = handler('bad').replace('export default {', `export default { name: 'mine',`);
  const it = await stage({ good: handler('good'), bad: named, gone: handler('gone') }, onTestFinished);
  await it.kit.start();
  await deliver(it.kit, makeEvent(1));
  await until(() => it.keys('bad').length === 1 && it.keys('gone').length === 1);
  renameSync(it.file('bad'), it.file('better'));
  it.kit.addHandler('better', 'export default {');
  await it.crash();
  await until(() => it.lines('wait until they can be loaded') === 1);
  await deliver(it.kit, makeEvent(2));
  await until(() => it.keys('gone').length === 2);
  rmSync(it.file('gone'));
  it.kit.addHandler('better', named);
  it.kit.signal('SIGHUP');
  await until(() => it.lines('run has restarted') === 1);
  await until(() => it.keys('bad').length === 2);
  await deliver(it.kit, makeEvent(3));
  await until(() => it.keys('bad').length === 3);
  expect(it.keys('bad')).toEqual(['c:1001', 'c:1002', 'c:1003']);
  it.kit.addHandler('gone', handler('gone'));
  it.kit.signal('SIGHUP');
  await until(() => it.lines('run has restarted') === 2);
  await deliver(it.kit, makeEvent(4));
  await until(() => it.keys('gone').length === 3);
  expect(it.keys('gone')).toEqual(['c:1001', 'c:1002', 'c:1004']);
});

test.concurrent('E60: a file whose top level ends the process long after loading stops no other handler', async ({
  onTestFinished,
}) => {
  const look =
    "import { existsSync } from 'node:fs'; setInterval(() => {\n  if (existsSync('end')) process.exit(4); }, 20);";
  const it = await stage({ good: handler('good'), bad: handler('bad', look) }, onTestFinished);
  await it.kit.start();
  writeFileSync(join(it.kit.folder, 'end'), '');
  await until(() => it.lines('wait until they can be loaded') === 1);
  expect(it.kit.output()).toMatch(/bad\.ts:3: ended its process \(exit code 4/);
  await deliver(it.kit, makeEvent(1));
  await until(() => it.keys('good').length === 1);
  it.kit.addHandler('bad', handler('bad'));
  it.kit.signal('SIGHUP');
  await until(() => it.keys('bad').length === 1);
});

test.concurrent('E61: a type that is missing in src/events.ts is logged at load with the nearest known type, and not refused', async ({
  onTestFinished,
}) => {
  const it = await stage({ slip: `export default { on: ['MesageReceived', 'Other'], handle() {} };` }, onTestFinished);
  await it.kit.start();
  const said = (): string[] =>
    it.kit
      .output()
      .split('\n')
      .filter((one) => one.includes('src/events.ts'));
  await until(() => said().length === 2);
  expect(said()[0]).toMatch(/"handler":"slip","type":"MesageReceived","nearest":"MessageReceived"/);
  expect(said()[1]).toMatch(/"type":"Other"/);
  expect(said()[1]).not.toContain('nearest');
  it.kit.signal('SIGHUP');
  await until(() => said().length === 4);
});

const MISDEEDS: [string, string, RegExp][] = [
  ['exits', 'process.exit(7)', /"code":7.*bad\.ts:5/],
  ['exits in a callback', 'await new Promise(() => setTimeout(() => process.exit(7), 5))', /"code":7.*bad\.ts:5/],
  ['blocks', BLOCK, /blocked its event loop/],
  ['is killed', `process.kill(process.pid, 'SIGKILL')`, /SIGKILL/],
];

test.concurrent.for(MISDEEDS)(
  'E42, E62: a handler that %s is named by the log and the task, which becomes a dead letter when its process has died three times',
  async ([, deed, words], { onTestFinished }) => {
    const source = `\n\n\nexport default { on: 'MessageReceived', order: 'arrival', lane: 'none', retry: { attempts: 20, firstMs: 10, maxMs: 20 },
    async handle(event, ctx) { if (event.data.body === 'poison') ${deed}; } };`;
    const it = await stage({ bad: source, good: handler('good') }, onTestFinished);
    await it.kit.start();
    await deliver(it.kit, { ...makeEvent(1), body: 'poison' });
    const task = `select t.state, t.attempts, t.error from tasks t join handlers h on h.id = t.handler where h.name = 'bad'`;
    await until(() => it.kit.query<{ state: string }>(task)[0]?.state === 'dead');
    const [{ attempts, error } = { attempts: 0, error: '' }] = it.kit.query<{ attempts: number; error: string }>(task);
    expect(attempts).toBeLessThanOrEqual(4);
    expect(error).toMatch(/^its process died 3 times: /);
    expect(it.kit.output()).toMatch(words);
    const isNamed = (one: string): boolean => one.includes('"handler":"bad"') && one.includes('"key":"c:1001"');
    // The log follows the commit.
    await until(() => it.kit.output().split('\n').filter(isNamed).length >= 3);
    expect(it.kit.query("select 1 from tasks where state = 'done'")).toHaveLength(1);
  },
);

test.concurrent('E62: a rejection and an exception after the attempt has ended are logged with handler and key', async ({
  onTestFinished,
}) => {
  const late = (deed: string): string =>
    `export default { on: 'MessageReceived', order: 'arrival', handle() { setTimeout(() => { ${deed} }, 20); } };`;
  const it = await stage({ rejects: late(`void Promise.reject(new Error('a'));`) }, onTestFinished);
  await it.kit.start();
  await deliver(it.kit, makeEvent(1));
  await until(() => it.lines('rejection unhandled') === 1);
  expect(it.kit.output()).toMatch(/"handler":"rejects","key":"c:1001","error":"Error","at":".*rejects\.ts:1"/);
  it.kit.addHandler('rejects', late(`throw new Error('b');`));
  it.kit.signal('SIGHUP');
  await until(() => it.lines('run has restarted') === 1);
  await deliver(it.kit, makeEvent(2));
  await until(() => it.lines('uncaught exception') === 1);
  expect(it.kit.output()).toMatch(/"handler":"rejects","key":"c:1002".*uncaught exception/);
});
