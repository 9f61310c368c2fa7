// Gives up dead or waiting tasks for good: they become skipped, and the reason is stored with them.
import { change } from '../lib/change.ts';
import type { Command } from '../lib/command.ts';

export default {
  summary: 'give up dead or waiting tasks, with a reason',
  usage: `discard <task id …> --reason TEXT
       npx kit discard --state dead|ready --reason TEXT [--handler NAME] [--group ID]
         [--older-than 30m|6h|2d] [--yes] [--json]     by age, ready means held too`,
  run: (args) => change('discard', args),
} satisfies Command;
