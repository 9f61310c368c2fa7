// A handler's file that cannot be used, whatever it does: at the first start everything is refused and named; at a reload
// the old handlers go on; at a restart its handler waits, and misses nothing.
import { renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, describe, expect, test } from 'vitest';
import { createKit, deliver, makeEvent, until, type Kit } from './kit.ts';

let kit: Kit;
afterEach(() => kit.remove());

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

const setup = (body: string): string => `export default { on: '*', ${body}, handle() {} };`;

interface Deed {
  source: string;
  /** Where the fault is named, behind the file. */
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
  'blocks while it is loaded': { source: `for (;;);`, line: ': ', words: /blocked its process while it was loaded/ },
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
  'has an asynchronous setup': {
    source: setup('async setup() { await null; throw new Error("x"); }'),
    line: ': ',
    words: /must not be async/,
  },
  'ends the process in its setup': {
    source: setup(`setup() {\nprocess.exit(3); }`),
    line: ':2: ',
    words: /exit code 3.*setup/,
  },
  'blocks in its setup': {
    source: setup('setup() { for (;;); }'),
    line: ': ',
    words: /blocked its process during its setup/,
  },
  'has no default export': { source: `export const x = 1;`, line: ': ', words: /no default export/ },
};

const file = (name: string): string => join(kit.folder, 'handlers', `${name}.ts`);

interface Alarm {
  name: string;
  detail: string;
}

const alarms = (): Alarm[] => kit.query<Alarm>('select name, detail from alarms where cleared = 0');
const keys = (table: string): string[] =>
  kit.query<{ key: string }>(`select key from ${table} order by n`).map(({ key }) => key);
const lines = (words: string): number => kit.output().split(words).length - 1;

function crash(): void {
  const pid = kit.pid('run');
  if (pid) process.kill(pid, 'SIGKILL');
}

test('E60: at the first start all faulty files are named with their line, and nothing starts', async () => {
  const names = Object.keys(DEEDS);
  const sources = Object.fromEntries(names.map((deed, n) => [`deed${n}`, DEEDS[deed]?.source ?? '']));
  // A set-up is tried once its file has loaded: those of load are all told at once, then those of set-ups.
  const stages = [names.filter((deed) => !deed.includes('setup')), names.filter((deed) => deed.includes('setup'))];
  for (const stage of stages) {
    kit = await createKit({ good: handler('good') });
    for (const deed of stage) kit.addHandler(`deed${names.indexOf(deed)}`, sources[`deed${names.indexOf(deed)}`] ?? '');
    await expect(kit.start()).rejects.toThrow('the kit ended with 78');
    for (const deed of stage) {
      const said = kit
        .output()
        .split('\n')
        .filter((one) => one.includes(`deed${names.indexOf(deed)}.ts`));
      expect(said, deed).toHaveLength(1);
      expect(said[0]).toContain(`${file(`deed${names.indexOf(deed)}`)}${DEEDS[deed]?.line}`);
      expect(said[0]).toMatch(DEEDS[deed]?.words ?? /./);
    }
    expect(kit.output()).not.toContain('good.ts');
    await kit.remove();
  }
});

