// Which tasks a change is for: by id, or by state and handler; never all by an empty line. And the change, step by step.
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
  progress,
  UsageError,
  withStore,
} from './command.ts';

export function selectTasks(args: string[]): { filter: TaskFilter; reason: string | undefined; json: boolean } {
  const text = { type: 'string' } as const;
  const { values, positionals } = parse(args, {
    state: text,
    handler: text,
    group: text,
    reason: text,
    json: { type: 'boolean' },
  });
  const state = oneOf('--state', taskState.options, values.state);
  const ids = positionals.map((id) => number('a task id', id) ?? 0);
  const group = number('--group', values.group);
  if (ids.length === 0 && !state && !values.handler && group === undefined)
    throw new UsageError('name tasks by id, or by --state, --handler or --group');
  const filter = { ...(ids.length > 0 ? { ids } : {}), state, handler: values.handler, group };
  return { filter, reason: values.reason, json: values.json ?? false };
}

/** How many of the tasks belong to handlers that are not loaded, by name. */
async function waitingForHandlers(store: Store, filter: TaskFilter): Promise<Map<string, number>> {
  const waiting = new Map<string, number>();
  for (const { name, loaded } of await store.handlers()) {
    if (loaded || (filter.handler ?? name) !== name) continue;
    const { length } = await store.matching({ ...filter, handler: name }, clock.now());
    if (length > 0) waiting.set(name, length);
  }
  return waiting;
}

/** What becomes of the tasks of a handler that is not loaded. */
export function unloadedWords(handler: string): string {
  const name = clean(handler);
  return `They run once it is loaded again (npx kit reload). npx kit tasks move --from ${name} --to OTHER gives them to another handler; npx kit discard --handler ${name} --reason TEXT gives them up.`;
}

export interface Change {
  fix: (store: Store, ids: number[]) => Promise<number>;
  /** The field of the JSON: retried, discarded. */
  field: string;
  /** What becomes of so many tasks, and the states that can be changed. */
  words: string;
  states: string;
  /** Whether they need their handler then. */
  run?: boolean;
}

/** Resolves to the exit code. Ctrl-C ends it between two steps: what was moved stays moved. */
export async function changeAll(filter: TaskFilter, json: boolean, { fix, field, words, states, run }: Change) {
  const stop = new AbortController();
  process.on('SIGINT', () => stop.abort());
  let left = 0;
  const onStep = (done: number, of: number): void => {
    left = of - done;
    progress(done, of);
  };
  const { moved, waiting } = await withStore(async (store) => ({
    waiting: run ? await waitingForHandlers(store, filter) : new Map<string, number>(),
    moved: await changeInSteps(store, filter, clock.now(), (ids) => fix(store, ids), onStep, stop.signal),
  }));
  if (json) printJson({ [field]: moved, left });
  else if (left > 0)
    return fail(`stopped: ${count(moved, 'task')} ${words}, ${left} are left: the same command goes on`);
  else if (moved === 0) return fail(`no task matched that is ${states}: npx kit tasks lists them`);
  else {
    const others = moved - [...waiting.values()].reduce((sum, tasks) => sum + tasks, 0);
    if (others > 0) print(`${count(others, 'task')} ${words}`);
  }
  for (const [name, tasks] of waiting)
    fail(`${count(tasks, 'task')} left waiting: no loaded handler is named ${clean(name)}. ${unloadedWords(name)}`);
  return moved > 0 && left === 0 ? EXIT.done : EXIT.failed;
}
