// A process that works through a store with ctx.complete and kills itself at a random moment: before, within and after
// the transaction, or anywhere by a timer.
import { setTimeout as sleep } from 'node:timers/promises';
import { pino } from 'pino';
import { systemClock as clock } from '../../src/clock.ts';
import { DEFAULT_RETRY } from '../../src/run/backoff.ts';
import type { Loaded } from '../../src/run/load.ts';
import { startRunner } from '../../src/run/runner.ts';
import { startSolo } from '../../src/run/solo.ts';
import { noService } from '../../src/service/service.ts';
import { openSqlite } from '../../src/store/sqlite/open.ts';

const store = openSqlite(process.argv[2] ?? '', { synchronous: 'NORMAL' });
await store.giveBack([], clock.now());

const MOMENTS = ['before', 'within', 'written', 'after', 'timer'] as const;
const chosen = MOMENTS[Math.floor(Math.random() * MOMENTS.length)];
let spared = Math.floor(Math.random() * 5);

function dieAt(moment: (typeof MOMENTS)[number]): void {
  if (moment === chosen && spared-- <= 0) process.kill(process.pid, 'SIGKILL');
}
if (chosen === 'timer') {
  spared = 0;
  setTimeout(() => dieAt('timer'), Math.random() * 20);
}

const handler: Loaded = {
  name: 'count',
  on: '*',
  lane: 'session',
  order: 'arrival',
  retry: { ...DEFAULT_RETRY, attempts: 1_000, firstMs: 1, maxMs: 1 },
  laneHoldMs: 120_000,
  timeoutMs: 30_000,
  maxAgeMs: null,
  onStale: 'run',
  history: false,
  rate: null,
  setup: undefined,
  async handle(event, ctx) {
    await Promise.resolve();
    dieAt('before');
    await ctx.complete((tx) => {
      dieAt('within');
      tx.run('insert into seen values (?)', event.key);
      dieAt('written');
    });
    dieAt('after');
  },
};
// No constraint: what is written twice shows.
await store.setup((tx) => void tx.run('create table if not exists seen (key text)'));
const options = {
  store,
  handlers: [handler],
  service: noService,
  clock,
  log: pino({ level: 'silent' }),
  boot: await store.nextBoot(),
  concurrency: 8,
  windowMs: 0,
  fetchesHistory: false,
};
const runner = await startRunner(options);
// What died with an earlier process runs alone, as the main process has it done by one of its own.
const aside = openSqlite(process.argv[2] ?? '', { synchronous: 'NORMAL' });
const alone = { ...options, store: aside, boot: await store.nextBoot() };
process.setMaxListeners(0);
for (;;) {
  await startSolo(alone, new AbortController().signal);
  const { unassigned, tasks } = await store.status(clock.now());
  if (unassigned + tasks.ready + tasks.held + tasks.running === 0) break;
  await sleep(20);
}
await runner.drain(0);
process.exit(0);
