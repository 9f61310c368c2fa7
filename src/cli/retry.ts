// Runs dead letters again, and skipped or waiting tasks: in their lane's order, with a new budget of attempts.
import { EXIT } from '../errors.ts';
import { mendAll } from '../store/mend.ts';
import { clock, count, print, printJson, progress, withStore, type Command } from './command.ts';
import { selectTasks } from './selection.ts';

const command: Command = {
  summary: 'run dead, skipped or waiting tasks again',
  usage: 'retry <task id …> | retry --state dead [--handler NAME] [--group ID] [--json]',
  async run(args) {
    const { filter, json } = selectTasks(args);
    const retried = await withStore((store) =>
      mendAll(store, filter, clock.now(), (ids) => store.retry(ids, clock.now()), progress),
    );
    if (json) printJson({ retried });
    else if (retried === 0) print('no task matched that is dead, skipped or waiting');
    else print(`${count(retried, 'task')} will run again`);
    return retried > 0 ? EXIT.done : EXIT.failed;
  },
};
export default command;
