// The list of events in a real browser: selecting events, the question before their tasks run again, and the runbook.
import { chromium, type Browser, type BrowserContextOptions, type Page } from 'playwright-core';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { RULES } from '../../src/alarms/rules/index.ts';
import { createOps, deliver, end, fanOut, OTHER_SESSION, type Ops } from '../ops/harness.ts';
import { violations } from './axe.ts';
import { CHROMIUM } from './chromium.ts';

const WIDE = { viewport: { width: 1280, height: 800 } };
const PHONE = { viewport: { width: 320, height: 640 }, colorScheme: 'dark' as const };

describe.skipIf(!CHROMIUM)('the events in a browser', () => {
  let browser: Browser;
  let ops: Ops;
  beforeAll(async () => {
    browser = await chromium.launch({ executablePath: CHROMIUM ?? '', args: ['--no-sandbox'] });
  });
  afterAll(() => browser.close());
  beforeEach(async () => {
    ops = await createOps();
    await deliver(
      ops,
      { cursor: '1' },
      { cursor: '2', type: 'MessageSent' },
      { cursor: '3', session: OTHER_SESSION },
      { cursor: '4' },
    );
    const [reply = 0, notify = 0] = await fanOut(ops, ['reply', 'notify'], { lane: 'one' });
    for (const state of ['done', 'dead', 'done'] as const) await end(ops, reply, state, 'Error: no answer');
    await end(ops, notify, 'dead', 'Error: 503');
  });
  afterEach(async () => {
    for (const context of browser.contexts()) await context.close();
    await ops.close();
  });

  async function open(path: string, options: BrowserContextOptions = WIDE): Promise<Page> {
    const page = await (await browser.newContext(options)).newPage();
    await page.goto(`http://127.0.0.1:${ops.port}${path}`);
    return page;
  }

  const statesOf = async (key: string) =>
    (await ops.store.read.event(key, ops.clock.time))?.tasks.map(({ handler, state }) => `${handler} ${state}`);
  const rowOf = (page: Page, key: string) => page.locator('tr', { hasText: key });
  const message = (page: Page) => page.textContent('.message');

  test.each([
    ['with JavaScript', WIDE],
    ['without JavaScript', { ...WIDE, javaScriptEnabled: false }],
    ['on a phone', PHONE],
  ])(
    'selected events run again only after a question that says what, how many and how fast: %s',
    async (_, options) => {
      const page = await open('/events', options);
      expect((await rowOf(page, 'c:2').textContent())?.replaceAll(/\s+/g, ' ')).toContain('dead: reply ready');
      await page.check('[aria-label="Select c:2"]');
      await page.check('[aria-label="Select c:1"]');
      await page.click('text=Run again…');
      const words = (await page.textContent('main'))?.replaceAll(/\s+/g, ' ');
      expect(words).toContain('4 tasks of 2 selected events');
      expect(words).toContain(
        'At most 3 tasks become due, in steps of 500; those that change meanwhile stay. Handlers run 32 at once at most',
      );
      expect(words).toContain('Calls to other systems can repeat');
      expect(await statesOf('c:2')).toEqual(['reply dead', 'notify ready']);
      await page.uncheck('[aria-label="notify, dead"]');
      await page.click('text=Run these again');
      expect(await message(page)).toBe('2 tasks will run again.');
      expect(page.url()).toMatch(/\/events$/);
      await expect.poll(() => statesOf('c:2')).toEqual(['reply ready', 'notify ready']);
      expect(await statesOf('c:1')).toEqual(['reply done', 'notify dead']);
    },
  );

  test('done tasks have a button of their own, and a task that changed after the question is left alone', async () => {
    const page = await open('/events?select=all');
    expect(await page.locator('td input:checked').count()).toBe(4);
    await page.click('text=Run again…');
    const [done] = (await ops.store.read.event('c:1', ops.clock.time))?.tasks ?? [];
    ops.clock.time += 1_000;
    await ops.store.admin.retry([done?.id ?? 0], ops.clock.time, true);
    await page.click('text=Run done tasks again');
    expect(await message(page)).toBe('1 task will run again.');
    await expect.poll(() => statesOf('c:3')).toEqual(['reply ready', 'notify ready']);
    expect(await statesOf('c:2')).toEqual(['reply dead', 'notify ready']);
  });

  test('waiting tasks of selected events are discarded with a reason, and their list stays as it was filtered', async () => {
    const page = await open('/events?session=' + OTHER_SESSION + '&select=all');
    await page.click('text=Discard waiting…');
    await page.fill('#reason', 'too old to answer');
    await page.click('text=Discard these for good');
    expect(await message(page)).toBe('1 task will be skipped.');
    expect(page.url()).toContain(OTHER_SESSION);
    await expect.poll(() => statesOf('c:3')).toEqual(['reply done', 'notify skipped']);
  });

  test('nothing runs if nothing is selected, and a refresh of the question asks nothing', async () => {
    const page = await open('/events');
    await page.click('text=Run again…');
    expect(await page.textContent('main')).toContain('0 tasks of 0 selected events');
    await page.click('text=Refresh');
    expect(await page.textContent('main')).toContain('0 tasks of 0 selected events');
    await page.click('text=Back to the events');
    expect(await page.textContent('h1')).toBe('Events');
  });

  test('a done task runs again from its event, after a warning', async () => {
    const page = await open('/events/c%3A1', { ...WIDE, javaScriptEnabled: false });
    await page.click('summary:has-text("Run again")');
    expect(await page.textContent('details[open]')).toContain('Calls to other systems can repeat');
    await page.click('text=Run it again');
    expect(await message(page)).toBe('1 task will run again.');
    await expect.poll(() => statesOf('c:1')).toEqual(['reply ready', 'notify dead']);
  });

  test('the list does not refresh while a row is selected, and no selection moves to another row', async () => {
    const page = await open('/events');
    await page.selectOption('#every', '2');
    await deliver(ops, { cursor: '5' });
    await page.waitForSelector('text=c:5');
    expect(await page.inputValue('[aria-label="Select c:5"]')).toBe('c:5');
    await page.check('[aria-label="Select c:5"]');
    const asked: string[] = [];
    page.on('request', (request) => asked.push(request.url()));
    await page.evaluate('document.dispatchEvent(new Event("visibilitychange"))');
    expect(await page.isChecked('[aria-label="Select c:5"]')).toBe(true);
    expect(asked).toEqual([]);
  });

  test('filters offer what exists; they are folded on a phone, unless one is set, and never on a desk', async () => {
    const options = async (page: Page, name: string) => page.locator(`select[name=${name}] option`).allTextContents();
    const desk = await open('/events');
    expect(await options(desk, 'type')).toEqual(['any', 'MessageReceived', 'MessageSent']);
    expect(await options(desk, 'handler')).toEqual(['any', 'notify', 'reply']);
    expect(await desk.locator('#sessions option').count()).toBe(2);
    expect(await desk.isVisible('select[name=type]')).toBe(true);
    await desk.selectOption('select[name=type]', 'MessageSent');
    await desk.click('text=Show');
    expect(new URL(desk.url()).searchParams.get('type')).toBe('MessageSent');
    expect(await desk.locator('tbody tr').count()).toBe(1);
    const phone = await open('/events', PHONE);
    expect(await phone.isVisible('select[name=type]')).toBe(false);
    await phone.click('text=Filters');
    expect(await phone.isVisible('select[name=type]')).toBe(true);
    const filtered = await open('/events?type=Gone', PHONE);
    expect(await filtered.inputValue('select[name=type]')).toBe('Gone');
    expect(await filtered.isVisible('select[name=type]')).toBe(true);
  });

  test('columns that matter least give way first, before rows become cards', async () => {
    const shown = async (width: number) => {
      const page = await open('/events', { viewport: { width, height: 800 } });
      const heads = page.locator('th');
      const names = await heads.allTextContents();
      const seen = await Promise.all(names.map((_, n) => heads.nth(n).isVisible()));
      return names.filter((name, n) => name !== '' && seen[n]);
    };
    const [kept, least] = [
      ['received', 'key', 'type', 'outcome'],
      ['session', 'origin', 'again'],
    ];
    expect(await shown(1280)).toEqual([...kept, ...least]);
    expect(await shown(1100)).toEqual([...kept, 'session', 'origin']);
    expect(await shown(900)).toEqual([...kept, 'session']);
    expect(await shown(700)).toEqual(kept);
  });

  test.each(['/events', '/events?state=dead', '/events/c%3A1', '/dead-letters', '/runbook', 'question'])(
    'axe finds nothing on %s, wide and light, narrow and dark; nothing spills',
    async (path) => {
      for (const options of [WIDE, PHONE]) {
        const page = await open(path === 'question' ? '/events?select=all' : path, options);
        if (path === 'question') await page.click('text=Run again…');
        for (const summary of await page.locator('summary:visible').all()) await summary.click();
        expect(await violations(page)).toEqual([]);
        const spill = await page.evaluate(
          'document.documentElement.scrollWidth - document.documentElement.clientWidth',
        );
        expect(spill).toBe(0);
      }
    },
  );

  test('the runbook has an anchor for each alarm, and the foot of every page leads to it', async () => {
    const page = await open('/');
    await page.click('.asof >> text=Runbook');
    for (const name of Object.keys(RULES)) expect(await page.locator(`h2#${name}`).count(), name).toBe(1);
    await page.click('main >> text=disk_low >> nth=0');
    expect(page.url()).toMatch(/\/runbook#disk_low$/);
  });
});
