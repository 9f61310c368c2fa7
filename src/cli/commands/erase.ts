// Erases a person: removes their messages from events, dead letters, quarantine and conflicts. Ids, cursors and times
// stay.
import { setTimeout as sleep } from 'node:timers/promises';
import { EXIT } from '../../base/errors.ts';
import type { Erased } from '../../store/admin.ts';
import type { Store } from '../../store/store.ts';
import { UNBEGUN_MS } from '../../store/work.ts';
import { isOf } from '../../admin/person.ts';
import { parse, UsageError, type Command } from '../lib/command.ts';
import { count, print, printJson } from '../lib/print.ts';
import { clock, withStore } from '../lib/store.ts';

const STEP = 500;

export default {
  summary: "remove a person's messages; ids, times and outcomes stay",
  usage: 'erase --sender <address> [--dry-run] [--json]',
  async run(args) {
    const { values } = parse(args, { text: ['sender'], flags: ['dry-run', 'json'], names: false });
    const { sender, 'dry-run': dry = false } = values;
    if (!sender || sender.trim().length < 4) throw new UsageError('name the address with --sender, whole');
    const erased = await withStore((store) => eraseAll(store, sender, dry));
    if (values.json) printJson({ dryRun: dry, ...erased });
    else print(report(erased, dry));
    return erased.events + erased.quarantined + erased.conflicts > 0 ? EXIT.done : EXIT.failed;
  },
} satisfies Command;

async function eraseAll(store: Store, sender: string, dry: boolean): Promise<Erased> {
  const isTheirs = isOf(sender);
  const total = await store.admin.eraseAsides(isTheirs, dry);
  let saidAfter = clock.monotonic();
  for (let after: number | null = 0; after !== null;) {
    const { erased, next } = await store.admin.eraseEvents(isTheirs, after, STEP, store.now(), dry);
    total.events += erased.events;
    total.skipped += erased.skipped;
    total.errors += erased.errors;
    after = next;
    if (after === null || clock.monotonic() - saidAfter < 2_000) continue;
    saidAfter = clock.monotonic();
    process.stderr.write(`looked at events up to ${after}, ${total.events} of theirs\n`);
  }
  // Tasks of erased events that were claimed before, and have not begun by then, are skipped.
  if (!dry && total.events > 0) await sleep(2 * UNBEGUN_MS);
  return total;
}

function report({ events, skipped, errors, quarantined, conflicts }: Erased, dry: boolean): string {
  return [
    `${count(events, 'message')}${dry ? ' would be erased (dry run)' : ' erased; ids, cursors and times stay'}`,
    `${count(quarantined, 'quarantined delivery').replace('deliverys', 'deliveries')}, ${count(conflicts, 'contradiction')}`,
    ...(dry ? [] : [`${count(skipped, 'waiting task')} skipped, ${count(errors, 'error text')} emptied`]),
    'Not touched: tables of your own handlers, backups made before, and what your handlers sent elsewhere.',
  ].join('\n');
}
