// `npm run init <folder>`: a git repository with what a team needs of this kit. The same command in a newer clone
// brings that repository the newer kit.
import '../../base/node/checked.js';
import { resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { describe, EXIT } from '../../base/errors.ts';
import { InitError } from './git.ts';
import { write } from './repository.ts';
import { readSource } from './source.ts';
import { wordsFor } from './words.ts';

const USAGE = `usage: npm run init <folder> [-- --tools]
  <folder>   empty or missing: makes a repository of what a team needs of this kit
             made by this command: adds this kit to its branch kit, for you to merge
  --tools    also the simulator, the demo and npm run dev. A repository that has them keeps them`;

function main(): number {
  const args = readArgs();
  if (!args) {
    console.error(USAGE);
    return EXIT.usage;
  }
  try {
    const source = readSource();
    for (const warning of source.warnings) console.error(`warning: ${warning}`);
    const written = write(source, args.folder, args.tools);
    console.log(written ? wordsFor(source, written) : `${args.folder} has kit ${source.version} already: up to date`);
    return EXIT.done;
  } catch (error) {
    const { message } = describe(error);
    const remedy = /^E(ACCES|PERM|ROFS)\b/.test(message) ? ': choose a folder that you may write to' : '';
    console.error(error instanceof InitError ? error.message : `${message}${remedy}`);
    return EXIT.failed;
  }
}

/** A folder is meant from where the user typed the command. npm runs it in the root of the clone. */
function readArgs(): { folder: string; tools: boolean } | undefined {
  try {
    const { values, positionals } = parseArgs({ options: { tools: { type: 'boolean' } }, allowPositionals: true });
    const [folder] = positionals;
    if (folder === undefined || positionals.length > 1) return undefined;
    return { folder: resolve(process.env['INIT_CWD'] ?? '', folder), tools: values.tools ?? false };
  } catch {
    return undefined;
  }
}

// The signal also ends git, so that main fails, and removes what it has begun.
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, () => undefined);
process.exitCode = main();