describe.each(Object.entries(DEEDS))('E60: a file that %s', (_, { source, line, words }) => {
  test('replaces nothing at a reload, and its handler waits at a restart', async () => {
    kit = await createKit({ good: handler('good'), bad: handler('bad') });
    await kit.start();
    expect(await deliver(kit, makeEvent(1))).toBe(204);
    await until(() => keys('good').length === 1 && keys('bad').length === 1);
    const before = kit.pid('run');

    kit.addHandler('bad', source);
    kit.signal('SIGHUP');
    await until(() => lines('the old ones go on') === 1, 60_000);
    expect(kit.output()).toContain(`${file('bad')}${line}`);
    expect(kit.output()).toMatch(words);
    expect(kit.output()).not.toContain('run has started again');
    expect(kit.pid('run')).toBe(before);
    await deliver(kit, makeEvent(2));
    await until(() => keys('bad').length === 2);
    await until(() => alarms().some(({ name, detail }) => name === 'handler_failing' && detail.includes('bad.ts')));

    crash();
    await until(() => lines('wait until they can be loaded') === 1, 60_000);
    for (let n = 3; n < 9; n++) await deliver(kit, makeEvent(n, 1));
    await until(() => keys('good').length === 8);
    expect(keys('bad')).toHaveLength(2);

    await until(() => alarms().some(({ detail }) => detail.includes('handler bad waits, the others go on')));
    crash();
    await until(
      () => kit.query("select 1 from processes where role = 'run'").length === 1 && kit.pid('run') !== before,
    );

    kit.addHandler('bad', handler('bad'));
    kit.signal('SIGHUP');
    await until(() => lines('run has started again') === 1, 60_000);
    await until(() => keys('bad').length === 8);
    expect(keys('bad').slice(2)).toEqual([1_003, 1_004, 1_005, 1_006, 1_007, 1_008].map((n) => `c:${n}`));
    expect(lines('wait until they can be loaded')).toBe(1);
    await until(() => alarms().length === 0 || !alarms().some(({ detail }) => detail.includes('bad.ts')));
  });
});

test('E60: a handler that waits waits through a stop and a start, and what a crash interrupted is still its task', async () => {
  kit = await createKit({ good: handler('good'), bad: handler('bad') });
  await kit.start();
  await deliver(kit, makeEvent(1));
  await until(() => keys('bad').length === 1);
  kit.addHandler('bad', 'export default {');
  crash();
  await until(() => lines('wait until they can be loaded') === 1);
  await deliver(kit, makeEvent(2));
  await until(() => keys('good').length === 2);
  await kit.stop();
  await expect(kit.start()).rejects.toThrow('the kit ended with 78');
  kit.addHandler('bad', handler('bad'));
  await kit.start();
  await deliver(kit, makeEvent(3));
  await until(() => keys('bad').length === 3);
  expect(keys('bad')).toEqual(['c:1001', 'c:1002', 'c:1003']);
});

test('E60: a file that is renamed while it is broken keeps the handler that names itself; a deleted one is gone', async () => {
  const named = handler('bad').replace('export default {', `export default { name: 'mine',`);
  kit = await createKit({ good: handler('good'), bad: named, gone: handler('gone') });
  await kit.start();
  await deliver(kit, makeEvent(1));
  await until(() => keys('bad').length === 1 && keys('gone').length === 1);
  renameSync(file('bad'), file('better'));
  kit.addHandler('better', 'export default {');
  crash();
  await until(() => lines('wait until they can be loaded') === 1);
  await deliver(kit, makeEvent(2));
  await until(() => keys('gone').length === 2);
  rmSync(file('gone'));
  kit.addHandler('better', named);
  kit.signal('SIGHUP');
  await until(() => lines('run has started again') === 1);
  await until(() => keys('bad').length === 2);
  await deliver(kit, makeEvent(3));
  await until(() => keys('bad').length === 3);
  expect(keys('bad')).toEqual(['c:1001', 'c:1002', 'c:1003']);
  kit.addHandler('gone', handler('gone'));
  kit.signal('SIGHUP');
  await until(() => lines('run has started again') === 2);
  await deliver(kit, makeEvent(4));
  await until(() => keys('gone').length === 3);
  expect(keys('gone')).toEqual(['c:1001', 'c:1002', 'c:1004']);
});

