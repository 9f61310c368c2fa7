// Which tasks a change is for: by id, or by state and handler; never all by an empty line. And the change, step by step.
import { EXIT } from '../errors.ts';
import { taskState } from '../ops/queries.ts';
import { mendAll } from '../store/mend.ts';
import type { Store } from '../store/store.ts';
import type { TaskFilter } from '../store/watch-store.ts';
import {
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

export interface Change {
  mend: (store: Store, ids: number[]) => Promise<number>;
  /** The field of the JSON: retried, discarded. */
  field: string;
  /** What becomes of so many tasks, and the states that can be changed. */
  words: string;
  states: string;
}

/** Resolves to the exit code. Ctrl-C ends it between two steps: what was moved stays moved. */
export async function changeAll(filter: TaskFilter, json: boolean, { mend, field, words, states }: Change) {
  const stop = new AbortController();
  process.on('SIGINT', () => stop.abort());
  let left = 0;
  const onStep = (done: number, of: number): void => {
    left = of - done;
    progress(done, of);
  };
  const moved = await withStore((store) =>
    mendAll(store, filter, clock.now(), (ids) => mend(store, ids), onStep, stop.signal),
  );
  if (json) printJson({ [field]: moved, left });
  else if (left > 0)
    return fail(`stopped: ${count(moved, 'task')} ${words}, ${left} are left: the same command goes on`);
  else if (moved === 0) return fail(`no task matched that is ${states}: npx kit tasks lists them`);
  else print(`${count(moved, 'task')} ${words}`);
  return moved > 0 && left === 0 ? EXIT.done : EXIT.failed;
}
