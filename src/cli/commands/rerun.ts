// Runs a handler again on past events: counts them, asks, lets `run` make the tasks, and follows the progress.
import { EXIT } from '../../base/errors.ts';
import { cancelRerun, planRerun, type RerunPlan } from '../../admin/rerun.ts';
import type { Rerun } from '../../store/read.ts';
import type { Store } from '../../store/store.ts';
import { agrees, onTerminal } from '../lib/ask.ts';
import { number, parse, pointOf, UsageError, type Command } from '../lib/command.ts';
import { follow, type Look } from '../lib/follow.ts';
import { count, fail, print, printJson, progress } from '../lib/print.ts';
import { whyDown, withStore } from '../lib/store.ts';
import { clockOf } from '../../store/clock.ts';
import { printList, printTable } from '../lib/table.ts';

const LISTED = 20;
const COLUMNS = 'rerun asked handler type from to state seen of tasks untried failing purged'.split(' ');

export default {
  summary: 'run a handler again on past events, in lane order',
  usage: `rerun --handler NAME --from <cursor or time> [--to <cursor or time>]
         [--type TYPE] [--dry-run] [--yes] [--json]
       npx kit rerun [--json]     reruns in progress, and the last ones
       npx kit rerun cancel <id>
  A time is the time of receipt: 2026-01-31, or 2026-01-31T12:00:00Z.
  --to a cursor includes it; --to a time ends before it.
  Each event runs once more, with the same idempotency key, whatever its last outcome.
  Tasks that already wait are left alone.
  The handler's fields still apply: it gets the types of its \`on\`, and maxAgeMs skips old events.`,
  async run(args) {
    const { values, positionals } = parse(args, {
      text: ['handler', 'from', 'to', 'type'],
      flags: ['dry-run', 'yes', 'json'],
    });
    const [verb, id, ...more] = positionals;
    if (more.length > 0 || (verb !== undefined && verb !== 'cancel'))
      throw new UsageError('rerun, or rerun cancel <id>');
    const { handler, from, to = null, type = null, 'dry-run': dry = false, yes = false, json = false } = values;
    if (verb === 'cancel') return cancel(number('the rerun', id));
    if (handler === undefined && from === undefined) return list(json);
    if (handler === undefined || from === undefined) throw new UsageError('--handler and --from are both needed');
    const begin = pointOf('--from', from);
    const end = to === null ? null : pointOf('--to', to);
    return withStore(async (store) => {
      const plan = await planRerun(store, { handler, type, from, to }, [begin, end]);
      const { events, purged, types } = plan;
      if (dry && json) printJson({ dryRun: true, handler, events, purged, types });
      else if (!json) show(plan);
      if (dry) return EXIT.done;
      if (events === purged) return fail('no event matches: npx kit events lists events');
      if (!yes && !onTerminal()) throw new UsageError('without a terminal, --yes is needed');
      if (!yes && !(await agrees(`run ${handler} again on ${count(events - purged, 'event')}?`)))
        return fail('nothing was changed');
      const { processes } = await store.read.status(store.now());
      if (processes.receive === 'down') return fail(await whyDown(), EXIT.unreachable);
      return followRerun(store, await store.admin.askRerun(plan, store.now()), json);
    });
  },
} satisfies Command;

function show({ types, events, handler }: RerunPlan): void {
  printTable(
    ['type', 'events', 'left out: body purged'],
    types.map((one) => [one.type, one.events, one.purged]),
    { none: 'no event matches' },
  );
  print(`${count(events, 'event')}; ${handler} gets the types in its \`on\`, and its maxAgeMs applies`);
}

/**
 * Follows the rerun until each event was tried once. Failed tasks may still wait for a retry then. Ctrl-C does not stop
 * the rerun.
 */
async function followRerun(store: Store, id: number, json: boolean): Promise<number> {
  let left = false;
  process.on('SIGINT', () => (left = true));
  const end = await follow(json, async (): Promise<Look<Rerun | 'left' | 'down'>> => {
    const rerun = (await store.admin.reruns(LISTED)).find((one) => one.id === id);
    if (!rerun) throw new Error(`rerun ${id} is gone`);
    const line = wordingOf(rerun);
    if (rerun.state !== 'running') return { line, result: rerun };
    if (left) return { line, result: 'left' };
    const { processes } = await store.read.status(store.now());
    return processes.receive === 'down' ? { line, result: 'down' } : { line };
  });
  if (end === 'down') return fail(`${await whyDown()}; rerun ${id} then continues`, EXIT.unreachable);
  if (end === 'left')
    return fail(`rerun ${id} continues: npx kit rerun shows it, npx kit rerun cancel ${id} stops it`, EXIT.done);
  if (json) printJson(end);
  return end.state === 'ended' ? EXIT.done : EXIT.failed;
}

function wordingOf({ id, state, seen, events, made, untried, retrying, kept, purged }: Rerun): string {
  const also = [
    ...(retrying > 0 ? [`${retrying} failed, retrying`] : []),
    ...(kept > 0 ? [`${kept} already waiting`] : []),
    ...(purged > 0 ? [`${purged} left out because their bodies are purged`] : []),
  ];
  return [
    `rerun ${id} ${state}: ${seen} of ${events} seen, ${made - untried} of ${count(made, 'task')} run`,
    ...also,
  ].join('; ');
}

async function list(json: boolean): Promise<void> {
  const reruns = await withStore((store) => store.admin.reruns(LISTED));
  const rows = reruns.map((one) => [
    ...[one.id, one.askedAt, one.handler, one.type, one.from, one.to, one.state],
    ...[one.seen, one.events, one.made, one.untried, one.retrying, one.purged],
  ]);
  const options = { none: 'no reruns', least: ['purged', 'type', 'asked', 'untried'] };
  return printList(json, { reruns }, COLUMNS, rows, options);
}

async function cancel(id: number | undefined): Promise<void> {
  if (id === undefined) throw new UsageError('which rerun? npx kit rerun lists them');
  const skipped = await withStore((store) => cancelRerun(store, id, clockOf(store), progress));
  print(`rerun ${id} is cancelled: ${count(skipped, 'waiting task')} skipped`);
}
