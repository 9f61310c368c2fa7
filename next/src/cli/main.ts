// Derives commands from the operations. It opens the store itself, so it works while the kit is down.
import { existsSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { systemClock as clock } from '../base/clock.ts';
import { describe, EXIT } from '../base/errors.ts';
import { ConfigError, loadConfigOfRun, readEnv } from '../config.ts';
import { diskOf } from '../keep/alarms.ts';
import { OPERATIONS } from '../operations/all.ts';
import { checked, nearest, Refused, type Operation } from '../operations/define.ts';
import { openForPeople } from '../operations/store/open.ts';
import { openSqlite } from '../store/sqlite/open.ts';
import { StoreError } from '../store/store.ts';
import { VERSION } from '../version.ts';
import { shown, table } from './table.ts';

/** A command waits this long for the store's lock. */
const BUSY_MS = 5_000;

const isFlag = (schema: { safeParse(value: unknown): { data?: unknown } }): boolean =>
  schema.safeParse(true).data === true;
const optionOf = (name: string): string => name.replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);

function help(): string {
  const width = Math.max(...OPERATIONS.map(({ name }) => name.length));
  const lines = OPERATIONS.map(({ name, about }) => `  ${name.padEnd(width)}  ${about}`);
  return ['npx kit <command> [options] [--json]', '', ...lines, '', 'npx kit <command> --help shows its options.'].join(
    '\n',
  );
}

function helpOf({ name, about, args, first }: Operation): string {
  const options = Object.entries(args.shape).map(([key, schema]) => {
    const { description = '' } = schema as { description?: string };
    const shape = key === first ? `[${key}]` : `--${optionOf(key)}${isFlag(schema as never) ? '' : ' …'}`;
    return `  ${shape.padEnd(18)} ${description}`.trimEnd();
  });
  return [`npx kit ${name}: ${about}`, ...options, '  --json'].join('\n');
}

function read(operation: Operation, given: string[]): { args: Record<string, unknown>; json: boolean } {
  const names = Object.entries(operation.args.shape);
  const options = Object.fromEntries(
    names.map(([name, schema]) => [optionOf(name), { type: isFlag(schema as never) ? 'boolean' : 'string' } as const]),
  );
  const all = { ...options, json: { type: 'boolean' } as const };
  const unknown = parseArgs({ args: given, options: all, strict: false, tokens: true }).tokens.find(
    (token) => token.kind === 'option' && !Object.hasOwn(all, token.name),
  );
  if (unknown?.kind === 'option')
    throw new Refused(`${operation.name} has no ${unknown.rawName}: ${nearest(unknown.name, Object.keys(all))}`);
  const parsed = parseArgs({ args: given, options: all, allowPositionals: true });
  const { json = false, ...values } = parsed.values as Record<string, unknown>;
  const args: Record<string, unknown> = Object.fromEntries(
    names.flatMap(([name]) => (values[optionOf(name)] === undefined ? [] : [[name, values[optionOf(name)]]])),
  );
  const [first, ...more] = parsed.positionals;
  if (more.length > 0 || (first !== undefined && operation.first === undefined))
    throw new Refused(`${operation.name} does not take ${parsed.positionals.join(' ')}: its options have names`);
  if (first !== undefined && operation.first !== undefined) args[operation.first] = first;
  return { args, json: json === true };
}

async function run(operation: Operation, given: string[]): Promise<string> {
  const { args, json } = read(operation, given);
  const asked = checked(operation, args);
  const { storePath } = loadConfigOfRun(readEnv());
  if (!existsSync(storePath)) throw new Refused(`there is no store at ${storePath}: see DATABASE_URL, or npm start`);
  const store = openSqlite(storePath, { busyMs: BUSY_MS });
  const context = { ...openForPeople(store.db), clock, disk: () => diskOf(storePath), version: VERSION };
  const result = await operation.run(context, asked);
  store.close();
  if (json) return shown(JSON.stringify(result, null, 2));
  return shown(operation.show ? operation.show(result as never) : table(result));
}

async function main([name, ...rest]: string[]): Promise<number> {
  if (name === undefined || name === '--help' || name === 'help') return say(help(), EXIT.done);
  if (name === '--version') return say(`webhook-receiver-kit ${VERSION}, Node ${process.version}`, EXIT.done);
  const operation = OPERATIONS.find((one) => one.name === name);
  const known = OPERATIONS.map((one) => one.name);
  if (!operation) return complain(`there is no command ${name}: ${nearest(name, known)}`, EXIT.usage, help());
  if (rest.includes('--help')) return say(helpOf(operation), EXIT.done);
  try {
    return say(await run(operation, rest), EXIT.done);
  } catch (error) {
    const { message } = describe(error);
    if (error instanceof ConfigError) return complain(message, EXIT.configuration);
    if (error instanceof StoreError) return complain(message, EXIT.unreachable);
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

// Whoever reads has read enough, like `head`.
process.stdout.on('error', () => process.exit(EXIT.done));
process.exitCode = await main(process.argv.slice(2));
