// The page of `npm run dev` in a real browser: see an event, send, edit, resend, fix, run again, save as test.
import { readdirSync, readFileSync, rmSync } from 'node:fs';
import { resolve } from 'node:path';
import { chromium, type Browser, type Page } from 'playwright-core';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { CHROMIUM } from './chromium.ts';
import { startDev, type DevKit } from './dev-kit.ts';
import { until } from './kit.ts';

const NAME = `dev-page-${process.pid}`;
const handler = (line: string): string => `import { defineHandler } from '#kit';
export default defineHandler({
  on: 'MessageReceived',
  handle({ data }, ctx) {
    ctx.log.info({ length: data.body.length }, 'seen');
    ${line}
  },
});`;
const FAILS = handler("if (data.body.includes('fail')) throw new Error('the word fail');");
const FIXED = handler('');
const HOSTILE = '<img src=x onerror="window.owned=1">';

describe.skipIf(!CHROMIUM)('the page of npm run dev', () => {
  let browser: Browser;
  let kit: DevKit;
  const faults: string[] = [];
  beforeAll(async () => {
    browser = await chromium.launch({ executablePath: CHROMIUM ?? '', args: ['--no-sandbox'] });
  });
  afterAll(() => browser.close());
  afterEach(async () => {
    for (const context of browser.contexts()) await context.close();
    await kit.remove();
    expect(faults.splice(0)).toEqual([]);
  });

  async function open(width = 1280): Promise<Page> {
    const context = await browser.newContext({ viewport: { width, height: 800 } });
    const page = await context.newPage();
    page.on('pageerror', (error) => faults.push(error.message));
    await page.goto(await kit.page());
    await page.locator('#rows a').first().waitFor();
    return page;
  }

  async function send(page: Page, body: string): Promise<void> {
    await page.getByRole('link', { name: 'Send an event' }).click();
    await page.locator('input[name=body]').fill(body);
    await page.getByRole('button', { name: 'Send', exact: true }).click();
    await page.locator('#open pre', { hasText: JSON.stringify(body) }).waitFor();
  }

  const card = (page: Page, words: string) => page.locator('#open .card', { hasText: words });

  test('begins with one sample event; a failure shows file, line and log; after a fix it runs again', async () => {
    kit = await startDev({ 'one.ts': FAILS });
    const page = await open();
    await card(page, 'one: done').waitFor();
    expect(await page.locator('#rows a').count()).toBe(1);
    await send(page, 'please fail');
    const failed = card(page, 'one: failed');
    await failed.waitFor();
    expect(await failed.innerText()).toMatch(
      /Error: the word fail\n+at handlers\/one\.ts:6[\s\S]*seen \{"length":11\}/,
    );
    const reloaded = kit.says('reloaded');
    kit.save('one.ts', FIXED);
    await reloaded;
    await failed.getByRole('button', { name: 'Run again' }).click();
    await card(page, 'one: done').waitFor();
    // A file that cannot be loaded is named, until it is mended.
    kit.save('one.ts', 'export default {');
    await page.locator('#faults', { hasText: 'one.ts:1: SyntaxError' }).waitFor();
    kit.save('one.ts', FIXED);
    await page.locator('#faults p').waitFor({ state: 'detached' });
  });

  test('an event is resent, and edited: as a new event, or with the same identity', async () => {
    kit = await startDev({ 'one.ts': FIXED });
    const page = await open();
    await send(page, HOSTILE);
    await page.getByRole('button', { name: 'Resend', exact: true }).click();
    await page.locator('#rows a', { hasText: 'came 2×' }).waitFor();
    expect(await page.locator('#rows a').count()).toBe(2);

    await page.getByRole('link', { name: 'Edit and resend' }).click();
    await page.locator('input[name=timestamp_unix_ms]').fill('soon');
    await page.getByRole('button', { name: 'Send', exact: true }).click();
    await page.getByText('timestamp_unix_ms: must be an integer').waitFor();
    await page.locator('input[name=timestamp_unix_ms]').fill('1764000000000');
    await page.locator('input[name=body]').fill('edited');
    await page.getByRole('button', { name: 'Send', exact: true }).click();
    await page.locator('#open pre', { hasText: '"edited"' }).waitFor();
    expect(await page.locator('#rows a').count()).toBe(3);

    await page.getByRole('link', { name: 'Edit and resend' }).click();
    await page.getByRole('button', { name: 'As JSON' }).click();
    const json = page.locator('textarea');
    await json.fill('{');
    await page.getByRole('button', { name: 'Send', exact: true }).click();
    await page.getByText('This is no JSON').waitFor();
    await json.fill(JSON.stringify({ session_id: '00000000-0000-4000-8000-000000000001', from: '1', message_id: 'x' }));
    await page.getByLabel('the same id and cursor').check();
    await page.getByRole('button', { name: 'Send', exact: true }).click();
    await page.locator('#rows a', { hasText: 'edited' }).getByText('came 2×').waitFor();
    expect(await page.locator('#rows a').count()).toBe(3);
    expect(await page.evaluate('window.owned')).toBeUndefined();
  });

  test('events survive a restart, and Clear removes them; traffic and chaos are switches', async () => {
    kit = await startDev({ 'one.ts': FIXED });
    let page = await open();
    await send(page, 'kept');
    await kit.restart();
    page = await open();
    expect(await page.locator('#rows a').count()).toBe(2);
    await send(page, 'after the restart');
    expect(await page.locator('#rows a').count()).toBe(3);
    await page.getByLabel(/Traffic/).check();
    await page.locator('#rows li:nth-child(5)').waitFor();
    await page.getByLabel(/Traffic/).uncheck();
    page.on('dialog', (dialog) => void dialog.accept());
    await page.getByRole('button', { name: 'Clear' }).click();
    await page.getByText('No events yet').waitFor();
    await send(page, 'after clearing');
    await card(page, 'one: done').waitFor();
  });

  test('an event is saved as a test of its handler, which runs', async () => {
    kit = await startDev({ [`${NAME}.ts`]: FIXED });
    const page = await open();
    await card(page, 'done').getByRole('button', { name: 'Save as test' }).click();
    const result = card(page, 'done').locator('[role=status]');
    await result.locator('pre').waitFor({ timeout: 120_000 });
    expect(await result.innerText()).toContain('The test passes:');
    // The event is drawn again, and the result stays.
    await page.getByRole('button', { name: 'Resend', exact: true }).click();
    await page.locator('#rows a', { hasText: 'came 2×' }).waitFor();
    await page.locator('#open dd', { hasText: '1×' }).waitFor();
    expect(await result.innerText()).toContain('The test passes:');
    const named = await card(page, 'done').locator('[role=status] code').innerText();
    try {
      expect(named).toMatch(new RegExp(`^test/handlers/${NAME}-c\\d+-\\w{6}\\.test\\.ts$`));
      expect(readFileSync(resolve(named), 'utf8')).toContain("fixture('MessageReceived'");
    } finally {
      rmSync(resolve(named));
      // An empty folder would be taken for tests that are gone.
      if (readdirSync('test/handlers').length === 0) rmSync('test/handlers', { recursive: true });
    }
  });

  test('by keyboard, and on a phone', async () => {
    kit = await startDev({ 'one.ts': FIXED });
    const page = await open();
    await send(page, 'second');
    await page.locator('#rows a').first().focus();
    await page.keyboard.press('ArrowDown');
    await page.keyboard.press('Enter');
    await page.locator('#open pre', { hasText: '"hello"' }).waitFor();
    const phone = await open(320);
    for (const hash of ['', '#send', await phone.locator('#rows a').first().getAttribute('href')]) {
      await phone.goto(`${await kit.page()}/${hash}`);
      await phone
        .locator(hash ? '#open h2' : '#rows a')
        .first()
        .waitFor();
      const spill = await phone.evaluate('document.documentElement.scrollWidth - document.documentElement.clientWidth');
      expect(spill, hash ?? '').toBe(0);
    }
  });

  test('answers only its own page: neither other sites nor other names', async () => {
    kit = await startDev({ 'one.ts': FIXED });
    const url = await kit.page();
    const json = { 'content-type': 'application/json' };
    const asked = (headers: Record<string, string>) =>
      fetch(`${url}/api/send`, { method: 'POST', headers: { ...json, ...headers }, body: '{}' });
    expect((await asked({ origin: 'https://evil.example' })).status).toBe(403);
    expect((await asked({})).status).toBe(403);
    expect((await asked({ origin: url })).status).toBe(200);
    expect((await fetch(`${url}/api/state`, { headers: { origin: 'https://evil.example' } })).status).toBe(403);
    await until(() => kit.child.exitCode === null);
  });
});
