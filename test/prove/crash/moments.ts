// SIGKILL of all processes at random moments under a steady load.
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { createRandom } from '../../../src/tools/random.ts';
import { createKit, load, until } from '../../system/kit.ts';
import type { Options, Row } from '../report.ts';
import { countsIn, violationsIn } from './look.ts';
import { timedStart, tooSlow } from './ready.ts';
import { COUNT } from './story.ts';

const MOMENTS = { short: 5, long: 500 };
const A_SECOND = 200;
const LATEST_MS = 1_000;
/** After this many rounds the store is replaced, because the checks are fast only on a small store. */
const ROUNDS = 50;

export async function moments({ seed, short, progress }: Options): Promise<Row> {
  const random = createRandom(seed);
  const most = short ? MOMENTS.short : MOMENTS.long;
  const violations: string[] = [];
  let [kills, deliveries, slowest] = [0, 0, 0];
  while (kills < most) await oneStore(Math.min(ROUNDS, most - kills));
  violations.push(...tooSlow(slowest, short));
  return {
    what: `SIGKILL of all at random moments under ${A_SECOND} deliveries a second`,
    seen: `${kills} kills, ${deliveries} deliveries acknowledged, ready after ${Math.round(slowest)} ms at most`,
    violations,
  };

  async function oneStore(rounds: number): Promise<void> {
    const kit = await createKit({ count: COUNT });
    const path = join(kit.folder, 'events.db');
    const acknowledged = new Set<string>();
    let next = 0;
    try {
      for (let round = 0; round < rounds; round++) {
        await start();
        const running = load(kit, A_SECOND, next);
        await sleep(random.next() * LATEST_MS);
        await kit.killAll();
        kills++;
        next = await running.stop();
        for (const id of running.acknowledged) acknowledged.add(id);
        look(`kill ${kills}`);
      }
      await start();
      await until(() => countsIn(path).effects === countsIn(path).events).catch((error: unknown) => {
        found([`not everything is handled in the end: ${String(error)}`]);
      });
      look('in the end');
    } finally {
      await kit.remove();
    }
    deliveries += acknowledged.size;
    progress(`${kills} of ${most} moments, ${violations.length} violations`);

    async function start(): Promise<void> {
      slowest = Math.max(slowest, await timedStart(kit));
    }

    function look(when: string): void {
      found(violationsIn(path, { acknowledged }).map((one) => `${when}: ${one}`));
    }
  }

  /** Shows each violation at once, because the campaign goes on for long. */
  function found(more: string[]): void {
    violations.push(...more);
    for (const one of more) progress(one);
  }
}
