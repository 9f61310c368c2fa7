// Runs `npx kit reload` as people do, against a real receiver. The command reports the outcome, and stops nothing.
import { execFile, spawn } from 'node:child_process';
import { chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { startOf } from '../../src/base/process-start.ts';
import { openSqlite } from '../../src/store/sqlite/open.ts';
import { createKit, deliver, makeEvent, SECRET, until, type Kit } from '../system/kit.ts';

const KIT = `${process.cwd()}/src/cli/kit.js`;
const NEW = 'whsec_of_the_time_after_the_reload';
const handler = (name: string): string => `export default { name: '${name}', on: 'MessageSent', handle() {} };`;

interface Told {
  code: number;
  out: string;
  err: string;
}

/** Runs the command on this store, as another user if `uid` is given. */
function reload(path: string, args: string[] = [], uid?: number): Promise<Told> {
  const env = { PATH: process.env['PATH'], DATABASE_URL: `sqlite:${path}`, PORT: '1' };
  return new Promise((done) => {
    const options = { env, cwd: '/', ...(uid !== undefined && { uid }) };
    const child = execFile(process.execPath, [KIT, 'reload', ...args], options, (_, out, err) =>
      done({ code: child.exitCode ?? -1, out, err }),
    );
  });
}

describe('a receiver that runs', () => {
  let kit: Kit;
  const ask = (...args: string[]): Promise<Told> => reload(join(kit.folder, 'events.db'), args);
  beforeAll(async () => {
    kit = await createKit({ one: handler('one') }, { WEBHOOK_SECRET: '', WEBHOOK_SECRET_FILE: 'secret' });
    writeFileSync(join(kit.folder, 'secret'), SECRET);
    await kit.start();
  });
  afterAll(() => kit.remove());
  afterEach(() => rmSync(join(kit.folder, 'handlers', 'broken.ts'), { force: true }));

  test('E64: reads handlers and secrets again, and the command prints the number of handlers and the time', async () => {
    kit.addHandler('two', handler('two'));
    writeFileSync(join(kit.folder, 'secret'), `${NEW},${SECRET}`);
    expect(await ask()).toEqual({ code: 0, out: expect.stringMatching(/^reloaded 2 handlers in \d+ ms\n$/), err: '' });
    expect(await deliver(kit, makeEvent(1), [NEW])).toBe(204);
    const { code, out } = await ask('--json');
    expect({ code, told: JSON.parse(out) as object }).toEqual({
      code: 0,
      told: { reloaded: true, handlers: ['one', 'two'], ms: expect.any(Number), faults: [], restart: [], warnings: [] },
    });
  });

  test('E64: a handler with a fault is named with file and line, and the old handlers go on', async () => {
    kit.addHandler('broken', "export default {\n  on: 'Never',\n  handle() {\n};");
    const { code, out, err } = await ask();
    expect({ code, out }).toEqual({ code: 1, out: '' });
    expect(err).toMatch(/broken\.ts:\d+/);
    expect(err).toContain('the old handlers go on');
    const json = await ask('--json');
    expect(json.code).toBe(1);
    expect(JSON.parse(json.out)).toMatchObject({ reloaded: false, faults: [expect.stringMatching(/broken\.ts:\d+/)] });
    expect(await deliver(kit, makeEvent(2))).toBe(204);
  });

  test('E64: a fault of the configuration is named, and the old configuration stays in force', async () => {
    writeFileSync(join(kit.folder, 'secret'), 'none');
    const { code, err } = await ask();
    writeFileSync(join(kit.folder, 'secret'), `${NEW},${SECRET}`);
    expect(code).toBe(1);
    expect(err).toContain('WEBHOOK_SECRET');
    expect(err).toContain('the old configuration stays in force');
    expect(await deliver(kit, makeEvent(3))).toBe(204);
  });

  test('a .env that cannot be read is named, and the old configuration stays in force', async () => {
    const path = join(kit.folder, '.env');
    mkdirSync(path);
    const { code, err } = await ask();
    rmSync(path, { recursive: true });
    expect(code).toBe(1);
    expect(err).toContain(`${path} cannot be read`);
    expect(await deliver(kit, makeEvent(3), [SECRET])).toBe(204);
    expect((await ask()).code).toBe(0);
  });

  test('E64: each command gets the outcome of a reload that began after its request', async () => {
    const names = ['three', 'four', 'five', 'six'];
    const told = await Promise.all(
      names.map((name) => {
        kit.addHandler(name, handler(name));
        return ask('--json');
      }),
    );
    for (const [n, { code, out }] of told.entries()) {
      expect(code).toBe(0);
      expect((JSON.parse(out) as { handlers: string[] }).handlers).toContain(names[n]);
    }
  });
});

test('the answer names what the reload found odd: an unknown type, a lost step of setup, and a handler that is gone while tasks wait', async () => {
  const failing = `export default { on: 'MessageReceived', handle() { throw new Error('not yet'); } };`;
  const slip = (...steps: string[]) =>
    `export default { on: 'MessageRecieved', setup: ${JSON.stringify(steps)}, handle() {} };`;
  const first = 'create table first (n bigint)';
  const kit = await createKit({ ticket: failing, slip: slip(first, 'create table second (n bigint)') });
  await kit.start();
  expect(await deliver(kit, makeEvent(1))).toBe(204);
  await until(() => kit.query('select 1 from tasks where attempts > 0').length === 1);
  rmSync(join(kit.folder, 'handlers', 'ticket.ts'));
  kit.addHandler('slip', slip(first));
  const path = join(kit.folder, 'events.db');
  const { code, out } = await reload(path);
  expect(code).toBe(0);
  expect(out).toMatch(/^reloaded 1 handler in \d+ ms$/m);
  expect(out).toMatch(
    /slip\.ts:1: slip is on "MessageRecieved", which is not in src\/events\.ts: did you mean MessageReceived\?$/m,
  );
  const gone = 'ticket is gone, 1 task waits: npx kit tasks move --from ticket --to <name>';
  expect(out).toContain(
    `slip: more steps of setup have run than this file has, as after a return to an older release\n${gone}\n`,
  );
  const json = JSON.parse((await reload(path, ['--json'])).out) as { warnings: string[] };
  expect(json.warnings).toEqual([
    expect.stringContaining('slip is on'),
    expect.stringContaining('slip: more steps'),
    gone,
  ]);
  await kit.remove();
});

test('E64: the signal does not end a kit that is still starting; the kit reloads after its start', async () => {
  const kit = await createKit({ one: handler('one') });
  const started = kit.start();
  await until(() => catches(kit.main() ?? 0, 12));
  expect(kit.output()).not.toContain('ready for deliveries');
  kit.signal('SIGUSR2');
  await started;
  await until(() => kit.output().includes('secrets and handlers reloaded'));
  await kit.remove();
});

describe('no receiver to reload', () => {
  let folder: string;
  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), 'kit-reload-'));
    chmodSync(folder, 0o777);
  });
  afterAll(() => rmSync(folder, { recursive: true }));

  async function plant(pid: number, started: string): Promise<string> {
    const path = join(folder, `${pid}.db`);
    const store = openSqlite(path, { owner: true });
    if (pid > 0) await store.processes.beat({ role: 'receive', pid, started, boot: 0 }, Date.now());
    store.close();
    chmodSync(path, 0o666);
    return path;
  }

  test.each([
    ['no receiver ever ran', 0, ''],
    ['one was killed, and its number is another process now', process.pid, 'long ago'],
    ['one was killed', 4_194_303, '1'],
  ])('E64: %s: exit 69, and no process is signalled', async (_, pid, started) => {
    const { code, err } = await reload(await plant(pid, started));
    expect({ code, err }).toEqual({ code: 69, err: expect.stringContaining('no receiver on this store') });
    expect(err).toContain('npm start');
  });

  test('E64: no store: exit 69', async () => {
    expect(await reload(join(folder, 'none.db'))).toMatchObject({ code: 69 });
  });

  test("E64: another user's receiver: the command names the user", async () => {
    const path = await plant(1, startOf(1));
    const { code, err } = await reload(path, [], process.getuid?.() === 0 ? 65_534 : undefined);
    expect({ code, err }).toEqual({
      code: 1,
      err: expect.stringMatching(/process 1, which receives, is of user root: run this as that user/),
    });
  });

  test('E64: a receiver that ends instead of reloading: the command says so', async () => {
    const mute = spawn('sleep', ['60']);
    try {
      const path = await plant(mute.pid ?? 0, startOf(mute.pid ?? 0));
      expect(await reload(path)).toMatchObject({
        code: 1,
        err: expect.stringContaining('ended before it had reloaded'),
      });
    } finally {
      mute.kill('SIGKILL');
    }
  });
});

/** Whether the process has a handler for this signal. */
function catches(pid: number, signal: number): boolean {
  try {
    const mask = /^SigCgt:\s*([0-9a-f]+)$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1] ?? '0';
    return ((BigInt(`0x${mask}`) >> BigInt(signal - 1)) & 1n) === 1n;
  } catch {
    return false;
  }
}
