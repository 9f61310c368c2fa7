// Gives up dead or waiting tasks for good: they are skipped, and say why.
import { clock, UsageError, type Command } from '../lib/command.ts';
import { changeAll, selectTasks } from '../lib/selection.ts';

const command: Command = {
  summary: 'give up dead or waiting tasks, with a reason',
  usage:
    'discard <task id …> --reason TEXT | discard --state dead [--handler NAME] [--group ID] --reason TEXT [--json]',
  async run(args) {
    const { filter, reason, json } = selectTasks(args);
    if (!reason) throw new UsageError('--reason is needed: it is kept with the tasks');
    return changeAll(filter, json, {
      fix: (store, ids) => store.discard(ids, reason, clock.now()),
      field: 'discarded',
      words: 'skipped',
      states: 'dead or waiting',
    });
  },
};
export default command;