test('E60: a file whose top level ends the process long after it was loaded takes no other with it', async () => {
  const later = handler('bad', 'setTimeout(() => {\n  if (process.argv.length > 0) process.exit(4); }, 1_500);');
  kit = await createKit({ good: handler('good'), bad: later });
  await kit.start();
  await until(() => lines('wait until they can be loaded') === 1, 60_000);
  expect(kit.output()).toMatch(/bad\.ts:3: ended its process \(exit code 4/);
  await deliver(kit, makeEvent(1));
  await until(() => keys('good').length === 1);
  kit.addHandler('bad', handler('bad'));
  kit.signal('SIGHUP');
  await until(() => keys('bad').length === 1);
});

test('E61: a type that src/events.ts does not know is told at load, with the nearest, and refused nowhere', async () => {
  kit = await createKit({ slip: `export default { on: ['MesageReceived', 'Other'], handle() {} };` });
  await kit.start();
  const said = (): string[] =>
    kit
      .output()
      .split('\n')
      .filter((one) => one.includes('src/events.ts'));
  await until(() => said().length === 2);
  expect(said()[0]).toMatch(/"handler":"slip","type":"MesageReceived","nearest":"MessageReceived"/);
  expect(said()[1]).toMatch(/"type":"Other"/);
  expect(said()[1]).not.toContain('nearest');
  kit.signal('SIGHUP');
  await until(() => said().length === 4);
});

const MISDEEDS: [string, string, RegExp][] = [
  ['exits', 'process.exit(7)', /"code":7.*bad\.ts:5/],
  ['exits in a callback', 'await new Promise(() => setTimeout(() => process.exit(7), 5))', /"code":7.*bad\.ts:5/],
  ['loops', 'for (;;);', /stood still/],
  ['is killed', `process.kill(process.pid, 'SIGKILL')`, /SIGKILL/],
];

describe.each(MISDEEDS)('E42, E62: a handler that %s', (_, deed, words) => {
  test('is named by log, task and list with its key, and ends as a dead letter after three', async () => {
    const source = `\n\n\nexport default { on: 'MessageReceived', order: 'arrival', lane: 'none', retry: { attempts: 20, firstMs: 10, maxMs: 20 },
      async handle(event, ctx) { if (event.data.body === 'poison') ${deed}; } };`;
    kit = await createKit({ bad: source, good: handler('good') });
    await kit.start();
    await deliver(kit, { ...makeEvent(1), body: 'poison' });
    const task = `select t.state, t.attempts, t.error from tasks t join handlers h on h.id = t.handler where h.name = 'bad'`;
    await until(() => kit.query<{ state: string }>(task)[0]?.state === 'dead', 90_000);
    const [{ attempts, error } = { attempts: 0, error: '' }] = kit.query<{ attempts: number; error: string }>(task);
    expect(attempts).toBeLessThanOrEqual(4);
    expect(error).toMatch(/^its process died 3 times: /);
    expect(kit.output()).toMatch(words);
    const named = kit
      .output()
      .split('\n')
      .filter((one) => one.includes('"handler":"bad"') && one.includes('"key":"c:1001"'));
    expect(named.length).toBeGreaterThanOrEqual(3);
    expect(kit.query("select 1 from tasks where state = 'done'")).toHaveLength(1);
  });
});

test('E62: a rejection and an exception after the attempt has ended name handler and key', async () => {
  const late = (deed: string): string =>
    `export default { on: 'MessageReceived', order: 'arrival', handle() { setTimeout(() => { ${deed} }, 20); } };`;
  kit = await createKit({ rejects: late(`void Promise.reject(new Error('a'));`) });
  await kit.start();
  await deliver(kit, makeEvent(1));
  await until(() => lines('rejection unhandled') === 1);
  expect(kit.output()).toMatch(/"handler":"rejects","key":"c:1001","error":"Error","at":".*rejects\.ts:1"/);
  kit.addHandler('rejects', late(`throw new Error('b');`));
  kit.signal('SIGHUP');
  await until(() => lines('run has started again') === 1);
  await deliver(kit, makeEvent(2));
  await until(() => lines('nobody caught') === 1);
  expect(kit.output()).toMatch(/"handler":"rejects","key":"c:1002".*nobody caught/);
});
