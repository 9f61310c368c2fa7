// What is stuck? Tasks by state and handler. Why, explain says: errors and names of lanes may quote what strangers wrote.
import { EXIT } from '../errors.ts';
import { clock, number, oneOf, parse, print, printJson, printTable, withStore, type Command } from './command.ts';

export const TASK_STATES = ['held', 'ready', 'running', 'done', 'skipped', 'dead'] as const;

const command: Command = {
  summary: 'tasks, newest first',
  usage: `tasks [--state ${TASK_STATES.join('|')}] [--handler NAME] [--before ID] [--limit N] [--json]`,
  async run(args) {
    const text = { type: 'string' } as const;
    const { values } = parse(args, {
      state: text,
      handler: text,
      before: text,
      limit: text,
      json: { type: 'boolean' },
    });
    const filter = {
      state: oneOf('--state', TASK_STATES, values.state),
      handler: values.handler,
      before: number('--before', values.before),
      limit: number('--limit', values.limit) ?? 20,
    };
    const page = await withStore((store) => store.tasks(filter, clock.now()));
    if (values.json)
      printJson({ ...page, tasks: page.tasks.map((task) => ({ ...task, error: undefined, lane: undefined })) });
    else {
      printTable(
        ['task', 'handler', 'state', 'tries', 'type', 'key', 'due'],
        page.tasks.map((task) => [task.id, task.handler, task.state, task.attempts, task.type, task.key, task.dueAt]),
      );
      if (page.next !== null) print(`more: npx kit tasks --before ${page.next}`);
    }
    return EXIT.done;
  },
};
export default command;
