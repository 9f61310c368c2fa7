// Takes the README's screenshot of the overview, after a simulated day of messages. Needs /usr/bin/chromium.
// Run: node src/base/node/launch.js test/ops/pages/screenshot.ts
import { fileURLToPath } from 'node:url';
import { chromium } from 'playwright-core';
import { countsOf } from '../../../src/base/latency-buckets.ts';
import { createRandom } from '../../../src/tools/random.ts';
import { createHistory, type SimulatedEvent } from '../../../src/tools/simulator/history.ts';
import type { Cursor } from '../../../src/wire/cursor.ts';
import { readItem } from '../../../src/wire/event.ts';
import { fanOut, createOps, deliver, DISK, end } from '../harness.ts';

const PICTURE = fileURLToPath(new URL('overview.png', import.meta.url));
const HANDLERS = ['reply', 'conversations'];
/** With the range of 24 h, the page shows one sample in 12 minutes. */
const STEP_MS = 720_000;
const STEPS = 120;
/** During these steps no delivery arrives. Replay brings their events at the end. */
const LOST = { from: 31, to: 36 };

Object.assign(DISK, { storeBytes: 12_600_000, logBytes: 4_100_000, freeBytes: 42e9 });
const ops = await createOps();
const { store, clock } = ops;
const random = createRandom(3);
clock.time = Date.UTC(2026, 4, 18, 16);
const history = createHistory({ seed: 3, conversations: 9, clock });
try {
  await liveADay();
  await waitInALane();
  await beat();
  await shoot(`http://127.0.0.1:${ops.port}/?range=24h`);
} finally {
  await ops.close();
}

async function shoot(url: string): Promise<void> {
  const browser = await chromium.launch({ executablePath: '/usr/bin/chromium', args: ['--no-sandbox'] });
  const page = await browser.newPage({ viewport: { width: 1200, height: 940 }, colorScheme: 'light' });
  await page.goto(url);
  await page.screenshot({ path: PICTURE });
  await browser.close();
}

async function liveADay(): Promise<void> {
  const lost: SimulatedEvent[] = [];
  for (let step = 0; step <= STEPS; step++) {
    const begun = clock.time;
    // Busiest at 15:00 UTC, quietest at 03:00 UTC.
    const busy = 14 - 12 * Math.cos((new Date(begun).getUTCHours() - 3) * (Math.PI / 12));
    for (let left = busy * (0.7 + random.next() * 0.6); left > 0; left--) {
      if (step >= LOST.from && step < LOST.to) lost.push(history.next());
      else await receive(history.next());
    }
    if (step === LOST.to) await replay(lost);
    await handleAll();
    await store.state.note({ 'refused.bad_signature': random.below(40) === 0 ? 9 : 0 });
    clock.time = begun + STEP_MS;
    await store.read.sample(clock.time);
  }
}

/** Receives a delivery. Now and then the service sends it twice. */
async function receive({ id, cursor, type, sessionId, data }: SimulatedEvent): Promise<void> {
  const luck = random.next();
  const delivery = { id, cursor, type, data, session: sessionId ?? '' };
  await deliver(ops, ...(luck < 0.02 ? [delivery, delivery] : [delivery]));
  await store.state.note(countsOf(0.6 / (1.03 - luck)));
}

async function replay(events: SimulatedEvent[]): Promise<void> {
  const readings = events.map(({ cursor, type, data }) =>
    readItem('replay', cursor as Cursor, JSON.stringify({ [type]: data })),
  );
  await store.ingest.accept({ readings, now: clock.time });
}

async function handleAll(): Promise<void> {
  const handlers = await fanOut(ops, HANDLERS);
  const { tasks } = await store.read.tasks({ state: 'ready', limit: 1_000 }, clock.time);
  for (const handler of handlers)
    for (let left = tasks.length / handlers.length; left > 0; left--) await end(ops, handler, 'done');
  for (const name of HANDLERS) {
    if (random.below(4) === 0) await store.state.note({ [`attempts.retry.${name}`]: 1 });
    await store.state.note({ [`took.${random.below(9) === 0 ? 500 : 100}.${name}`]: tasks.length / handlers.length });
  }
}

/** Puts three tasks into a lane. The first has failed once, and the other two wait for it. */
async function waitInALane(): Promise<void> {
  for (let n = 0; n < 3; n++) await receive(history.next());
  const [handler = 0] = await fanOut(ops, ['forward'], { lane: `${history.numbers[0]}/15550104` });
  await store.work.register([...HANDLERS, 'forward']);
  const turn = { now: clock.time, boot: 1, settle: [], fanOut: null, room: 1, handlers: [handler] };
  const [claim] = (await store.work.turn(turn)).claims;
  if (!claim) throw new Error('no task is due');
  const error = 'Error: the endpoint answered 503';
  const failed = { claim, state: 'ready' as const, error, dueAt: clock.time + 30_000, holdMs: 120_000 };
  await store.work.turn({ ...turn, settle: [failed], room: 0 });
}

async function beat(): Promise<void> {
  for (const role of ['receive', 'run', 'keep'])
    await store.processes.beat({ role, pid: 1, started: '', boot: 1 }, clock.time);
  const at = new Date(clock.time - 14_000).toISOString();
  const lastGoodAt = new Date(clock.time - 1_000).toISOString();
  await store.state.note(
    {},
    {
      replay: JSON.stringify({ state: 'idle', since: at, lastAt: at, reason: null, progress: null }),
      receipts: JSON.stringify({ at: clock.time - 240_000, ranMs: 0, marks: [] }),
      watermark: BigInt(history.all().at(-1)?.cursor ?? 0),
      failures: JSON.stringify({ causes: {}, badSignatures: 0, badSince: null, lastBadAt: null, lastGoodAt }),
    },
  );
}
