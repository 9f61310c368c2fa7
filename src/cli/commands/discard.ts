// Gives up dead or waiting tasks for good: they become skipped, and the reason is stored with them.
import { change } from '../lib/change.ts';
import type { Command } from '../lib/command.ts';

const command: Command = {
  summary: 'give up dead or waiting tasks, with a reason',
  usage: `discard <task id …> --reason TEXT
       npx kit discard --state dead [--handler NAME] [--group ID] --reason TEXT [--yes] [--json]`,
  run: (args) => change('discard', args),
};
export default command;
