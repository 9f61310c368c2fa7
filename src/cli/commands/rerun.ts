// Gives a handler history again: shows how much it is, asks, has `run` make the tasks, and follows it.
import { createInterface } from 'node:readline/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { EXIT } from '../../base/errors.ts';
import { changeInSteps } from '../../admin/in-steps.ts';
import type { Store } from '../../store/store.ts';
import type { Range, Rerun, Survey } from '../../store/read.ts';
import {
  clean,
  clock,
  count,
  fail,
  number,
  parse,
  pointOf,
  print,
  printJson,
  printTable,
  progress,
  UsageError,
  whyDown,
  withStore,
  type Command,
} from '../lib/command.ts';
import { unloadedWords } from '../lib/selection.ts';

const LOOK_MS = 250;
/** Events that one page of the count looks at. */
const PAGE = 5_000;
const LISTED = 20;

const command: Command = {
  summary: 'give a handler history again, in the order of its lanes, beside what comes',
  usage: `rerun --handler NAME --from <cursor or time> [--to <cursor or time>] [--type TYPE] [--dry-run] [--yes] [--json]
       npx kit rerun [--json]     those at work, and the last ones
       npx kit rerun cancel <id>
A time is one of receipt: 2026-01-31, or 2026-01-31T12:00:00Z; --to a cursor includes it, --to a time ends before it.
Each event runs once more, with the same idempotency key, whatever became of it before; what waits already is left alone.
The handler's own fields stay in force: it sees the types of its \`on\`, and maxAgeMs with onStale still skips what is old.`,
  async run(args) {
    const [text, flag] = [{ type: 'string' }, { type: 'boolean' }] as const;
    const { values, positionals } = parse(args, {
      handler: text,
      from: text,
      to: text,
      type: text,
      'dry-run': flag,
      yes: flag,
      json: flag,
    });
    const [verb, id, ...more] = positionals;
    if (more.length > 0 || (verb !== undefined && verb !== 'cancel'))
      throw new UsageError('rerun, or rerun cancel <id>');
    const { handler, from, to = null, type = null, 'dry-run': dry = false, yes = false, json = false } = values;
    if (verb === 'cancel') return withStore((store) => cancel(store, number('the rerun', id)));
    if (handler === undefined && from === undefined) return withStore((store) => list(store, json));
    if (handler === undefined || from === undefined) throw new UsageError('--handler and --from are both needed');
    const point = pointOf('--from', from);
    const end = to === null ? null : pointOf('--to', to);

    return withStore(async (store) => {
      const known = await store.handlers();
      const loaded = known.flatMap((one) => (one.loaded ? [one.name] : []));
      if (!loaded.includes(handler)) {
        const gone = known.some(({ name }) => name === handler);
        const kept = gone ? `. Its waiting tasks are kept. ${unloadedWords(handler)}` : '';
        return fail(`no loaded handler is named ${clean(handler)}; loaded are: ${loaded.join(', ') || 'none'}${kept}`);
      }
      const range = await store.range(point, end);
      const types = await survey(store, range, type);
      const events = sum(types, 'events');
      const purged = sum(types, 'purged');
      if (dry && json) printJson({ dryRun: true, handler, events, purged, types });
      else if (!json) show(types, handler);
      if (dry) return EXIT.done;
      if (events === purged) return fail('there is no event to give: npx kit events lists what there is');
      if (!yes && !(await agrees(`give ${count(events - purged, 'event')} to ${handler} again?`)))
        return fail('not done');
      const { processes } = await store.status(clock.now());
      if (processes.receive === 'down') return fail(await whyDown(), EXIT.unreachable);
      const asked = await store.askRerun({ handler, type, from, to, events, range }, clock.now());
      return follow(store, asked, json);
    });
  },
};
export default command;

async function survey(store: Store, range: Range, type: string | null): Promise<Survey['types']> {
  const sums = new Map<string, Survey['types'][number]>();
  for (let at: Survey['next'] = null, last = false; !last;) {
    const { types, next }: Survey = await store.survey(range, type, at, PAGE);
    for (const { type: name, events, purged } of types) {
      const known = sums.get(name) ?? { type: name, events: 0, purged: 0 };
      sums.set(name, { type: name, events: known.events + events, purged: known.purged + purged });
    }
    at = next;
    last = next === null;
  }
  return [...sums.values()].toSorted((a, b) => b.events - a.events);
}

