// The page in a real browser, on a real kit. Not part of `npm test`: `npm run test:page` needs Debian's chromium.
import { writeFileSync } from 'node:fs';
import { request } from 'node:http';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { chromium, type Browser, type Page } from 'playwright-core';
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest';
import { deliver, startKit, textOf, until, type Kit } from '../harness.ts';

const TOKEN = 'secret-secret-secret';
const VIEWS = ['health', 'handlers', 'events', 'actions'];
const HOSTILE = `<img/src=x/onerror=alert(1)>${'x'.repeat(150)}`;
const NAME = `\u202e${HOSTILE}<script>alert(2)</script>\u0007`;
const HANDLER = `import { existsSync } from 'node:fs';
import { defineHandler, Dead } from '#kit';
export default defineHandler({ on: '*', order: 'arrival', lane: 'none', handle(event) {
  if (event.data.name && !existsSync(process.env.FOLDER + '/corrected')) throw new Dead('no customer ' + event.data.name);
} });`;

let browser: Browser;
let kit: Kit;
let empty: Kit;

async function start(handlers: Record<string, string>, env = {}): Promise<Kit> {
  const started = await startKit({ handlers, env });
  await until('the ops port', async () => (await fetch(`${started.opsUrl}/livez`).catch(() => undefined))?.ok === true);
  return started;
}

beforeAll(async () => {
  const own = ['--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync'];
  const args = ['--no-sandbox', '--disable-gpu', ...own];
  const launched = chromium.launch({ executablePath: '/usr/bin/chromium', args });
  [browser, kit, empty] = await Promise.all([launched, start({ 'crm.ts': HANDLER }, { OPS_TOKEN: TOKEN }), start({})]);
  for (let n = 1; n <= 999; n++) await deliver(kit.url, { id: `i${n}`, cursor: String(n), type: 'Contact' });
  await deliver(kit.url, {
    id: 'hostile',
    type: HOSTILE,
    session_id: '<b>session</b>',
    data: { name: NAME, from: '+155501' },
  });
  // It contradicts a stored one, which is an alarm.
  await deliver(kit.url, { id: 'other', cursor: '7', type: 'Other' });
}, 90_000);

afterAll(async () => {
  await browser.close();
  await Promise.all([kit.stop(), empty.stop()]);
});

interface Look {
  of?: Kit;
  width?: number;
  colorScheme?: 'light' | 'dark';
  /** Words of a fault that the test brings about. */
  wanted?: string;
}

/** A page whose violations of the policy, alerts and exceptions fail the test. */
async function open(
  hash: string,
  { of = kit, width = 1280, colorScheme = 'light', wanted = '-' }: Look = {},
): Promise<Page> {
  const httpCredentials = { username: 'kit', password: TOKEN };
  const context = await browser.newContext({ viewport: { width, height: 800 }, colorScheme, httpCredentials });
  const faults: string[] = [];
  const page = await context.newPage();
  page.on('pageerror', ({ message }) => faults.push(message));
  page.on('dialog', (dialog) => faults.push(`alert ${dialog.message()}`));
  page.on('console', (line) => line.text().includes('Content Security Policy') && faults.push(line.text()));
  onTestFinished(async () => {
    await context.close();
    expect(faults.filter((fault) => !fault.includes(wanted))).toEqual([]);
  });
  await page.goto(`${of.opsUrl}/#${hash}`);
  await page.locator('main h1').waitFor();
  return page;
}

const text = async (page: Page, where: string): Promise<string> => page.locator(where).innerText();

/** Presses Tab until the focus is there. It must be seen on the way. */
async function tabTo(page: Page, name: string): Promise<void> {
  for (let n = 0; n < 60; n++) {
    await page.keyboard.press('Tab');
    const [label, outline] = await page.evaluate<[string, string]>(
      '[document.activeElement.textContent, getComputedStyle(document.activeElement).outlineStyle]',
    );
    if (label !== 'Webhook receiver') expect([label, outline]).not.toEqual([label, 'none']);
    if (label === name) return;
  }
  throw new Error(`Tab does not lead to ${name}`);
}

test('hostile text stays text, and characters that nobody sees are shown', async () => {
  const page = await open('events');
  await page.getByText(HOSTILE).first().waitFor();
  await page.getByRole('link', { name: 'i:hostile' }).click();
  await page.locator('pre').first().waitFor();
  await page.getByRole('button', { name: 'data' }).click();
  await page.locator('dialog pre', { hasText: 'onerror' }).first().waitFor();
  for (const where of ['main', 'dialog']) {
    const shown = await text(page, where);
    expect(shown).toContain(HOSTILE);
    expect(shown).toMatch(/\\u\{202e\}.*<script>alert\(2\)<\/script>\\u\{7\}/);
    expect(['\u202e', '\u0007'].filter((sign) => shown.includes(sign))).toEqual([]);
  }
  expect(await page.locator('img, main script, main b').count()).toBe(0);
});

test('an alarm says since when, and its button shows what to look at', async () => {
  const page = await open('health');
  const alarm = page
    .locator('p.critical', { hasText: 'contradict' })
    .or(page.locator('p.critical', { hasText: 'conflict' }));
  await alarm.first().waitFor();
  expect(await alarm.first().innerText()).toMatch(/since \d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ/);
  await alarm.first().getByRole('button').click();
  await page.locator('dialog').getByText('conflict').first().waitFor();
});

