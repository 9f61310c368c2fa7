// What is stuck? Tasks by state and handler. Why, explain says: errors and names of lanes may quote what strangers wrote.
import { EXIT } from '../../base/errors.ts';
import { taskState } from '../../admin/filters.ts';
import { changeInSteps } from '../../admin/in-steps.ts';
import type { Store } from '../../store/store.ts';
import type { TaskFilter } from '../../store/read.ts';
import {
  clean,
  clock,
  count,
  fail,
  number,
  oneOf,
  parse,
  print,
  printJson,
  printTable,
  progress,
  UsageError,
  withStore,
  type Command,
} from '../lib/command.ts';
import { unloadedWords } from '../lib/selection.ts';

/** Lanes that one step takes over. */
const LANES = 500;
const SHOWN_LANES = 20;

const command: Command = {
  summary: 'tasks, newest first',
  usage: `tasks [--state ${taskState.options.join('|')}] [--handler NAME] [--group ID] [--before ID] [--limit N] [--json]
       npx kit tasks --state dead --groups [--handler NAME] [--json]     dead letters by cause, largest first
       npx kit tasks --lanes [--json]     what most tasks wait for: the head of each lane
       npx kit tasks move --from OLD --to NEW     after a handler was renamed: what waits, is dead or skipped`,
  async run(args) {
    const text = { type: 'string' } as const;
    const { values, positionals } = parse(args, {
      state: text,
      handler: text,
      group: text,
      groups: { type: 'boolean' },
      lanes: { type: 'boolean' },
      before: text,
      limit: text,
      from: text,
      to: text,
      json: { type: 'boolean' },
    });
    const [verb, ...more] = positionals;
    if (more.length > 0 || (verb !== undefined && verb !== 'move')) throw new UsageError('tasks, or tasks move');
    if (verb === 'move') return move(values.from, values.to, values.json);
    if (values.lanes) return showLanes(values.json);
    const filter = {
      state: oneOf('--state', taskState.options, values.state),
      handler: values.handler,
      group: number('--group', values.group),
      before: number('--before', values.before),
      limit: number('--limit', values.limit) ?? 20,
    };
    if (values.groups) {
      if (filter.state !== 'dead') throw new UsageError('only dead tasks are grouped: --state dead --groups');
      const found = await withStore((store) => store.groups(filter));
      if (values.json) printJson(found);
      else {
        printTable(
          ['group', 'dead', 'handler', 'first', 'last', 'sample', 'cause'],
          found.groups.map((group) => [
            group.id,
            group.dead,
            group.handler,
            group.firstAt,
            group.lastAt,
            group.key,
            group.pattern,
          ]),
        );
        print(
          `${count(found.dead, 'dead letter')}; npx kit retry --group <group>, npx kit discard --group <group> --reason TEXT`,
        );
      }
      return EXIT.done;
    }
    const { page, unloaded } = await withStore(async (store) => ({
      page: await firstPage(store, filter),
      unloaded: (await store.handlers()).flatMap(({ name, loaded }) => (loaded ? [] : [name])),
    }));
    if (values.json)
      printJson({ ...page, tasks: page.tasks.map((task) => ({ ...task, error: undefined, lane: undefined })) });
    else {
      printTable(
        ['task', 'handler', 'state', 'tries', 'type', 'key', 'due'],
        page.tasks.map((task) => [task.id, task.handler, task.state, task.attempts, task.type, task.key, task.dueAt]),
      );
      const waiting = page.tasks.filter(({ state }) => state === 'ready' || state === 'held');
      for (const name of unloaded.filter((one) => waiting.some(({ handler }) => handler === one)))
        print(`tasks left waiting: no loaded handler is named ${clean(name)}. ${unloadedWords(name)}`);
      if (page.next !== null) print(`more: the same with --before ${page.next}`);
    }
    return EXIT.done;
  },
};
export default command;

async function showLanes(json = false): Promise<number> {
  const found = await withStore((store) => store.waitingLanes(SHOWN_LANES));
  const lanes = found.map(({ handler, waiting, more, head }) => ({
    handler,
    waiting,
    more,
    key: head.key,
    attempts: head.attempts,
  }));
  if (json) printJson({ lanes });
  else {
    printTable(
      ['handler', 'waiting', 'for', 'its tries'],
      lanes.map(({ handler, waiting, more, key, attempts }) => [
        handler,
        more ? `${waiting} or more` : waiting,
        key,
        attempts,
      ]),
    );
    print('why it does not go on: npx kit explain <key>');
  }
  return EXIT.done;
}

/** A page looks at a bounded number of tasks; those that match may lie further back. */
async function firstPage(store: Store, filter: TaskFilter): Promise<Awaited<ReturnType<Store['tasks']>>> {
  for (let before = filter.before; ;) {
    const page = await store.tasks({ ...filter, before }, clock.now());
    if (page.tasks.length > 0 || page.next === null) return page;
    before = page.next;
  }
}

async function move(from = '', to = '', json = false): Promise<number> {
  if (!from || !to || from === to) throw new UsageError('two handlers are needed: --from OLD --to NEW');
  return withStore(async (store) => {
    const known = (await store.handlers()).map(({ name }) => name);
    for (const name of [from, to]) {
      if (known.includes(name)) continue;
      return fail(`no handler was ever named ${clean(name)}; known are: ${known.join(', ') || 'none'}`);
    }
    const give = (ids: number[]): Promise<number> => store.giveTo(ids, to, clock.now());
    const moved = await changeInSteps(store, { handler: from }, clock.now(), give, progress);
    for (let after: number | null = 0; after !== null;)
      after = await store.giveLanes(from, to, after, LANES, clock.now());
    if (json) printJson({ moved });
    else print(`${count(moved, 'task')} moved from ${from} to ${to}; those that are done stay`);
    return EXIT.done;
  });
}
