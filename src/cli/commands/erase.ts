// Erases a person, or single events: removes their messages from events, dead letters, quarantine and conflicts. Ids,
// cursors and times stay.
import { setTimeout as sleep } from 'node:timers/promises';
import { EXIT } from '../../base/errors.ts';
import { AdminError } from '../../admin/error.ts';
import type { Erased, IsTheirs } from '../../store/admin.ts';
import type { Store } from '../../store/store.ts';
import { UNBEGUN_MS } from '../../store/work.ts';
import { isOf } from '../../admin/person.ts';
import { parse, UsageError, type Command } from '../lib/command.ts';
import { clean, count, print, printJson } from '../lib/print.ts';
import { clock, withStore } from '../lib/store.ts';

const STEP = 500;

export default {
  summary: "remove a person's messages; ids, times and outcomes stay",
  usage: `erase --sender <address> [--dry-run] [--json]
       npx kit erase --event <key> … [--dry-run] [--json]     and what contradicted it`,
  async run(args) {
    const { values, positionals } = parse(args, { text: ['sender'], lists: ['event'], flags: ['dry-run', 'json'] });
    const { sender = '', event = [], 'dry-run': dry = false } = values;
    if (event.length === 0 && positionals.length > 0)
      throw new UsageError(`give --sender, or --event before '${clean(positionals[0] ?? '')}'`);
    const keys = [...event, ...positionals];
    if (sender !== '' && keys.length > 0) throw new UsageError('give either --sender or --event');
    if (keys.length === 0 && sender.trim().length < 4) throw new UsageError('name the address with --sender, whole');
    const erased = await withStore(async (store) =>
      eraseAll(
        store,
        keys.length > 0 ? await bodiesOf(store, keys) : { event: isOf(sender), aside: isOf(sender) },
        dry,
      ),
    );
    if (values.json) printJson({ dryRun: dry, ...erased });
    else print(report(erased, dry));
    return erased.events + erased.quarantined + erased.conflicts > 0 ? EXIT.done : EXIT.failed;
  },
} satisfies Command;

interface Theirs {
  event: IsTheirs;
  /** In quarantine and conflicts. */
  aside: IsTheirs;
}

/** Bodies are recognised by their bytes. Throws AdminError if there is no such event. */
async function bodiesOf(store: Store, keys: string[]): Promise<Theirs> {
  const own = new Set<string>();
  const against = new Set<string>();
  for (const key of keys) {
    if (!(await store.read.event(key, store.now()))) throw new AdminError('missing', `no event ${key}: npx kit events`);
    const body = await store.read.body(key);
    if (body) own.add(textOf(body));
    for (const other of await store.read.contradictions(key)) against.add(textOf(other.body));
  }
  return {
    event: (body) => own.has(textOf(body)),
    aside: (body) => own.has(textOf(body)) || against.has(textOf(body)),
  };
}

const textOf = (body: Uint8Array): string => Buffer.from(body).toString('latin1');

async function eraseAll(store: Store, theirs: Theirs, dry: boolean): Promise<Erased> {
  const total = await store.admin.eraseAsides(theirs.aside, dry);
  let saidAfter = clock.monotonic();
  for (let after: number | null = 0; after !== null;) {
    const { erased, next } = await store.admin.eraseEvents(theirs.event, after, STEP, store.now(), dry);
    total.events += erased.events;
    total.skipped += erased.skipped;
    total.errors += erased.errors;
    after = next;
    if (after === null || clock.monotonic() - saidAfter < 2_000) continue;
    saidAfter = clock.monotonic();
    process.stderr.write(`looked at events up to ${after}, ${count(total.events, 'message')} found\n`);
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
