// What is stuck, and why? Tasks by state and handler.
import { EXIT } from '../errors.ts';
import {
  clock,
  count,
  number,
  oneOf,
  parse,
  print,
  printJson,
  printTable,
  UsageError,
  withStore,
  type Command,
} from './command.ts';

export const TASK_STATES = ['held', 'ready', 'running', 'done', 'skipped', 'dead'] as const;

const command: Command = {
  summary: 'tasks, newest first',
  usage: `tasks [--state ${TASK_STATES.join('|')}] [--handler NAME] [--group ID] [--before ID] [--limit N] [--json]
       npx kit tasks --state dead --groups [--handler NAME] [--json]     dead letters by cause, largest first`,
  async run(args) {
    const text = { type: 'string' } as const;
    const { values } = parse(args, {
      state: text,
      handler: text,
      group: text,
      groups: { type: 'boolean' },
      before: text,
      limit: text,
      json: { type: 'boolean' },
    });
    const filter = {
      state: oneOf('--state', TASK_STATES, values.state),
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
    const page = await withStore((store) => store.tasks(filter, clock.now()));
    if (values.json) printJson(page);
    else {
      printTable(
        ['task', 'handler', 'state', 'tries', 'type', 'key', 'due', 'why'],
        page.tasks.map((task) => [
          task.id,
          task.handler,
          task.state,
          task.attempts,
          task.type,
          task.key,
          task.dueAt,
          task.error,
        ]),
      );
      if (page.next !== null) print(`more: npx kit tasks --before ${page.next}`);
    }
    return EXIT.done;
  },
};
export default command;
