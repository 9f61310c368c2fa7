// `npx kit <command>`: finds the command, runs it, and turns errors into words and an exit code. Each file in
// commands/ is a command of that name, so a new command needs no change here.
import '../base/node/checked.js';
import { readdirSync } from 'node:fs';
import { AdminError } from '../admin/error.ts';
import { ConfigError } from '../config.ts';
import { describe, EXIT } from '../base/errors.ts';
import { StoreError } from '../store/store.ts';
import { UsageError, type Command } from './lib/command.ts';
import { nearestType } from '../run/did-you-mean.ts';
import { version, versionText } from './lib/version.ts';
import { clean, fail, print, printJson } from './lib/print.ts';
import { bold } from './lib/table.ts';

const COMMANDS = new URL('commands/', import.meta.url);
const names = readdirSync(COMMANDS).flatMap((file) => (file.endsWith('.ts') ? [file.slice(0, -'.ts'.length)] : []));

// EPIPE means that the program which reads the output, for example `head`, has ended. That is no failure.
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
  if (command === '--version' || command === '-v') {
    if (rest.includes('--json')) printJson(version());
    else print(versionText(version()));
    return EXIT.done;
  }
  if (!names.includes(command)) {
    const near = nearestType(command, names);
    const remedy = `${near ? `did you mean ${near}? ` : ''}npx kit --help lists them`;
    return fail(`there is no command ${JSON.stringify(command)}: ${remedy}`, EXIT.usage);
  }
  const found = await load(command);
  if (rest.includes('--help') || rest.includes('-h')) {
    print(`${found.summary}\n\nUsage: npx kit ${found.usage}`);
    return EXIT.done;
  }
  try {
    return (await found.run(rest)) ?? EXIT.done;
  } catch (error) {
    return explainFailure(error, found);
  }
}

async function load(command: string): Promise<Command> {
  return ((await import(new URL(`${command}.ts`, COMMANDS).href)) as { default: Command }).default;
}

async function help(): Promise<void> {
  print(bold('npx kit <command>') + '   (--help after a command says more)\n');
  for (const command of names.toSorted()) print(`  ${command.padEnd(12)}${(await load(command)).summary}`);
}

function explainFailure(error: unknown, command: Command): number {
  if (error instanceof UsageError) return fail(`${error.message}\nUsage: npx kit ${command.usage}`, EXIT.usage);
  if (error instanceof AdminError && error.code === 'input')
    return fail(`${clean(error.message)}\nUsage: npx kit ${command.usage}`, EXIT.usage);
  if (error instanceof AdminError) return fail(clean([error.message, error.remedy ?? []].flat().join(': ')));
  if (error instanceof ConfigError) return fail(error.message, EXIT.configuration);
  if (error instanceof StoreError) return fail(error.message, EXIT.unreachable);
  const { name: kind, message, at } = describe(error);
  return fail(`${kind}: ${message}${at ? ` (${at})` : ''}`, EXIT.failed);
}
