// Is anything missing? Reads a stretch of the service's history again and compares it with the store; and says what each
// origin brought, week by week. The reading itself is done by `keep`, within its budget.
import { setTimeout as sleep } from 'node:timers/promises';
import { iso } from '../../base/clock.ts';
import { EXIT } from '../../base/errors.ts';
import type { VerifyAccount } from '../../store/keep.ts';
import type { Store } from '../../store/store.ts';
import type { Arrivals } from '../../store/read.ts';
import { askToVerify, beginningOf } from '../../admin/range.ts';
import type { Cursor } from '../../wire/cursor.ts';
import {
  clean,
  clock,
  count,
  fail,
  keepIsUp,
  parse,
  pointOf,
  print,
  printJson,
  printTable,
  unlessItReads,
  UsageError,
  whyDown,
  withStore,
  type Command,
} from '../lib/command.ts';

const LOOK_MS = 250;

const command: Command = {
  summary: 'compare a stretch of history with the service; what came first by which way, week by week',
  usage: `verify --from <cursor or time> [--json]     a time: 2026-01-31, or 2026-01-31T12:00:00Z
       npx kit verify [--json]     the weekly figures alone`,
  async run(args) {
    const { values, positionals } = parse(args, { from: { type: 'string' }, json: { type: 'boolean' } });
    if (positionals.length > 0) throw new UsageError('where it begins is told by --from');
    return withStore(async (store) => {
      const weeks = await store.arrivals();
      if (values.from === undefined) {
        if (values.json) printJson({ weeks });
        else showWeeks(weeks);
        return EXIT.done;
      }
      const refused = await unlessItReads(store);
      if (refused !== undefined) return refused;
      const from = await cursorOf(store, values.from);
      if (from === null)
        return fail('nothing that old is stored: give a later --from, npx kit events shows cursors', EXIT.failed);
      const account = await follow(store, from, values.json ? () => {} : print);
      if (values.json) printJson({ ...account, asked: iso(account.asked), weeks: await store.arrivals() });
      else if (account.state === 'done') show(account);
      return account.state === 'done' ? EXIT.done : fail(clean(account.reason ?? account.state), EXIT.failed);
    });
  },
};
export default command;

async function cursorOf(store: Store, text: string): Promise<Cursor | null> {
  const point = pointOf('--from', text);
  if (typeof point === 'number' && point > clock.now()) throw new UsageError('--from lies in the future');
  const { from, short } = await beginningOf(store, point);
  if (short) process.stderr.write(`nothing older is known than cursor ${from}: it begins there\n`);
  return from;
}

async function follow(store: Store, from: Cursor, say: (text: string) => void): Promise<VerifyAccount> {
  const asked = clock.now();
  await askToVerify(store, from, asked);
  for (let shown = ''; ;) {
    await sleep(LOOK_MS);
    const account = await store.verifying();
    if (!account || account.asked !== asked)
      throw new Error('somebody else has begun another: npx kit verify follows one at a time');
    if (account.state !== 'running') return account;
    const { processes, reconcile } = await store.status(clock.now());
    if (processes.keep === 'down' && !(await keepIsUp(store)))
      return { ...account, state: 'failed', reason: `${await whyDown()}; the comparison goes on by itself then` };
    if (reconcile.state === 'stopped') return { ...account, state: 'failed', reason: reconcile.reason };
    const waits = reconcile.reason ? ` (${reconcile.state}: ${clean(reconcile.reason)})` : '';
    const line = `${count(account.pages, 'page')}, ${count(account.events, 'event')}, at cursor ${account.at}${waits}`;
    if (line !== shown) say(line);
    shown = line;
  }
}

function show({ from, at, events, types }: VerifyAccount): void {
  print(`${count(events, 'event')} after ${from} up to ${at}`);
  printTable(
    ['type', 'present', 'missing, now recovered', 'older than the store remembers', 'only here', 'handled', 'dead'],
    types.map((sum) => [sum.type, sum.present, sum.missing, sum.older, sum.onlyHere, sum.handled, sum.dead]),
  );
  if (types.some(({ older }) => older > 0))
    print(
      'What is older than the store remembers was pruned after RETENTION_DAYS; it is neither fetched nor run again.',
    );
}

function showWeeks(weeks: Arrivals[]): void {
  if (weeks.length === 0) return print('nothing has arrived yet');
  printTable(
    ['week of', 'type', 'brought first by', 'events', 'late on average', 'at worst'],
    weeks.map((sum) => [sum.week, sum.type, sum.origin, sum.events, seconds(sum.lateMs), seconds(sum.latestMs)]),
  );
}

function seconds(ms: number | null): string | null {
  return ms === null ? null : `${(ms / 1000).toFixed(1)} s`;
}
