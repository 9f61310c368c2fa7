// Which tasks a change is for: by id, or by state and handler; never all by an empty line.
import { taskState } from '../ops/queries.ts';
import type { TaskFilter } from '../store/watch-store.ts';
import { number, oneOf, parse, UsageError } from './command.ts';

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
