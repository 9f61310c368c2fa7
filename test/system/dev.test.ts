// `npm run dev` as a process: it makes events and reloads saved handlers. A broken handler does not stop the others.
import { spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join, resolve } from 'node:path';
import { afterEach, expect, test } from 'vitest';
import { startDev, type DevKit } from './dev-kit.ts';
import { dataOf, freePort, makeEvent, until } from './kit.ts';

const handler = (word: string): string =>
  `export default { on: '*', order: 'arrival', lane: 'none', handle() { console.log('${word}'); } };`;

let kit: DevKit;
const start = async (files: Record<string, string>, args: string[] = [], env = {}): Promise<DevKit> =>
  (kit = await startDev(files, ['--traffic', ...args], env));
afterEach(() => kit.remove());

test('a saved handler is loaded; a broken one is named, the others go on, and a saved fix is loaded', async () => {
  await start({ 'one.ts': handler('one, first'), 'two.ts': handler('two') });
  await kit.says(/c:\d+ +MessageReceived +- +one +done +\d+/);
  kit.save('one.ts', handler('one, second'));
  await kit.says(/^one, second$/m);
  kit.save('one.ts', 'export default { on: };');
  await kit.says(/^broken +handlers\/one\.ts:1: SyntaxError/m);
  await kit.says(/^two$/m);
  kit.save('one.ts', handler('one, fixed'));
  await kit.says(/^one, fixed$/m);

  kit.child.kill('SIGINT');
  await until(() => kit.child.exitCode !== null);
  expect(kit.child.exitCode).toBe(0);
  expect(readdirSync(join(kit.folder, 'temp'))).toEqual([]);
  expect(readdirSync(join(kit.folder, 'data'))).toEqual(['dev.db', 'dev.db-dev', 'dev.db-id', 'dev.db-owner']);
});

test(
  'the npx kit commands that npm run dev prints work in another terminal and read its store',
  { timeout: 60_000 },
  async () => {
    const failing =
      "export default { on: '*', order: 'arrival', lane: 'none', retry: { attempts: 1 }, handle() { throw new Error(); } };";
    await start({ 'one.ts': failing }, [], { NO_COLOR: '1' });
    const shell = (line: string): string => {
      const command = line.replace('npx kit', `${process.execPath} ${resolve('src/cli/kit.js')}`);
      const found = spawnSync('sh', ['-c', command], {
        cwd: kit.folder,
        env: { PATH: process.env['PATH'] },
        encoding: 'utf8',
      });
      return `${found.stdout}${found.stderr}`;
    };
    const printed = (after: RegExp): string => after.exec(kit.output())?.[1] ?? `nothing matches ${after}`;
    await until(() => /newest cause/.test(kit.output()));
    expect(shell(printed(/See why \((.*?),/))).toContain('one');
    expect(shell(printed(/then retry them \((.*?)\)/))).toContain('will run again');
    expect(shell(printed(/^look +(.*)$/m))).toContain('MessageReceived');
    const sent = shell(printed(/^send +(.*)$/m));
    expect(sent).toMatch(/^204 for/);
    expect(shell(sent.trim().split('\n').at(-1) ?? '')).toContain('received');
  },
);

test('a file that is broken at the start is named, and a saved fix starts the kit', async () => {
  await start({ 'one.ts': 'export default 1;' });
  await kit.says('it starts again when you save a file');
  expect(kit.output()).toContain('one.ts');
  kit.save('one.ts', handler('one, fixed'));
  await kit.says(/^one, fixed$/m);
});

test('a store that another process serves, or that npm run dev has not made, is left alone', async () => {
  await start({ 'one.ts': handler('one') });
  await kit.page();
  const ports = { PORT: String(await freePort()), OPS_PORT: String(await freePort()) };
  const again = (...args: string[]) =>
    spawnSync(process.execPath, [resolve('src/tools/dev/main.ts'), ...args], {
      cwd: kit.folder,
      env: { PATH: process.env['PATH'], HANDLERS_DIR: join(kit.folder, 'handlers'), ...ports },
      encoding: 'utf8',
      timeout: 30_000,
    });
  const second = again();
  expect([second.status, second.stdout]).toEqual([78, expect.stringContaining('npm run dev -- --store <file>')]);
  await kit.says(/^one$/m);

  const real = join(kit.folder, 'events.db');
  writeFileSync(real, 'a store of npm start');
  const third = again('--store', 'events.db');
  expect([third.status, third.stderr]).toEqual([2, expect.stringContaining('was not made by npm run dev')]);
  expect(readFileSync(real, 'utf8')).toBe('a store of npm start');
});

/** An item of ReplayEvents that happened so many milliseconds ago. */
function itemOf(cursor: number, agoMs: number): { cursor: string; json_payload: string } {
  const { MessageReceived } = dataOf(makeEvent(cursor)) as { MessageReceived: object };
  const at = Date.now() - agoMs;
  return {
    cursor: String(cursor),
    json_payload: JSON.stringify({ MessageReceived: { ...MessageReceived, timestamp_unix_ms: at } }),
  };
}

test('--live: an event of GET /events reaches the handler; paid operations are refused, and the output has no text of senders', async () => {
  const asked: (string | undefined)[] = [];
  const payload = JSON.stringify(dataOf({ ...makeEvent(1), body: 'a secret of Ana' }));
  const service = createServer((request, response) => {
    asked.push(request.url);
    if (request.url === '/v1/events') {
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      response.write(`id: 77\nevent: domain\ndata: ${payload}\n\n`);
    } else if (request.url === '/v1/rpc/ReplayEvents') {
      let body = '';
      request.on('data', (chunk: Buffer) => (body += chunk.toString()));
      request.on('end', () => {
        const events = body.includes('after_cursor') ? [] : [itemOf(70, 3_600_000), itemOf(76, 60_000)];
        const page = { events, next_cursor: '76', has_more: false, reset_required: false };
        response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(page));
      });
    } else response.writeHead(503).end();
  }).listen(0, '127.0.0.1');
  await once(service, 'listening');
  const apiBaseUrl = `http://127.0.0.1:${(service.address() as AddressInfo).port}/v1`;
  const paid = `export default { on: '*', order: 'arrival', async handle(event, ctx) {
    await ctx.service.call('ResumeCampaign', {}).catch((error) => console.log(event.cursor, error.code));
    throw new Error(event.data.body);
  } };`;
  await start({ 'paid.ts': paid }, ['--live'], {
    API_BASE_URL: apiBaseUrl,
    API_KEY: 'svc_test_1',
    PAID_OPERATIONS: 'allow',
  });
  try {
    await kit.says(/^77 PAID_OPERATIONS_REFUSED$/m);
    await until(() => /^ +c:77 +Error +handlers\/paid\.ts:3$/m.test(kit.output()));
    expect(kit.output()).not.toContain('secret of Ana');
    expect(asked).not.toContain('/v1/rpc/ResumeCampaign');
    // What happened in the last minutes comes on request: 76, and not 70, which is an hour old.
    const page = await kit.page();
    const answer = await fetch(`${page}/api/recent`, { method: 'POST', headers: { origin: page } });
    expect(answer.status).toBe(200);
    await until(() => /^76 PAID_OPERATIONS_REFUSED$/m.test(kit.output()));
    expect(kit.output()).not.toMatch(/^70 /m);
  } finally {
    service.close();
    service.closeAllConnections();
  }
});
