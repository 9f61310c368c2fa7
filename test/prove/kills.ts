// SIGKILL of one process, or of all, at random moments under load.
import { existsSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { startKit, until } from '../harness.ts';
import { failure, unless, type Options, type Row } from './report.ts';
import { createSender } from './sender.ts';
import { COUNTING, look, ownStore } from './store.ts';

const KILLS = { short: 8, long: 500 };
const VICTIMS = ['run/main', 'keep/main', 'main', 'all'] as const;
/** A fresh store after this many kills, because the checks read all of it. */
const ROUNDS = 50;
/** On PostgreSQL the lanes of a kit that was killed wait for 10 s, so hardly a task ends between two kills. */
const BACKLOG_MS = 300_000;
/** For the median: a single start may wait for the disk, on which a killed process may still be writing. */
const READY_MS = 1_500;

export async function kills(options: Options): Promise<Row[]> {
  const { short, progress } = options;
  const most = short ? KILLS.short : KILLS.long;
  const violations: string[] = [];
  const starts: number[] = [];
  let [killed, events] = [0, 0];
  while (killed < most) {
    const env = { ...ownStore(options), ORDER_WINDOW_MS: '50' };
    const kit = await startKit({ handlers: { 'counting.ts': COUNTING }, env });
    const sender = createSender(() => kit.url);
    const sending = sender.run(200);
    for (let round = 0; round < ROUNDS && killed < most; round++, killed++) {
      await sleep(Math.random() * 800);
      const victim = VICTIMS[killed % VICTIMS.length] ?? 'all';
      if (victim === 'all') await kit.kill();
      else {
        const [pid] = victim === 'main' ? kit.pids() : kit.pids(victim);
        if (pid !== undefined) process.kill(pid, 'SIGKILL');
        // While a killed process waits for the disk, it lives on, and holds the store.
        if (victim === 'main') await until('main to end', () => !existsSync(`/proc/${pid}`));
      }
      if (victim === 'main' || victim === 'all') starts.push(await kit.start());
      const seen = await look(kit.store, sender.acknowledged.slice());
      violations.push(...seen.violations.map((one) => `kill ${killed} of ${victim}: ${one}`));
    }
    await sender.stop();
    await sending;
    const isOver = async () => (await look(kit.store, [])).done >= sender.acknowledged.length;
    violations.push(...(await failure(until('everything to be handled', isOver, BACKLOG_MS))));
    violations.push(...(await look(kit.store, sender.acknowledged)).violations);
    events += sender.acknowledged.length;
    await kit.stop();
    progress(`${killed} of ${most} kills, ${violations.length} violations ${violations.at(-1) ?? ''}`);
  }
  starts.sort((a, b) => a - b);
  const [median = 0, slowest = 0] = [starts[starts.length >> 1], starts.at(-1)].map((ms) => Math.round(ms ?? 0));
  violations.push(
    ...unless(median <= READY_MS, `ready only after ${median} ms in the median; the limit is ${READY_MS} ms`),
  );
  const ready = `ready after ${median} ms in the median, ${slowest} ms at most`;
  const seen = `${killed} kills, ${events} deliveries acknowledged, ${ready}`;
  return [
    { what: 'SIGKILL of run, keep, main or all at random moments under 200 deliveries a second', seen, violations },
  ];
}
