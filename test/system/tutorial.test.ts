// The tutorial of src/handlers/README.md, step by step: its commands in a copy of the project, its clicks in a browser.
import { spawn, type ChildProcess } from 'node:child_process';
import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { chromium, type Browser, type Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { CHROMIUM } from './chromium.ts';
import { freePort, until } from './kit.ts';

const [, tutorial = ''] = /^## Five minutes to a handler\n(.*?)^## /ms.exec(
  readFileSync('src/handlers/README.md', 'utf8'),
) ?? ['', ''];
const steps = tutorial.split(/^\d+\. /m).slice(1);

const codeIn = (step = ''): string => /```sh\n\s*(.*?)\n\s*```/s.exec(step)?.[1] ?? '';
const quoted = (step = ''): string[] => [...step.matchAll(/`([^`\n]+)`/g)].map(([, words = '']) => words);
const bold = (step = ''): string[] => [...step.matchAll(/\*\*([^*]+)\*\*/g)].map(([, words = '']) => words);

describe.skipIf(!CHROMIUM)('the tutorial for handlers', () => {
  let browser: Browser;
  let page: Page;
  let copy: string;
  let dev: ChildProcess;
  let output = '';
  const ports: Record<string, string> = {};

  beforeAll(async () => {
    copy = mkdtempSync(join(tmpdir(), 'kit-tutorial-'));
    const filter = (path: string): boolean => dirname(path) !== 'src/handlers' || path.endsWith('.md');
    for (const path of ['package.json', 'tsconfig.json', 'vitest.config.ts', 'src', 'templates'])
      cpSync(path, join(copy, path), { recursive: true, filter });
    for (const file of ['test/memory-folder.ts', 'test/handler-store.ts']) cpSync(file, join(copy, file));
    symlinkSync(resolve('node_modules'), join(copy, 'node_modules'));
    Object.assign(ports, { PORT: String(await freePort()), OPS_PORT: String(await freePort()) });
    browser = await chromium.launch({ executablePath: CHROMIUM ?? '', args: ['--no-sandbox'] });
    page = await browser.newPage();
  });
  afterAll(async () => {
    dev.kill('SIGTERM');
    await until(() => dev.exitCode !== null || dev.signalCode !== null);
    await browser.close();
    rmSync(copy, { recursive: true, force: true, maxRetries: 10 });
  });

  function start(command: string): ChildProcess {
    const { PATH, HOME } = process.env;
    const child = spawn('sh', ['-c', `exec ${command}`], { cwd: copy, env: { PATH, HOME, NO_COLOR: '1', ...ports } });
    for (const stream of [child.stdout, child.stderr])
      stream.on('data', (chunk: Buffer) => (output += chunk.toString()));
    return child;
  }

  async function run(command: string): Promise<number | null> {
    const child = start(command);
    await until(() => child.exitCode !== null);
    return child.exitCode;
  }

  /** Sends a message from this number, and waits until what it has become is shown. */
  async function send(from: string, shown: RegExp): Promise<void> {
    await page.getByRole('link', { name: bold(steps[2])[0] ?? '' }).click();
    await page.locator('input[name=from]').fill(from);
    await page.getByRole('button', { name: bold(steps[2])[1] ?? '', exact: true }).click();
    await page.locator('#open pre', { hasText: `"${from}"` }).waitFor();
    await page.locator('#open .card', { hasText: shown }).waitFor();
  }

  async function change(from: string, to: string): Promise<void> {
    const file = join(copy, quoted(steps[3])[0] ?? '');
    const before = readFileSync(file, 'utf8');
    expect(before).toContain(from);
    const seen = output.length;
    writeFileSync(file, before.replace(from, to));
    await until(() => output.slice(seen).includes('reloaded'));
  }

  test('each of its six steps does what it says', { timeout: 180_000 }, async () => {
    expect(steps).toHaveLength(6);
    dev = start(codeIn(steps[0]));
    await until(() => output.includes('Ctrl-C ends it'));
    const address = /^page +(\S+)/m.exec(output)?.[1] ?? '';
    expect(steps[0]).toContain('http://127.0.0.1:3010');
    await page.goto(address);
    await page.locator('#rows a').waitFor();

    expect(await run(codeIn(steps[1])), output).toBe(0);
    await until(() => /reloaded +.*greet/.test(output));
    await send('15550199', /greet: done/);
    await page.locator('#rows a', { hasText: 'MessageSent' }).waitFor();

    const [, words = ''] = quoted(steps[3]);
    await change(words, 'Hello from my own handler.');
    await send('15550198', /greet: done/);

    const [line = '', name = ''] = quoted(steps[4]);
    const head = new RegExp(`function ${name}\\(.*\\{\n`).exec(
      readFileSync(join(copy, 'src/handlers/greet.ts'), 'utf8'),
    )?.[0];
    await change(head ?? '', `${head}${line}\n`);
    await send('15550197', /not yet/);
    await page.locator('#open .card code', { hasText: /src\/handlers\/greet\.ts:\d+/ }).waitFor();
    await change(`${line}\n`, '');
    await page.getByRole('button', { name: bold(steps[4])[0] ?? '' }).click();
    await page.locator('#open .card', { hasText: 'greet: done' }).waitFor();

    expect(await run(codeIn(steps[5])), output).toBe(0);
    expect(output).toMatch(/Tests +\d+ passed/);
  });
});
