// Removes events and bodies that are older than their retention. `keep` also does this regularly.
import { loadConfig, readEnv } from '../../config.ts';
import { settledUpTo } from '../../keep/prune.ts';
import type { Receipt } from '../../store/keep.ts';
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
      const before = (await store.read.status(store.now())).events;
      await pruneAll(store, store.now() - rows * DAY_MS, store.now() - bodies * DAY_MS);
      const { events, floor } = await store.read.status(store.now());
      const removed = before - events;
      if (values.json) printJson({ removed, events, floor });
      else print(`${count(removed, 'event')} removed, ${events} left; floor ${floor ?? '-'}`);
    });
  },
} satisfies Command;

async function pruneAll(store: Store, rows: number, bodies: number): Promise<void> {
  const receipts = await store.state.get('receipts');
  const settled = receipts === null ? 0 : settledUpTo(receipts);
  for (let after: Receipt | null = null, steps = 1; ; steps++) {
    after = await store.keep.prune({ now: store.now(), before: rows, settled, after, limit: STEP });
    if (after === null) break;
    if (steps % 50 === 0) process.stderr.write(`looked at ${steps * STEP} events\n`);
  }
  for (let after: Receipt | null = null; ;) {
    after = await store.keep.purge(bodies, after, STEP);
    if (after === null) return;
  }
}