const axe = textOf(createRequire(import.meta.url).resolve('axe-core'));
test.each<[string, () => Kit, number, 'light' | 'dark']>([
  ['full', () => kit, 390, 'light'],
  ['full', () => kit, 1100, 'dark'],
  ['empty', () => empty, 390, 'dark'],
  ['empty', () => empty, 1280, 'light'],
])(
  '%s, each view can be read, and nothing sticks out',
  async (_, of, width, colorScheme) => {
    for (const view of [...VIEWS, 'events?event=i:hostile']) {
      const page = await open(view, { of: of(), width, colorScheme });
      await page.locator('main').getByText('Reading …').first().waitFor({ state: 'detached' });
      await page.evaluate(axe);
      const { violations } = await page.evaluate<{ violations: { id: string; nodes: { html: string }[] }[] }>(
        'axe.run()',
      );
      const found = violations.map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html).join()}`);
      const out = await page.evaluate('document.documentElement.scrollWidth - innerWidth');
      expect([view, found, out]).toEqual([view, [], 0]);
      await page.context().close();
    }
  },
  120_000,
);

test('an operator gets from the cause to its retry by keyboard alone', async () => {
  const page = await open('handlers');
  await page.getByText('no customer').first().waitFor();
  writeFileSync(join(kit.folder, 'corrected'), '');
  const posts: string[] = [];
  page.on('request', (sent) => sent.method() === 'POST' && posts.push(sent.url()));
  await tabTo(page, 'retry');
  await page.keyboard.press('Enter');
  expect(await text(page, 'dialog')).toMatch(/handler: crm\n+error: no customer \\u\{202e\}/);
  await tabTo(page, 'retry');
  expect(posts).toEqual([]);
  await page.keyboard.press('Enter');
  await page.locator('dialog [role=status]', { hasText: 'behind live work' }).waitFor();
  await page.keyboard.press('Escape');
  await page.locator('dialog').waitFor({ state: 'detached' });
  await page.getByText('Failures appear here').waitFor();
});

test('of a thousand events a hundred are shown, and older ones are a link away', async () => {
  const page = await open('events');
  await page.getByText('c:999', { exact: true }).waitFor();
  expect(await page.locator('td[data-name=key]').count()).toBe(100);
  await page.getByRole('link', { name: 'Older' }).click();
  await page.getByText('c:900', { exact: true }).waitFor();
  expect(await page.locator('td[data-name=key]').count()).toBe(100);
});

test('what has just been sent is seen with what a handler did, without a hand', async () => {
  const page = await open('events');
  await deliver(kit.url, { id: 'fresh', type: 'Fresh' });
  const row = page.locator('tr', { hasText: 'Fresh' });
  await row.getByText('done').waitFor();
});

test('what is looked for by its sender does not stand in the address', async () => {
  const page = await open('events');
  await page.getByText('Search', { exact: true }).click();
  await page.getByLabel('type').fill(HOSTILE);
  await page.getByLabel('sender').fill('+155501');
  const asked = page.waitForRequest(
    (sent) => sent.method() === 'POST' && sent.postData()?.includes('onerror') === true,
  );
  await page.getByRole('button', { name: 'search' }).click();
  expect((await asked).postDataJSON()).toMatchObject({ sender: '+155501', type: HOSTILE });
  await expect.poll(() => page.locator('td[data-name=key]').allInnerTexts()).toEqual(['i:hostile']);
  expect(decodeURIComponent(page.url())).toContain(HOSTILE);
  expect(page.url()).not.toContain('155501');
});

test('every operation can be opened, and asks for each of its arguments', async () => {
  const page = await open('actions');
  const headers = { authorization: `Bearer ${TOKEN}` };
  const all = (await (await fetch(`${kit.opsUrl}/api`, { headers })).json()) as {
    name: string;
    args: { name: string }[];
  }[];
  for (const { name, args } of all) {
    await page.locator('main').getByRole('button', { name, exact: true }).click();
    const names = await page
      .locator('dialog [name]')
      .evaluateAll((list) => list.map((one) => one.getAttribute('name')));
    expect([name, names]).toEqual([name, args.map((one) => one.name)]);
    await page.getByRole('button', { name: 'close' }).click();
  }
});

test('a refused change says why in full', async () => {
  const page = await open('actions');
  await page.locator('main').getByRole('button', { name: 'rerun' }).click();
  await page.locator('dialog input[name=handler]').fill('nobody');
  await page.locator('dialog').getByRole('button', { name: 'rerun' }).click();
  await page.locator('dialog').getByText('there is no handler nobody: there are crm').waitFor();
});

test('it says when the kit does not answer, and goes on when it does', async () => {
  const page = await open('health');
  await page.context().setOffline(true);
  await page.getByRole('alert').getByText('The kit does not answer').waitFor();
  expect(await page.locator('main.old h1').count()).toBe(1);
  await page.context().setOffline(false);
  await page.getByRole('alert').waitFor({ state: 'detached' });
});

test('a script that got into the page would not run', async () => {
  const page = await open('health', { wanted: 'Executing inline script' });
  await page.evaluate(`document.addEventListener('securitypolicyviolation', ({ effectiveDirective }) => (window.blocked = effectiveDirective));
    document.body.append(Object.assign(document.createElement('script'), { textContent: 'window.ran = true' }))`);
  await expect.poll(() => page.evaluate('[window.ran, window.blocked]')).toEqual([undefined, 'script-src-elem']);
});

test.each<[string, object, () => Kit, number]>([
  ['another name, without tokens', { host: 'evil.example' }, () => empty, 403],
  ['a page of another site', { origin: 'https://evil.example' }, () => kit, 403],
  ['this machine, without the token', {}, () => kit, 401],
])('to %s the page is refused', async (_, headers, of, expected) => {
  const { port } = new URL(of().opsUrl);
  for (const path of ['/', '/page/page.js', '/page/preact.js']) {
    const status = await new Promise((resolve, reject) => {
      const asked = request({ port, path, headers: { ...headers } }, (answer) => resolve(answer.resume().statusCode));
      asked.on('error', reject).end();
    });
    expect([path, status]).toEqual([path, expected]);
  }
});
