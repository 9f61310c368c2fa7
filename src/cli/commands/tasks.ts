// Lists tasks by state and handler. The list leaves out errors and lane names, which may be personal: `explain` shows
// them.
import { taskFilter, taskQuery, taskState } from '../../admin/filters.ts';
import { moveTasks, unloadedWords } from '../../admin/move.ts';
import type { TaskFilter } from '../../store/read.ts';
import type { Store } from '../../store/store.ts';
import { number, parse, readOptions, UsageError, type Command } from '../lib/command.ts';
import { clean, count, print, printJson, progress } from '../lib/print.ts';
import { withStore } from '../lib/store.ts';
import { clockOf } from '../../store/clock.ts';
import { printList } from '../lib/table.ts';

const SHOWN_LANES = 20;

export default {
  summary: 'tasks, newest first',
  usage: `tasks [--state ${taskState.options.join('|')}] [--handler NAME] [--group ID]
         [--older-than 30m|6h|2d] [--before ID] [--limit N] [--json]
       npx kit tasks --state dead --groups [--handler NAME] [--json]     dead letters by cause
       npx kit tasks --lanes [--json]     the longest lanes, and what blocks each
       npx kit tasks move --from OLD --to NEW     after a rename: its steps of setup, then its tasks
         New events overtake those that wait for OLD. To keep the order:
         pause --all, reload, move, resume --all`,
  async run(args) {
    const { values, positionals } = parse(args, {
      text: ['state', 'handler', 'group', 'older-than', 'before', 'limit', 'from', 'to'],
      flags: ['groups', 'lanes', 'json'],
    });
    const { from, to, json = false } = values;
    const [verb, ...more] = positionals;
    if (more.length > 0 || (verb !== undefined && verb !== 'move')) throw new UsageError('tasks, or tasks move');
    if (verb === 'move') return move(from, to, json);
    if (values.lanes) return showLanes(json);
    const asked = readOptions(taskQuery, values);
    const limit = number('--limit', values.limit) ?? 20;
    return values.groups
      ? showGroups({ ...asked, limit }, json)
      : showTasks((now) => ({ ...taskFilter(asked, now), limit }), json);
  },
} satisfies Command;

async function showTasks(select: (now: number) => TaskFilter, json: boolean): Promise<void> {
  const { page, handlers } = await withStore(async (store) => ({
    page: await firstPage(store, select(store.now())),
    handlers: await store.read.handlers(store.now()),
  }));
  const shown = { ...page, tasks: page.tasks.map((task) => ({ ...task, error: undefined, lane: undefined })) };
  const head = ['task', 'handler', 'state', 'tries', 'type', 'key', 'due'];
  const rows = page.tasks.map((one) => [one.id, one.handler, one.state, one.attempts, one.type, one.key, one.dueAt]);
  printList(json, shown, head, rows, { none: 'no task matches', least: ['type'] });
  if (json) return;
  const waiting = page.tasks.filter(({ state }) => state === 'ready' || state === 'held');
  for (const { name, loaded } of handlers)
    if (!loaded && waiting.some(({ handler }) => handler === name))
      print(clean(`tasks left waiting: no loaded handler is named ${name}. ${unloadedWords(name)}`));
  if (page.next !== null) print(`more: the same with --before ${page.next}`);
}

/** The first page with tasks. Each page searches a limited number of tasks, so a page can be empty before the end. */
async function firstPage(store: Store, filter: TaskFilter): ReturnType<Store['read']['tasks']> {
  for (let before = filter.before; ;) {
    const page = await store.read.tasks({ ...filter, before }, store.now());
    if (page.tasks.length > 0 || page.next === null) return page;
    before = page.next;
  }
}

async function showGroups({ state, handler, limit }: TaskFilter & { limit: number }, json: boolean): Promise<void> {
  if (state !== 'dead') throw new UsageError('only dead tasks are grouped: --state dead --groups');
  const found = await withStore((store) => store.read.groups({ handler, limit }));
  const head = ['group', 'dead', 'handler', 'first', 'last', 'sample', 'cause'];
  const rows = found.groups.map((one) => [
    one.id,
    one.dead,
    one.handler,
    one.firstAt,
    one.lastAt,
    one.key,
    one.pattern,
  ]);
  printList(json, found, head, rows, { none: '0 dead letters', least: ['first', 'sample', 'last'] });
  const next = 'npx kit retry --group <group>, npx kit discard --group <group> --reason TEXT';
  if (!json && found.dead > 0) print(`${count(found.dead, 'dead letter')}; ${next}`);
}

async function showLanes(json: boolean): Promise<void> {
  const found = await withStore((store) => store.read.waitingLanes(SHOWN_LANES));
  const lanes = found.map(({ handler, waiting, more, head }) => {
    return { handler, waiting, more, key: head.key, attempts: head.attempts };
  });
  const rows = lanes.map(({ handler, waiting, more, key, attempts }) => {
    return [handler, more ? `${waiting} or more` : waiting, key, attempts];
  });
  const head = ['handler', 'waiting', 'for', 'its tries'];
  printList(json, { lanes }, head, rows, { none: 'no task waits for another' });
  if (!json && lanes.length > 0) print('why a lane does not advance: npx kit explain <key>');
}

async function move(from = '', to = '', json = false): Promise<void> {
  if (!from || !to || from === to) throw new UsageError('two handlers are needed: --from OLD --to NEW');
  const { moved, steps, paused, since } = await withStore(async (store) => {
    const { waiting } = await store.read.status(store.now());
    const place = waiting.find(({ handler }) => handler === from)?.since ?? null;
    return { ...(await moveTasks(store, { from, to }, clockOf(store), progress)), since: place };
  });
  if (json) return printJson({ moved, steps, paused, ...(since !== null && { waitingSince: since }) });
  if (steps > 0)
    print(`${count(steps, 'step')} of setup moved from ${from} to ${to}; repeat this command once ${to} is loaded`);
  else print(`${count(moved, 'task')} moved from ${from} to ${to}; those that are done stay`);
  if (paused) print(`${to} is paused, as ${from} was; once the tasks have moved: npx kit resume ${to}, or --all`);
  else if (steps > 0) print(`until then ${to} runs new events before those that wait; npx kit pause --all avoids that`);
  if (since !== null)
    print(
      clean(
        `events since ${since} waited for ${from}, without tasks yet: npx kit rerun --handler ${to} --from ${since} makes those that ${to} lacks`,
      ),
    );
}
