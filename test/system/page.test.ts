// The ops pages in a real browser, with an empty store, a healthy kit, and a kit in trouble. Hostile text and foreign
// sites must do no harm. The test needs Chromium. Set PAGE_SHOTS to a folder to keep screenshots.
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { chromium, type Browser, type BrowserContextOptions, type Page } from 'playwright-core';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import type { Cursor } from '../../src/wire/cursor.ts';
import { fanOut, createOps, deliver, end, NOTHING_SET, SESSION, type Ops } from '../ops/harness.ts';
import { violations } from './axe.ts';
import { CHROMIUM } from './chromium.ts';

const SHOTS = process.env['PAGE_SHOTS'];
const TOKEN = 'the-token-that-may-change-things';
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
const WIDE = { width: 1600, height: 900 };
const PHONE = { width: 320, height: 640 };
const HOSTILE = `<script>window.owned=1</script><img src=x onerror="window.owned=1">' onfocus='window.owned=1' \u202e\u0007 ${'w'.repeat(300)}`;

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

  async function shoot(page: Page, name: string): Promise<void> {
    if (SHOTS) await page.screenshot({ path: join(SHOTS, `${name}.png`), fullPage: true });
  }

  /** No content is wider than the window. Tables scroll within themselves. */
  async function expectNoSpill(page: Page): Promise<void> {
    const spill = await page.evaluate('document.documentElement.scrollWidth - document.documentElement.clientWidth');
    expect(spill, page.url()).toBe(0);
  }

  /** No text of a chart is cut off at its edge. */
  async function expectWholeWords(page: Page): Promise<void> {
    const cut = await page.evaluate(
      `[...document.querySelectorAll('svg text')].filter((text) => text.getBoundingClientRect().left <
        text.closest('figure').getBoundingClientRect().left).map((text) => text.textContent)`,
    );
    expect(cut, page.url()).toEqual([]);
  }

  for (const [state, make] of Object.entries({ empty, healthy, trouble })) {
    test.each(Object.entries(SCREENS))(
      `%s with the data set "${state}" fits a wide light window and a narrow dark one`,
      async (screen, path) => {
        ops = await createOps();
        await make(ops);
        for (const [name, options] of Object.entries({
          wide: {},
          phone: { viewport: PHONE, colorScheme: 'dark' as const },
        })) {
          const page = await open(path, options);
          await expectNoSpill(page);
          await expectWholeWords(page);
          expect(await page.evaluate('window.owned')).toBeUndefined();
          expect(await page.locator('main h1').count()).toBe(1);
          expect(await violations(page), screen).toEqual([]);
          await shoot(page, `${state}-${screen}-${name}`);
          await page.context().close();
        }
      },
    );
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
    await shoot(page, 'login');
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

async function empty(ops: Ops): Promise<void> {
  for (const role of ['receive', 'run', 'keep'])
    await ops.store.processes.beat({ role, pid: 1, started: '', boot: 1 }, ops.clock.time);
}

async function healthy(ops: Ops): Promise<void> {
  await deliver(ops, ...Array.from({ length: 40 }, (_, n) => ({ cursor: `90071992547409${n + 10}` })));
  const [handler = 0] = await fanOut(ops, ['answer']);
  for (let n = 0; n < 40; n++) await end(ops, handler, 'done');
  const from = ops.clock.time;
  for (let n = 0; n < 120; n++) {
    ops.clock.time = from + n * 30_000;
    const wave = Math.round(40 + 30 * Math.sin(n / 9));
    const acks = {
      'ack.2': wave,
      'ack.5': Math.round(wave / 2),
      'ack.20': 1,
      ...(n % 40 === 7 ? { 'ack.200': 2 } : {}),
    };
    await ops.store.state.note({
      accepted: wave,
      'tasks.done': wave,
      duplicates: n % 5,
      'refused.path': n % 7,
      ...acks,
    });
    await ops.store.read.sample(ops.clock.time);
  }
  await up(ops, 'idle', '9007199254740949');
}

/** Fills the store with every alarm, dead letters, and hostile text wherever senders can put text. */
async function trouble(ops: Ops): Promise<void> {
  await healthy(ops);
  const session = HOSTILE.replaceAll(/[^!-~]/g, '').slice(0, 200);
  await deliver(
    ops,
    { cursor: '77', type: session.slice(0, 150), session: `${session}👩‍💻שלום`, data: { [HOSTILE]: HOSTILE } },
    { cursor: '78', session: '🧨'.repeat(250) },
    { cursor: '79' },
  );
  const [fragile = 0] = await fanOut(ops, [`hand-${'o'.repeat(120)}`]);
  await end(ops, fragile, 'dead', HOSTILE);
  await end(ops, fragile, 'dead', `TypeError: ${'cannot read properties of undefined '.repeat(12)}`);
  await end(ops, fragile, 'skipped', 'too old');
  const id = `evt_${HOSTILE.replaceAll(/[^!-~]/g, '').slice(0, 190)}`;
  await deliver(
    ops,
    { cursor: '9223372036854775807', id },
    { cursor: '9223372036854775806', id: 'other' },
    { cursor: '9223372036854775805', id: 'third' },
  );
  const ids = await ops.store.work.register(['handoff']);
  const handler = ids.get('handoff') ?? 0;
  const { from, events } = await ops.store.work.pending(100);
  const tasks = events.map(({ seq, cursor }) => ({
    event: seq,
    handler,
    lane: `${SESSION}/${HOSTILE}`,
    cursor,
    releaseAt: ops.clock.time,
  }));
  const now = ops.clock.time;
  await ops.store.work.turn({
    now,
    boot: 1,
    settle: [],
    fanOut: { from, upTo: events.at(-1)?.seq ?? from, tasks },
    room: 0,
    handlers: [],
  });
  const readings = [HOSTILE, '{"id":"evt_1"}', '[]'].map((text) => ({
    unreadable: { origin: 'webhook' as const, cursor: null, body: Buffer.from(text), reason: 'not an object' },
  }));
  const gap = { after: '9007199254740000' as Cursor, upTo: null, reason: `the cursor has expired ${HOSTILE}` };
  await ops.store.ingest.accept({ readings, now, gap });
  const refusal = {
    at: new Date(now).toISOString(),
    headers: 5,
    skewSeconds: -412,
    agent: HOSTILE.slice(0, 80),
    bytes: 1234,
  };
  await ops.store.state.note(
    { 'refused.bad_signature': 12, 'refused.clock_skew': 3, 'tasks.dead': 3 },
    {
      failure_run: 11,
      failures: JSON.stringify({
        causes: { store: 9, clock_skew: 2 },
        badSignatures: 12,
        badSince: refusal.at,
        lastBadAt: refusal.at,
        lastGoodAt: null,
      }),
      refusals: JSON.stringify({
        bad_signature: [refusal, refusal],
        clock_skew: [refusal],
        path: [{ ...refusal, headers: 0, skewSeconds: null }],
      }),
      verify: JSON.stringify({
        state: 'failed',
        reason: HOSTILE,
        asked: now,
        from: '1',
        at: '9007199254740949',
        pages: 3,
        events: 2_112,
        types: [
          { type: 'w'.repeat(200), present: 2_000, missing: 100, older: 7, onlyHere: 12, handled: 1_990, dead: 3 },
        ],
      }),
    },
  );
  await ops.store.alarms.raise(
    'failure_run',
    '11 deliveries in a row were not answered with 2xx (9 × store, 2 × clock_skew); at 15 the service switches the webhook off: see the log',
    now,
  );
  await ops.store.alarms.raise('gap_open', '1 stretches of history can no longer be fetched: see npx kit gaps', now);
  await ops.store.alarms.raise('reconcile_stopped', `reconciliation stopped (${HOSTILE}): fix API_KEY`, now);
  await up(ops, 'stopped', '9007199254740949', HOSTILE);
}

async function up(ops: Ops, state: string, watermark: string, reason: string | null = null): Promise<void> {
  for (const role of ['receive', 'run', 'keep'])
    await ops.store.processes.beat({ role, pid: 1, started: '', boot: 1 }, ops.clock.time);
  const at = new Date(ops.clock.time - 14_000).toISOString();
  const failures = { causes: {}, badSignatures: 0, badSince: null, lastBadAt: null, lastGoodAt: at };
  const more = reason === null ? { failures: JSON.stringify(failures) } : {};
  await ops.store.state.note(
    { recovered: 7, replay_calls: 212 },
    {
      replay: JSON.stringify({ state, since: at, lastAt: at, reason, progress: null }),
      watermark: BigInt(watermark),
      ...more,
    },
  );
}
