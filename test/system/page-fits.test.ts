// Every ops page in a real browser, wide and light, narrow and dark: with an empty store, a healthy kit, and a kit in
// trouble. Hostile text must do no harm. The test needs Chromium. Set PAGE_SHOTS to a folder to keep screenshots.
import { join } from 'node:path';
import { chromium, type Browser, type Page } from 'playwright-core';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { createOps, type Ops } from '../ops/harness.ts';
import { violations } from './axe.ts';
import { CHROMIUM } from './chromium.ts';
import { empty, healthy, trouble } from './page-data.ts';

const SHOTS = process.env['PAGE_SHOTS'];
const SCREENS = {
  overview: '/',
  events: '/events',
  'events-none': '/events?type=None&session=5f0c3a52-6f1e-4c55-9a52-9d9f5b1f6d11',
  event: `/events/c%3A9223372036854775805`,
  handlers: '/handlers',
  handler: `/handlers/hand-${'o'.repeat(120)}`,
  'handler-old': '/handlers/handoff?older=30m',
  letters: '/dead-letters',
  group: '/dead-letters?group=1',
  reconciliation: '/reconciliation',
  refused: '/refused',
  quarantined: '/refused/1',
  unknown: '/nowhere',
  fault: '/events?since=yesterday',
};
const WINDOWS = {
  wide: { width: 1600, height: 900, colorScheme: 'light' },
  phone: { width: 320, height: 640, colorScheme: 'dark' },
} as const;

describe.skipIf(!CHROMIUM)('the ops pages in a browser', () => {
  let browser: Browser;
  /** One page shows every screen, because a new one takes longer than its check. */
  let page: Page;
  const faults: string[] = [];
  beforeAll(async () => {
    browser = await chromium.launch({ executablePath: CHROMIUM ?? '', args: ['--no-sandbox'] });
    page = await browser.newPage();
    page.on('console', (message) => {
      if (message.type() === 'error' && !/status of 4\d\d/.test(message.text())) faults.push(message.text());
    });
    page.on('pageerror', (error) => faults.push(error.message));
  });
  afterAll(() => browser.close());
  afterEach(() => expect(faults.splice(0)).toEqual([]));

  async function shoot(name: string): Promise<void> {
    if (SHOTS) await page.screenshot({ path: join(SHOTS, `${name}.png`), fullPage: true });
  }

  /** No content is wider than the window. Tables scroll within themselves. */
  async function expectNoSpill(): Promise<void> {
    const spill = await page.evaluate('document.documentElement.scrollWidth - document.documentElement.clientWidth');
    expect(spill, page.url()).toBe(0);
  }

  /** No text of a chart is cut off at its edge. */
  async function expectWholeWords(): Promise<void> {
    const cut = await page.evaluate(
      `[...document.querySelectorAll('svg text')].filter((text) => text.getBoundingClientRect().left <
        text.closest('figure').getBoundingClientRect().left).map((text) => text.textContent)`,
    );
    expect(cut, page.url()).toEqual([]);
  }

  describe.each(Object.entries({ empty, healthy, trouble }))('with the data set "%s"', (state, make) => {
    let ops: Ops;
    beforeAll(async () => {
      ops = await createOps();
      await make(ops);
    });
    afterAll(() => ops.close());

    test.each(Object.entries(SCREENS))('%s fits a wide light window and a narrow dark one', async (screen, path) => {
      for (const [name, { colorScheme, ...size }] of Object.entries(WINDOWS)) {
        await page.setViewportSize(size);
        await page.emulateMedia({ colorScheme });
        await page.goto(`http://127.0.0.1:${ops.port}${path}`);
        await expectNoSpill();
        await expectWholeWords();
        expect(await page.evaluate('window.owned')).toBeUndefined();
        expect(await page.locator('main h1').count()).toBe(1);
        expect(await violations(page), screen).toEqual([]);
        await shoot(`${state}-${screen}-${name}`);
      }
    });
  });
});