function sum(types: Survey['types'], of: 'events' | 'purged'): number {
  return types.reduce((all, one) => all + one[of], 0);
}

function show(types: Survey['types'], handler: string): void {
  printTable(
    ['type', 'events', 'left out: body purged'],
    types.map((one) => [one.type, one.events, one.purged]),
  );
  print(
    `${count(sum(types, 'events'), 'event')}; ${handler} is given those of the types in its \`on\`, and its maxAgeMs holds`,
  );
}

async function agrees(question: string): Promise<boolean> {
  if (!process.stdin.isTTY || !process.stderr.isTTY) throw new UsageError('without a terminal, say --yes');
  const terminal = createInterface({ input: process.stdin, output: process.stderr });
  const answer = await terminal.question(`${question} [y/N] `);
  terminal.close();
  return /^y(es)?$/i.test(answer.trim());
}

/** Until each event was tried; what failed goes on by itself. Ctrl-C leaves it running. */
async function follow(store: Store, id: number, json: boolean): Promise<number> {
  const left = new AbortController();
  process.on('SIGINT', () => left.abort());
  for (let shown = ''; ;) {
    const rerun = (await store.reruns(LISTED)).find((one) => one.id === id);
    if (!rerun) throw new Error(`rerun ${id} is gone`);
    const line = wordingOf(rerun);
    if (line !== shown && !json) print(line);
    shown = line;
    if (rerun.state !== 'running') {
      if (json) printJson(rerun);
      return rerun.state === 'ended' ? EXIT.done : EXIT.failed;
    }
    const { processes } = await store.status(clock.now());
    if (processes.receive === 'down')
      return fail(`${await whyDown()}; rerun ${id} goes on by itself then`, EXIT.unreachable);
    await sleep(LOOK_MS, undefined, { signal: left.signal }).catch(() => {});
    if (!left.signal.aborted) continue;
    process.stderr.write(`rerun ${id} goes on: npx kit rerun shows it, npx kit rerun cancel ${id} stops it\n`);
    return EXIT.done;
  }
}

function wordingOf({ id, state, seen, events, made, untried, retrying, kept, purged }: Rerun): string {
  const also = [
    ...(retrying > 0 ? [`${retrying} failed and are tried again`] : []),
    ...(kept > 0 ? [`${kept} waited already`] : []),
    ...(purged > 0 ? [`${purged} left out, their bodies purged`] : []),
  ];
  return [
    `rerun ${id} ${state}: ${seen} of ${events} seen, ${made - untried} of ${count(made, 'task')} run`,
    ...also,
  ].join('; ');
}

async function list(store: Store, json: boolean): Promise<number> {
  const reruns = await store.reruns(LISTED);
  if (json) printJson({ reruns });
  else if (reruns.length === 0) print('no reruns');
  else
    printTable(
      [
        'rerun',
        'asked',
        'handler',
        'type',
        'from',
        'to',
        'state',
        'seen',
        'of',
        'tasks',
        'untried',
        'failing',
        'purged',
      ],
      reruns.map((one) => [
        ...[one.id, one.askedAt, one.handler, one.type, one.from, one.to, one.state],
        ...[one.seen, one.events, one.made, one.untried, one.retrying, one.purged],
      ]),
    );
  return EXIT.done;
}

/** What waits of it is skipped; what is at work ends as it will. */
async function cancel(store: Store, id: number | undefined): Promise<number> {
  if (id === undefined) throw new UsageError('which rerun? npx kit rerun lists them');
  const waiting = await store.cancelRerun(id, clock.now());
  if (waiting === null) return fail(`there is no open rerun ${id}: npx kit rerun lists them`);
  const discard = (ids: number[]): Promise<number> => store.discard(ids, `rerun ${id} was cancelled`, clock.now());
  const skipped = await changeInSteps({ matching: async () => waiting }, {}, clock.now(), discard, progress);
  print(`rerun ${id} is cancelled: ${count(skipped, 'task')} that waited skipped`);
  return EXIT.done;
}
