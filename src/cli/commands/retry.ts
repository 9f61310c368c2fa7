// Runs dead, skipped or waiting tasks again, in the order of their lanes and with a new budget of attempts; and done
// tasks, if they are named.
import { change } from '../lib/change.ts';
import type { Command } from '../lib/command.ts';

export default {
  summary: 'run dead, skipped or waiting tasks again',
  usage: `retry <task id …>
       npx kit retry <task id …> --state done     calls to other systems can repeat
       npx kit retry --state dead [--handler NAME] [--group ID] [--older-than 6h] [--yes] [--json]`,
  run: (args) => change('retry', args),
} satisfies Command;
