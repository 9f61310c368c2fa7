// Runs dead letters again, and skipped or waiting tasks: in their lane's order, with a new budget of attempts.
import { clock, type Command } from '../lib/command.ts';
import { changeAll, selectTasks } from '../lib/selection.ts';

const command: Command = {
  summary: 'run dead, skipped or waiting tasks again',
  usage: 'retry <task id …> | retry --state dead [--handler NAME] [--group ID] [--json]',
  async run(args) {
    const { filter, json } = selectTasks(args);
    return changeAll(filter, json, {
      fix: (store, ids) => store.retry(ids, clock.now()),
      field: 'retried',
      words: 'will run again',
      states: 'dead, skipped or waiting',
      run: true,
    });
  },
};
export default command;
