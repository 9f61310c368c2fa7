// `npm run dev` as a process: it makes events and reloads saved handlers. A broken handler does not stop the others.
import { spawn, spawnSync, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { afterEach, expect, test } from 'vitest';
import { dataOf, makeEvent, until } from './kit.ts';

const handler = (word: string): string =>
  `export default { on: '*', order: 'arrival', lane: 'none', handle() { console.log('${word}'); } };`;

let folder: string;
let child: ChildProcess;
let output = '';

function start(files: Record<string, string>, args: string[] = [], env: Record<string, string> = {}): void {
  folder = mkdtempSync(join(tmpdir(), 'kit-dev-test-'));
  for (const name of ['handlers', 'temp']) mkdirSync(join(folder, name));
  for (const [name, source] of Object.entries(files)) save(name, source);
  output = '';
  child = spawn(process.execPath, [resolve('src/tools/dev/main.ts'), ...args], {
    cwd: folder,
    env: { PATH: process.env['PATH'], HANDLERS_DIR: join(folder, 'handlers'), TMPDIR: join(folder, 'temp'), ...env },
  });
  for (const stream of [child.stdout, child.stderr])
    stream?.on('data', (chunk: Buffer) => (output += chunk.toString()));
}

function save(name: string, source: string): void {
  writeFileSync(join(folder, 'handlers', name), source);
}

/** Waits for output that appears after this call. */
async function says(words: string | RegExp): Promise<void> {
  const from = output.length;
  await until(() => output.slice(from).search(words) >= 0);
}

afterEach(async () => {
  child.kill('SIGTERM');
  await until(() => child.exitCode !== null || child.signalCode !== null);
  rmSync(folder, { recursive: true, force: true, maxRetries: 10 });
});

test('a saved handler is loaded; a broken one is named, the others go on, and a saved fix is loaded', async () => {
  start({ 'one.ts': handler('one, first'), 'two.ts': handler('two') });
  await says(/MessageReceived +- +one +done +\d+/);
  save('one.ts', handler('one, second'));
  await says(/^one, second$/m);
  save('one.ts', 'export default { on: };');
  await says(/^broken +handlers\/one\.ts:1: SyntaxError/m);
  await says(/^two$/m);
  save('one.ts', handler('one, fixed'));
  await says(/^one, fixed$/m);

  child.kill('SIGINT');
  await until(() => child.exitCode !== null);
  expect(child.exitCode).toBe(0);
  expect(readdirSync(join(folder, 'temp'))).toEqual([]);
  expect(existsSync(join(folder, 'data'))).toBe(false);
});

test(
  'the npx kit commands that npm run dev prints work in another terminal and read its store',
  { timeout: 60_000 },
  async () => {
    const failing =
      "export default { on: '*', order: 'arrival', lane: 'none', retry: { attempts: 1 }, handle() { throw new Error(); } };";
    start({ 'one.ts': failing }, [], { NO_COLOR: '1' });
    const shell = (line: string): string => {
      const command = line.replace('npx kit', `${process.execPath} ${resolve('src/cli/kit.js')}`);
      const found = spawnSync('sh', ['-c', command], {
        cwd: folder,
        env: { PATH: process.env['PATH'] },
        encoding: 'utf8',
      });
      return `${found.stdout}${found.stderr}`;
    };
    const printed = (after: RegExp): string => after.exec(output)?.[1] ?? `nothing matches ${after}`;
    await until(() => /newest cause/.test(output));
    expect(shell(printed(/See why \((.*?),/))).toContain('one');
    expect(shell(printed(/then retry them \((.*?)\)/))).toContain('will run again');
    expect(shell(printed(/^look +(.*)$/m))).toContain('MessageReceived');
    const sent = shell(printed(/^send +(.*)$/m));
    expect(sent).toMatch(/^204 for/);
    expect(shell(sent.trim().split('\n').at(-1) ?? '')).toContain('received');
  },
);

test('a file that is broken at the start is named, and a saved fix starts the kit', async () => {
  start({ 'one.ts': 'export default 1;' });
  await says('it starts again when you save a file');
  expect(output).toContain('one.ts');
  save('one.ts', handler('one, fixed'));
  await says(/^one, fixed$/m);
});

test('--live: an event of GET /events reaches the handler; paid operations are refused, and the output has no text of senders', async () => {
  const asked: (string | undefined)[] = [];
  const payload = JSON.stringify(dataOf({ ...makeEvent(1), body: 'a secret of Ana' }));
  const service = createServer((request, response) => {
    asked.push(request.url);
    if (request.url === '/v1/events') {
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      response.write(`id: 77\nevent: domain\ndata: ${payload}\n\n`);
    } else response.writeHead(503).end();
  }).listen(0, '127.0.0.1');
  await once(service, 'listening');
  const apiBaseUrl = `http://127.0.0.1:${(service.address() as AddressInfo).port}/v1`;
  const paid = `export default { on: '*', order: 'arrival', async handle(event, ctx) {
    await ctx.service.call('ResumeCampaign', {}).catch((error) => console.log(event.cursor, error.code));
    throw new Error(event.data.body);
  } };`;
  start({ 'paid.ts': paid }, ['--live'], { API_BASE_URL: apiBaseUrl, API_KEY: 'svc_test_1', PAID_OPERATIONS: 'allow' });
  try {
    await says(/^77 PAID_OPERATIONS_REFUSED$/m);
    await until(() => /^ +c:77 +Error +handlers\/paid\.ts:3$/m.test(output));
    expect(output).not.toContain('secret of Ana');
    expect(asked).not.toContain('/v1/rpc/ResumeCampaign');
  } finally {
    service.close();
    service.closeAllConnections();
  }
});
