// Runs dead, skipped or waiting tasks again, in the order of their lanes and with a new budget of attempts.
import { change } from '../lib/change.ts';
import type { Command } from '../lib/command.ts';

const command: Command = {
  summary: 'run dead, skipped or waiting tasks again',
  usage: 'retry <task id …> | retry --state dead [--handler NAME] [--group ID] [--yes] [--json]',
  run: (args) => change('retry', args),
};
export default command;
