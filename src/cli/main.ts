// `npx kit <command>`: finds the command, and turns what it throws into words and an exit code.
import '../base/node/checked.js';
import { ConfigError } from '../config.ts';
import { describe, EXIT } from '../base/errors.ts';
import { StoreError } from '../store/store.ts';
import { bold, fail, print, UsageError, type Command } from './lib/command.ts';

const COMMANDS: Record<string, () => Promise<{ default: Command }>> = {
  status: () => import('./commands/status.ts'),
  events: () => import('./commands/events.ts'),
  explain: () => import('./commands/explain.ts'),
  tasks: () => import('./commands/tasks.ts'),
  retry: () => import('./commands/retry.ts'),
  rerun: () => import('./commands/rerun.ts'),
  discard: () => import('./commands/discard.ts'),
  reconcile: () => import('./commands/reconcile.ts'),
  verify: () => import('./commands/verify.ts'),
  gaps: () => import('./commands/gaps.ts'),
  quarantine: () => import('./commands/quarantine.ts'),
  prune: () => import('./commands/prune.ts'),
  backup: () => import('./commands/backup.ts'),
  restore: () => import('./commands/restore.ts'),
  erase: () => import('./commands/erase.ts'),
  reload: () => import('./commands/reload.ts'),
  doctor: () => import('./commands/doctor.ts'),
  trigger: () => import('./commands/trigger.ts'),
  new: () => import('./commands/new.ts'),
};

// Who reads us has seen enough: head, less.
process.stdout.on('error', ({ code }: NodeJS.ErrnoException) =>
  process.exit(code === 'EPIPE' ? EXIT.done : EXIT.failed),
);

const [name, ...args] = process.argv.slice(2);
process.exitCode = await main(name, args);

async function main(command: string | undefined, rest: string[]): Promise<number> {
  if (command === undefined || command === '--help' || command === '-h' || command === 'help') {
    await help();
    return command === undefined ? EXIT.usage : EXIT.done;
  }
  const load = Object.hasOwn(COMMANDS, command) ? COMMANDS[command] : undefined;
  if (!load) return fail(`there is no command ${JSON.stringify(command)}: npx kit --help lists them`, EXIT.usage);
  const { default: found } = await load();
  if (rest.includes('--help') || rest.includes('-h')) {
    print(`${found.summary}\n\nUsage: npx kit ${found.usage}`);
    return EXIT.done;
  }
  try {
    return await found.run(rest);
  } catch (error) {
    return explainFailure(error, found);
  }
}

async function help(): Promise<void> {
  print(bold('npx kit <command>') + '   (--help after a command says more)\n');
  for (const [command, load] of Object.entries(COMMANDS))
    print(`  ${command.padEnd(12)}${(await load()).default.summary}`);
}

function explainFailure(error: unknown, command: Command): number {
  if (error instanceof UsageError) return fail(`${error.message}\nUsage: npx kit ${command.usage}`, EXIT.usage);
  if (error instanceof ConfigError) return fail(error.message, EXIT.configuration);
  if (error instanceof StoreError) return fail(error.message, EXIT.unreachable);
  const { name: kind, message, at } = describe(error);
  return fail(`${kind}: ${message}${at ? ` (${at})` : ''}`, EXIT.failed);
}
