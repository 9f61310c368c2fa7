// Retrying a group of ten thousand dead letters in a browser shows its progress and can be cancelled. The body of an
// event stays masked until it is revealed.
import { chromium, type Browser, type Page } from 'playwright-core';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { readDelivery } from '../../src/wire/event.ts';
import { createOps, deliver, NOTHING_SET, type Ops } from '../ops/harness.ts';
import { CHROMIUM } from './chromium.ts';

const MANY = 10_000;
const TOKEN = 'changes-0123456789';
let ops: Ops;
let browser: Browser;
let page: Page;

beforeEach(async () => {
  if (!CHROMIUM) return;
  ops = await createOps({ ...NOTHING_SET, OPS_TOKEN: TOKEN });
  browser = await chromium.launch({ executablePath: CHROMIUM ?? '', args: ['--no-sandbox'] });
  page = await browser.newPage({ viewport: { width: 340, height: 800 }, colorScheme: 'dark' });
});
afterEach(async () => {
  if (!CHROMIUM) return;
  await browser.close();
  await ops.close();
});

/** Makes MANY dead letters, in a hundred lanes. */
async function kill(): Promise<void> {
  const { store, clock } = ops;
  const readings = Array.from({ length: MANY }, (_, n) => {
    const [id, cursor, type] = [`e${n + 1}`, String(n + 1), 'MessageReceived'];
    return readDelivery(Buffer.from(JSON.stringify({ id, type, cursor, data: { [type]: { message_id: id } } })));
  });
  await store.ingest.accept({ readings, now: clock.time });
  const [handler = 0] = (await store.work.register(['answer'])).values();
  const turn = { now: clock.time, boot: 1, settle: [], fanOut: null, room: 0, handlers: [handler] };
  for (let from = 0; from < MANY;) {
    const { events } = await store.work.pending(1_000);
    const upTo = events.at(-1)?.seq ?? from;
    const tasks = events.map(({ seq, cursor }) => {
      return { event: seq, handler, lane: `lane ${seq % 100}`, cursor, releaseAt: clock.time };
    });
    await store.work.turn({ ...turn, fanOut: { from, upTo, tasks } });
    from = upTo;
  }
  for (let dead = 0; dead < MANY;) {
    const { claims } = await store.work.turn({ ...turn, room: 100 });
    const settle = claims.map(
      (claim) => ({ claim, state: 'dead', error: `Error: no answer to ${claim.task}` }) as const,
    );
    await store.work.turn({ ...turn, settle });
    dead += claims.length;
  }
}

async function open(path: string): Promise<void> {
  await page.goto(`http://127.0.0.1:${ops.port}${path}`);
  if ((await page.locator('#token').count()) === 0) return;
  await page.fill('#token', TOKEN);
  await page.click('main button');
}

test.skipIf(!CHROMIUM)(
  'ten thousand dead letters are one group, whose retry shows its progress and can be cancelled',
  async () => {
    await kill();
    await open('/dead-letters');
    await page.getByRole('link', { name: 'Error: no answer to #' }).click();
    await page.getByText('Retry all 10,000', { exact: true }).click();

    // The store waits for `go`, so that the test can see the progress.
    const retry = ops.store.admin.retry.bind(ops.store);
    let go = Promise.withResolvers<void>();
    ops.store.admin.retry = async (ids, now) => {
      await go.promise;
      return retry(ids, now);
    };
    await page.getByRole('button', { name: 'Retry all 10,000 now' }).click();
    await page.getByText('10,000 tasks will run again').waitFor();
    await page.getByText('Retry 1: 0 of 10,000').waitFor();
    await page.getByRole('button', { name: 'Cancel' }).click();
    await page.getByText('Cancelled: what was moved stays moved').waitFor();
    go.resolve();
    await expect.poll(async () => (await ops.store.read.status(ops.clock.time)).tasks.dead).toBe(MANY - 500);
    await open('/dead-letters');
    await page.getByText('Retry 1: 500 of 10,000 moved; cancelled').waitFor();
    expect(await page.evaluate('document.documentElement.scrollWidth <= innerWidth')).toBe(true);

    // Retries the rest. The page refreshes by itself until no dead letter is left.
    await page.getByText('Retry all 9,500', { exact: true }).click();
    await page.getByRole('button', { name: 'Retry all 9,500 now' }).click();
    await page.getByText('Retry 2: 9,500 of 9,500 moved; done').waitFor({ timeout: 30_000 });
    await page.getByText('No dead letters.').waitFor();
    expect((await ops.store.read.status(ops.clock.time)).tasks).toMatchObject({ dead: 0, ready: MANY });
  },
);

test.skipIf(!CHROMIUM)(
  'a search leads to an event, whose body is masked, then revealed, and masked again',
  async () => {
    await deliver(ops, { cursor: '7', type: 'Odd<script>', data: { note: '<img src=x onerror=alert(1)>' } });
    const odd: string[] = [];
    page.on('pageerror', (error) => odd.push(String(error)));
    page.on('dialog', (dialog) => odd.push(dialog.message()));
    await open('/events');
    await page.getByText('Filters', { exact: true }).click();
    await page.fill('input[name=q]', '7');
    await page.getByRole('button', { name: 'Show' }).click();
    await page.getByRole('link', { name: 'c:7' }).click();
    expect(await page.locator('main').textContent()).not.toContain('onerror');
    await page.getByRole('button', { name: 'Reveal the body' }).click();
    await page.getByText('onerror=alert').first().waitFor();
    await page.context().grantPermissions(['clipboard-read', 'clipboard-write']);
    await page.getByRole('button', { name: 'Copy: As a fixture' }).click();
    await page.getByText('Copied').waitFor();
    expect(await page.evaluate('navigator.clipboard.readText()')).toMatch(/^fixture\("Odd<script>", \{[^]*onerror/);
    await page.context().clearPermissions();
    await page.evaluate('delete Navigator.prototype.clipboard');
    await page.getByRole('button', { name: 'Copy: As curl' }).click();
    expect(await page.evaluate('getSelection().toString()')).toContain('curl -sS');
    await page.evaluate('getSelection().empty()');
    await page.getByRole('link', { name: 'Mask it again' }).click();
    await page.getByRole('button', { name: 'Reveal the body' }).waitFor();
    expect(await page.locator('main').textContent()).not.toContain('onerror');
    expect(odd).toEqual([]);
  },
);
