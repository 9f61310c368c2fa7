// Gives up dead or waiting tasks for good: they are skipped, and say why.
import { EXIT } from '../errors.ts';
import { mendAll } from '../store/mend.ts';
import { clock, count, print, printJson, progress, UsageError, withStore, type Command } from './command.ts';
import { selectTasks } from './selection.ts';

const command: Command = {
  summary: 'give up dead or waiting tasks, with a reason',
  usage:
    'discard <task id …> --reason TEXT | discard --state dead [--handler NAME] [--group ID] --reason TEXT [--json]',
  async run(args) {
    const { filter, reason, json } = selectTasks(args);
    if (!reason) throw new UsageError('--reason is needed: it is kept with the tasks');
    const discarded = await withStore((store) =>
      mendAll(store, filter, clock.now(), (ids) => store.discard(ids, reason, clock.now()), progress),
    );
    if (json) printJson({ discarded });
    else if (discarded === 0) print('no task matched that is dead or waiting');
    else print(`${count(discarded, 'task')} skipped`);
    return discarded > 0 ? EXIT.done : EXIT.failed;
  },
};
export default command;
