// Removes events and bodies that are older than their retention. `keep` also does this regularly.
import { iso } from '../../base/clock.ts';
import { loadConfig, readEnv } from '../../config.ts';
import { settledUpTo } from '../../keep/prune.ts';
import { aheadMs, trustedTime } from '../../keep/trusted-time.ts';
import type { Pruned, Receipt, Receipts } from '../../store/keep.ts';
import type { Store } from '../../store/store.ts';
import { parse, type Command } from '../lib/command.ts';
import { count, print, printJson } from '../lib/print.ts';
import { withStore } from '../lib/store.ts';

const DAY_MS = 86_400_000;
const STEP = 200;

export default {
  summary: 'remove events older than RETENTION_DAYS, and bodies older than PAYLOAD_RETENTION_DAYS',
  usage: 'prune [--json]',
  async run(args) {
    const { values } = parse(args, { flags: ['json'], names: false });
    const { RETENTION_DAYS: rows, PAYLOAD_RETENTION_DAYS: bodies } = loadConfig(readEnv(), {
      only: ['RETENTION_DAYS', 'PAYLOAD_RETENTION_DAYS', 'DATABASE_URL'],
    });
    await withStore(async (store) => {
      const now = store.now();
      const receipts = await store.state.get('receipts');
      const trusted = await trustedTime(store, now, receipts, 0);
      const ahead = aheadMs(now, trusted);
      if (ahead > 0)
        console.error(
          `the clock is ${count(Math.round(ahead / DAY_MS), 'day')} ahead of ${iso(trusted.at)}, the time that good deliveries and running time confirm: until the next good delivery, ages are measured at that time`,
        );
      const at = Math.min(now, trusted.at);
      const removed = await pruneAll(store, at, receipts, { rows, bodies });
      const { events, floor } = await store.read.status(now);
      if (values.json) printJson({ removed, events, floor, clockAheadSeconds: Math.round(ahead / 1_000) });
      else print(`${count(removed, 'event')} removed, ${events} left; floor ${floor ?? '-'}`);
    });
  },
} satisfies Command;

/** `days`: how long rows and bodies are kept. Resolves to the number of removed rows. */
async function pruneAll(
  store: Store,
  at: number,
  receipts: Receipts | null,
  days: { rows: number; bodies: number },
): Promise<number> {
  const settled = receipts === null ? 0 : settledUpTo(receipts);
  let removed = 0;
  for (let after: Receipt | null = null, steps = 1; ; steps++) {
    const step = { now: at, before: at - days.rows * DAY_MS, settled, after, limit: STEP };
    const { next, rows }: Pruned = await store.keep.prune(step);
    removed += rows;
    after = next;
    if (after === null) break;
    if (steps % 50 === 0) process.stderr.write(`looked at ${steps * STEP} events\n`);
  }
  for (let after: Receipt | null = null; ;) {
    ({ next: after } = await store.keep.purge(at - days.bodies * DAY_MS, after, STEP));
    if (after === null) return removed;
  }
}
