// What people do on the ops pages in a real browser. Foreign sites must do no harm. The test needs Chromium.
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { chromium, type Browser, type BrowserContextOptions, type Page } from 'playwright-core';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { createOps, NOTHING_SET, type Ops } from '../ops/harness.ts';
import { CHROMIUM } from './chromium.ts';
import { healthy, trouble } from './page-data.ts';

const TOKEN = 'the-token-that-may-change-things';
const WIDE = { width: 1600, height: 900 };
const PHONE = { width: 320, height: 640 };

describe.skipIf(!CHROMIUM)('the ops pages in a browser', () => {
  let browser: Browser;
  let ops: Ops;
  beforeAll(async () => {
    browser = await chromium.launch({ executablePath: CHROMIUM ?? '', args: ['--no-sandbox'] });
  });
  afterAll(() => browser.close());
  const faults: string[] = [];
  afterEach(async () => {
    for (const context of browser.contexts()) await context.close();
    await ops.close();
    expect(faults.splice(0)).toEqual([]);
  });

  /** Opens a new page. Every error that the browser reports fails the test. */
  async function open(path: string, options: BrowserContextOptions = {}): Promise<Page> {
    const context = await browser.newContext({ viewport: WIDE, ...options });
    const page = await context.newPage();
    page.on('console', (message) => {
      if (message.type() === 'error' && !/status of 4\d\d/.test(message.text())) faults.push(message.text());
    });
    page.on('pageerror', (error) => faults.push(error.message));
    await page.goto(`http://127.0.0.1:${ops.port}${path}`);
    return page;
  }

  test('works with JavaScript off: navigation, refresh, and a change with its message', async () => {
    ops = await createOps();
    await trouble(ops);
    const page = await open('/', { javaScriptEnabled: false });
    await page.click('nav >> text=Reconciliation');
    await page.click('text=Run now');
    expect(await page.textContent('.message')).toContain('asked for');
    expect(await ops.store.state.get('reconcile_asked')).toBe(ops.clock.time);
    await page.click('summary:has-text("Close")');
    await page.fill('#reason-1', 'fetched by hand');
    await page.click('button:has-text("Close the gap")');
    expect(await page.textContent('.message')).toContain('Gap 1 is closed');
    expect(ops.text()).toContain('fetched by hand');
    await page.click('.again');
    expect(await page.locator('.message').count()).toBe(0);
  });

  test.each([true, false])(
    'handlers are paused and resumed, one and all, with JavaScript: %s',
    async (javaScriptEnabled) => {
      ops = await createOps();
      await healthy(ops);
      const page = await open('/', { javaScriptEnabled });
      const state = () => page.textContent('td[data-name=state]');
      await page.click('button:has-text("Pause")');
      expect(await page.textContent('.message')).toContain('Answer is paused');
      expect(await state()).toContain('paused');
      expect(await page.textContent('nav')).toMatch(/Handlers 1 paused/);
      await page.click('button:has-text("Resume")');
      expect(await state()).toContain('running');
      await page.click('nav >> text=Handlers');
      await page.click('summary:has-text("Pause all")');
      await page.fill('#reason-all', 'a bot misbehaves');
      await page.click('button:has-text("Pause all handlers now")');
      expect(await ops.store.state.get('paused')).toMatchObject({ '*': { reason: 'a bot misbehaves' } });
      expect(await state()).toContain('a bot misbehaves');
      await page.click('button:has-text("Resume all")');
      expect(await ops.store.state.get('paused')).toEqual({});
    },
  );

  test('the keyboard alone pauses a handler with a reason', async () => {
    ops = await createOps();
    await healthy(ops);
    const page = await open('/handlers/answer');
    await page.focus('#pause > summary');
    await page.keyboard.press('Enter');
    await page.keyboard.press('Tab');
    await page.keyboard.type('answers twice');
    await page.keyboard.press('Enter');
    await page.waitForSelector('.message');
    expect(await ops.store.state.get('paused')).toMatchObject({ answer: { reason: 'answers twice' } });
    expect(page.url()).toMatch(/\/handlers\/answer$/);
  });

  test('old waiting tasks are counted, then discarded, without JavaScript', async () => {
    ops = await createOps();
    await trouble(ops);
    ops.clock.time += 3_600_000;
    const page = await open('/handlers/handoff', { javaScriptEnabled: false });
    await page.selectOption('#older', '30m');
    await page.click('button:has-text("Count them")');
    await page.fill('#reason-old', 'too old to answer');
    await page.click('button:has-text("Discard these 3 tasks for good")');
    expect(await page.textContent('.message')).toContain('3 tasks will be skipped');
    await expect.poll(async () => (await ops.store.read.status(ops.clock.time)).tasks.skipped).toBe(4);
  });

  test('title, icon and counts follow the state without a reload, and the focus stays in the navigation', async () => {
    ops = await createOps();
    await healthy(ops);
    const page = await open('/handlers');
    await page.selectOption('#every', '2');
    await page.focus('nav a >> nth=1');
    const icon = await page.getAttribute('[rel=icon]', 'href');
    expect(await page.title()).toBe('Handlers · webhook receiver');
    await ops.store.alarms.raise('dead_letters', 'because', ops.clock.time);
    await expect.poll(() => page.title(), { timeout: 10_000 }).toMatch(/^● Degraded · Handlers/);
    expect(await page.getAttribute('[rel=icon]', 'href')).not.toBe(icon);
    expect(await page.textContent('nav')).toContain('Overview 1 alarm');
    expect(await page.evaluate('document.activeElement.textContent')).toBe('Events');
  });

  test('charts are folded on a phone and open on a wide screen, without JavaScript', async () => {
    ops = await createOps();
    await healthy(ops);
    const phone = await open('/', { viewport: PHONE, javaScriptEnabled: false });
    expect(await phone.locator('figure').first().isVisible()).toBe(false);
    await phone.click('summary:has-text("Over time")');
    expect(await phone.locator('figure').first().isVisible()).toBe(true);
    const wide = await open('/', { javaScriptEnabled: false });
    expect(await wide.locator('figure').first().isVisible()).toBe(true);
    expect(await wide.locator('summary:has-text("More over time")').isVisible()).toBe(false);
  });

  test('refreshes by itself, and keeps what a person was typing', async () => {
    ops = await createOps();
    await trouble(ops);
    const page = await open('/reconciliation');
    await page.selectOption('#every', '2');
    await page.click('summary >> nth=0');
    await page.fill('#reason-1', 'half a sen');
    await ops.store.state.note({ recovered: 4_711 });
    await page.waitForSelector('text=4,725');
    expect(await page.inputValue('#reason-1')).toBe('half a sen');
    expect(await page.evaluate('document.activeElement.id')).toBe('reason-1');
    await page.reload();
    expect(await page.inputValue('#every')).toBe('2');
  });

  test('says that it could not refresh, and recovers', async () => {
    ops = await createOps();
    const page = await open('/');
    await page.selectOption('#every', '2');
    await page.route('**/', (route) => route.abort());
    await page.waitForSelector('#live:has-text("Could not refresh")');
    await page.unroute('**/');
    await page.waitForSelector('#live:empty', { state: 'attached' });
    faults.splice(0);
  });

  test('another site cannot post in the name of an operator who is logged in or needs no token', async () => {
    ops = await createOps();
    await trouble(ops);
    const target = `http://127.0.0.1:${ops.port}/reconciliation/close`;
    const elsewhere = createServer((_, res) => {
      res.setHeader('Content-Type', 'text/html');
      res.end(
        `<form method="post" action="${target}"><input name="gap" value="1"><input name="reason" value="forged"></form><button onclick="document.forms[0].submit()">go</button>`,
      );
    });
    await new Promise<void>((done) => elsewhere.listen(0, '127.0.0.1', done));
    const page = await open('/');
    await page.goto(`http://localhost:${(elsewhere.address() as AddressInfo).port}/`);
    await page.click('button');
    await page.waitForURL(target);
    expect(await page.textContent('h1')).toBe('Not from here');
    expect((await ops.store.read.gaps())[0]?.closedAt).toBeNull();
    elsewhere.close();
  });

  test('the token is entered in a form and never shows in an address, and the session cookie does not contain it', async () => {
    ops = await createOps({ ...NOTHING_SET, OPS_TOKEN: TOKEN });
    const page = await open('/refused');
    await page.fill('#token', 'wrong');
    await page.keyboard.press('Enter');
    await page.waitForSelector('.fault');
    await page.fill('#token', TOKEN);
    await page.keyboard.press('Enter');
    await page.waitForSelector('nav');
    const cookies = await page.context().cookies();
    expect(cookies).toMatchObject([{ name: 'kit_session', httpOnly: true, sameSite: 'Strict' }]);
    expect(JSON.stringify(cookies)).not.toContain(TOKEN);
    expect(page.url()).not.toContain(TOKEN);
    await page.click('text=Log out');
    await page.goto(`http://127.0.0.1:${ops.port}/`);
    expect(await page.textContent('h1')).toBe('Log in');
  });

  test('the keyboard alone leads past the navigation to the content', async () => {
    ops = await createOps();
    const page = await open('/');
    await page.keyboard.press('Tab');
    expect(await page.evaluate('document.activeElement.textContent')).toContain('Skip');
    await page.keyboard.press('Enter');
    expect(await page.evaluate('document.activeElement.id')).toBe('main');
  });
});
