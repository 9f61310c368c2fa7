// Retry and discard on the command line. Tasks are selected by id or by a filter. A command without either is refused.
// At a terminal, many tasks are changed only after a question, and exactly those that it counted.
import { taskFilter, taskQuery } from '../../admin/filters.ts';
import { unloadedWords } from '../../admin/move.ts';
import { CHANGED, changeThese, matchingTasks, REPEATS, taskChange, type Action } from '../../admin/tasks.ts';
import { EXIT } from '../../base/errors.ts';
import { clockOf } from '../../store/clock.ts';
import type { TaskFilter } from '../../store/read.ts';
import type { Store } from '../../store/store.ts';
import { agrees, onTerminal } from './ask.ts';
import { number, parse, readOptions, UsageError } from './command.ts';
import { clean, count, fail, print, printJson, progress } from './print.ts';
import { withStore } from './store.ts';

const WORDS = {
  retry: { become: 'will run again', ask: 'run again', states: 'dead, skipped or waiting' },
  discard: { become: 'skipped', ask: 'discard for good', states: 'dead or waiting' },
};

/**
 * Resolves to the exit code. Ctrl-C stops the command between two steps. Tasks that were changed before stay changed.
 */
export async function change(action: Action, args: string[]): Promise<number> {
  const { select, reason, json, yes } = selectTasks(args);
  if (action === 'discard' && !reason) throw new UsageError('--reason is needed: it is kept with the tasks');
  const stop = new AbortController();
  process.on('SIGINT', () => stop.abort());
  let left = 0;
  const onStep = (done: number, of: number): void => {
    left = of - done;
    progress(done, of);
  };
  const { become, ask, states } = WORDS[action];
  const changed = await withStore(async (store) => {
    const filter = select(store.now());
    const asked = taskChange(action, filter, reason);
    const ids = await matchingTasks(store, asked, clockOf(store));
    const asks = !yes && !filter.ids && ids.length > 1 && onTerminal();
    if (asks && !(await agrees(`${ask}: ${count(ids.length, 'task')}?`))) return undefined;
    const isRetry = action === 'retry';
    return {
      waiting: isRetry ? await waitingForHandlers(store, filter) : [],
      done: isRetry && filter.ids ? await store.admin.matching({ ids: filter.ids, state: 'done' }, store.now()) : [],
      again: filter.state === 'done',
      moved: await changeThese(ids, store, asked, clockOf(store), onStep, stop.signal),
    };
  });
  if (!changed) return fail('nothing was changed');
  const { moved, waiting, done, again } = changed;
  if (json) printJson({ [CHANGED[action]]: moved, left });
  else if (left > 0)
    return fail(`stopped: ${count(moved, 'task')} ${become}, ${left} are left: run the same command again`);
  else if (moved === 0 && done.length === 0)
    fail(`no task matched that is ${again ? 'done, with the body of its event' : states}: npx kit tasks lists them`);
  else {
    const others = moved - waiting.reduce((sum, { tasks }) => sum + tasks, 0);
    if (others > 0) print(`${count(others, 'task')} ${become}`);
  }
  if (!again && done.length > 0)
    fail(`${count(done.length, 'task')} done already: npx kit retry ${done.join(' ')} --state done. ${REPEATS}`);
  for (const { name, tasks } of waiting)
    fail(clean(`${count(tasks, 'task')} left waiting: no loaded handler is named ${name}. ${unloadedWords(name)}`));
  return moved > 0 && left === 0 ? EXIT.done : EXIT.failed;
}

function selectTasks(args: string[]) {
  const { values, positionals } = parse(args, {
    text: ['state', 'handler', 'group', 'older-than', 'reason'],
    flags: ['json', 'yes'],
  });
  const asked = readOptions(taskQuery, values);
  const { state, handler, group } = asked;
  const ids = positionals.map((id) => number('a task id', id) ?? 0);
  if (ids.length === 0 && !state && !handler && group === undefined)
    throw new UsageError('name tasks by id, or by --state, --handler or --group');
  const select = (now: number): TaskFilter => ({ ...taskFilter(asked, now), ...(ids.length > 0 ? { ids } : {}) });
  return { select, reason: values.reason, json: values.json ?? false, yes: values.yes ?? false };
}

/** Counts the selected tasks of each handler that is not loaded. */
async function waitingForHandlers(store: Store, filter: TaskFilter): Promise<{ name: string; tasks: number }[]> {
  const waiting: { name: string; tasks: number }[] = [];
  for (const { name, loaded } of await store.read.handlers(store.now())) {
    if (loaded || (filter.handler ?? name) !== name) continue;
    const { length: tasks } = await store.admin.matching({ ...filter, handler: name }, store.now());
    if (tasks > 0) waiting.push({ name, tasks });
  }
  return waiting;
}
