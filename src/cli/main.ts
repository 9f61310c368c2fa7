// Derives commands from the operations. A command opens the store itself, so it works while the kit is down.
import { existsSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { systemClock as clock } from '../base/clock.ts';
import { describe, EXIT } from '../base/errors.ts';
import { ConfigError, loadConfig, loadConfigOfRun, readEnv, type Config } from '../config.ts';
import { diskOf } from '../keep/alarms.ts';
import { OPERATIONS } from '../operations/all.ts';
import {
  argumentsOf,
  checked,
  optionOf,
  Refused,
  type Operation,
  type OperationContext,
} from '../operations/define.ts';
import { openStore } from '../operations/store/open.ts';
import { StoreError } from '../store/store.ts';
import { VERSION } from '../version.ts';
import { restore } from './restore.ts';
import { shown, textOf } from './table.ts';

/** A command waits this long for the store's lock. */
const BUSY_MS = 5_000;
const TOOLS = new URL('../tools/commands/', import.meta.url);

/** The operations, and commands that the API lacks because they use no open store. The container image has no tools. */
async function allCommands(): Promise<Operation[]> {
  if (!existsSync(TOOLS)) return [...OPERATIONS, restore];
  const { create } = await import('../tools/commands/new.ts');
  const { trigger } = await import('../tools/commands/trigger.ts');
  const { copy } = await import('../tools/commands/copy.ts');
  return [...OPERATIONS, restore, copy, trigger, create];
}

function help(all: Operation[]): string {
  const width = Math.max(...all.map(({ name }) => name.length));
  const lines = all.map(({ name, about }) => `  ${name.padEnd(width)}  ${about}`);
  const last = 'npx kit <command> --help shows its options.';
  return ['npx kit <command> [options] [--json]', '', ...lines, '', last].join('\n');
}

function helpOf(operation: Operation): string {
  const options = argumentsOf(operation).map(({ name, kind, choices, about }) => {
    const value = kind === 'flag' ? '' : ` ${choices.join('|') || '…'}`;
    const shape = operation.first?.includes(name) ? `[${name}]` : `${optionOf(name)}${value}`;
    return `  ${shape.padEnd(18)} ${about}`.trimEnd();
  });
  const json = '  --json             the result as JSON';
  return [`npx kit ${operation.name}: ${operation.about}`, ...options, json].join('\n');
}

function read(operation: Operation, given: string[]): { args: Record<string, unknown>; json: boolean } {
  const known = argumentsOf(operation).map(({ name, kind }) => ({ name, kind, option: optionOf(name).slice(2) }));
  const options = Object.fromEntries(
    known.map(({ option, kind }) => [
      option,
      { type: kind === 'flag' ? 'boolean' : 'string', multiple: kind === 'list' } as const,
    ]),
  );
  const all = { ...options, json: { type: 'boolean' } as const };
  const parsed = parseArgs({ args: given, options: all, allowPositionals: true });
  const { json = false, ...values } = parsed.values as Record<string, unknown>;
  const args: Record<string, unknown> = Object.fromEntries(
    known.flatMap(({ name, option }) => (values[option] === undefined ? [] : [[name, values[option]]])),
  );
  const { first = [] } = operation;
  if (parsed.positionals.length > first.length)
    throw new Refused(`${operation.name} does not take ${parsed.positionals.slice(first.length).join(' ')}`);
  for (const [n, value] of parsed.positionals.entries()) args[first[n] ?? ''] = value;
  return { args, json: json === true };
}

async function run(operation: Operation, given: string[]): Promise<number> {
  const { args, json } = read(operation, given);
  const asked = checked(operation, args);
  // Only DATABASE_URL is read, so that a fault of another variable does not hide the store.
  const where = (): Config => loadConfigOfRun({ DATABASE_URL: readEnv()['DATABASE_URL'] });
  const opened = OPERATIONS.includes(operation) ? await open(where()) : undefined;
  const own = { clock, disk: () => diskOf(where().storePath), config: () => loadConfig(readEnv()) };
  const result = await operation.run({ ...(opened && { db: opened.db }), ...own } as OperationContext, asked);
  opened?.store.close();
  const text = textOf(operation.show ? operation.show(result) : result);
  const code = operation.fails?.(result) ? EXIT.failed : EXIT.done;
  return say(shown(json ? JSON.stringify(result, null, 2) : text), code);
}

function open(where: Config): ReturnType<typeof openStore> {
  const { storePath: path } = where;
  if (path !== null && !existsSync(path))
    throw new ConfigError([`there is no store at ${path}: see DATABASE_URL, or start the kit`]);
  return openStore(where, { busyMs: BUSY_MS });
}

async function main([name, ...rest]: string[]): Promise<number> {
  if (name === undefined || name === '--help' || name === 'help') return say(help(await allCommands()), EXIT.done);
  if (name === '--version') return say(`webhook-receiver-kit ${VERSION}, Node ${process.version}`, EXIT.done);
  const known = OPERATIONS.some((one) => one.name === name) ? OPERATIONS : await allCommands();
  const operation = known.find((one) => one.name === name);
  if (!operation)
    return complain(`there is no command ${name}: there are ${known.map((one) => one.name).join(', ')}`, EXIT.usage);
  if (rest.includes('--help')) return say(helpOf(operation), EXIT.done);
  try {
    return await run(operation, rest);
  } catch (error) {
    const { message } = describe(error);
    if (error instanceof ConfigError) return complain(message, EXIT.configuration);
    if (error instanceof StoreError) return complain(message, error.mayPass ? EXIT.unreachable : EXIT.configuration);
    const isUsage = error instanceof Refused || (error as { code?: string }).code?.startsWith('ERR_PARSE_ARGS');
    return isUsage ? complain(message, EXIT.usage, `npx kit ${name} --help shows its options.`) : Promise.reject(error);
  }
}

function say(text: string, code: number): number {
  process.stdout.write(`${text}\n`);
  return code;
}

function complain(text: string, code: number, more = ''): number {
  process.stderr.write(`${shown(text)}\n${more && `${more}\n`}`);
  return code;
}

// The reader of the output has read enough and closed it, like `head`.
process.stdout.on('error', () => process.exit(EXIT.done));
process.exitCode = await main(process.argv.slice(2));
