// Lets `keep` read a part of the service's history again, and compares it with the store. Pruned events are counted
// separately and not fetched. Without `--from`, the command shows the events of each origin by week.
import { iso } from '../../base/clock.ts';
import { EXIT } from '../../base/errors.ts';
import { verifyFrom } from '../../admin/range.ts';
import type { VerifyAccount } from '../../store/keep.ts';
import type { Store } from '../../store/store.ts';
import { parse, pointOf, UsageError, type Command } from '../lib/command.ts';
import { follow, type Look } from '../lib/follow.ts';
import { clean, count, fail, print, printJson } from '../lib/print.ts';
import { keepIsUp, unlessItReads, whyDown, withStore } from '../lib/store.ts';
import { printList, printTable } from '../lib/table.ts';

export default {
  summary: 'compare history with the service; arrivals by origin and week',
  usage: `verify --from <cursor or time> [--json]     a time: 2026-01-31, 2026-01-31T12:00:00Z
       npx kit verify [--json]     the weekly figures alone
  Only here: stored, and not shown by the service; npx kit events --unseen lists them.
  Not compared: events without a cursor of their own.`,
  async run(args) {
    const { values, positionals } = parse(args, { text: ['from'], flags: ['json'] });
    const { from, json = false } = values;
    if (positionals.length > 0) throw new UsageError('--from says where to begin');
    return withStore<number | void>((store) =>
      from === undefined ? showWeeks(store, json) : verify(store, from, json),
    );
  },
} satisfies Command;

async function verify(store: Store, begin: string, json: boolean): Promise<number> {
  const refused = await unlessItReads(store);
  if (refused !== undefined) return refused;
  const asked = store.now();
  const { from, short } = await verifyFrom(store, pointOf('--from', begin), asked);
  if (short) process.stderr.write(`nothing older than cursor ${from} is known: reading begins there\n`);
  const account = await follow(json, () => look(store, asked));
  if (json) printJson({ ...account, asked: iso(account.asked), weeks: await store.read.arrivals() });
  else if (account.state === 'done') show(account);
  return account.state === 'done' ? EXIT.done : fail(clean(account.reason ?? account.state), EXIT.failed);
}

async function look(store: Store, asked: number): Promise<Look<VerifyAccount>> {
  const account = await store.state.get('verify');
  if (!account || account.asked !== asked) throw new Error('another verify has started: only one runs at a time');
  if (account.state !== 'running') return { result: account };
  const { processes, reconcile } = await store.read.status(store.now());
  const failed = (reason: string | null): Look<VerifyAccount> => ({ result: { ...account, state: 'failed', reason } });
  if (processes.keep === 'down' && !(await keepIsUp(store)))
    return failed(`${await whyDown()}; the comparison then continues`);
  if (reconcile.state === 'stopped') return failed(reconcile.reason);
  const waits = reconcile.reason ? ` (${reconcile.state}: ${clean(reconcile.reason)})` : '';
  return {
    line: `${count(account.pages, 'page')}, ${count(account.events, 'event')}, at cursor ${account.at}${waits}`,
  };
}

function show({ from, at, events, types }: VerifyAccount): void {
  print(`${count(events, 'event')} after ${from} up to ${at}`);
  printTable(
    ['type', 'present', 'missing, now recovered', 'older than the store remembers', 'only here', 'handled', 'dead'],
    types.map((sum) => [sum.type, sum.present, sum.missing, sum.older, sum.onlyHere, sum.handled, sum.dead]),
    { none: 'nothing to compare' },
  );
  if (types.some(({ older }) => older > 0))
    print(
      'Events older than the store remembers were pruned after RETENTION_DAYS. They are neither fetched nor run again.',
    );
}

async function showWeeks(store: Store, json: boolean): Promise<void> {
  const weeks = await store.read.arrivals();
  const head = ['week of', 'type', 'brought first by', 'events', 'late on average', 'at worst'];
  const rows = weeks.map((sum) => {
    return [sum.week, sum.type, sum.origin, sum.events, seconds(sum.lateMs), seconds(sum.latestMs)];
  });
  return printList(json, { weeks }, head, rows, { none: 'nothing has arrived yet' });
}

function seconds(ms: number | null): string | null {
  return ms === null ? null : `${(ms / 1000).toFixed(1)} s`;
}
