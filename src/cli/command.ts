// What every command shares: its arguments, the store, and how it speaks. One file a command stands beside this.
import { parseArgs, styleText, type ParseArgsConfig } from 'node:util';
import { systemClock } from '../clock.ts';
import { loadConfig, readEnv } from '../config.ts';
import { openSqlite } from '../store/sqlite/open.ts';
import type { Store } from '../store/store.ts';

export interface Command {
  /** One line, for the list of commands. */
  summary: string;
  usage: string;
  /** Resolves to the exit code. Throws UsageError, ConfigError, StoreError. */
  run(args: string[]): Promise<number>;
}

/** Wrong words on the command line. */
export class UsageError extends Error {
  constructor(message: string) {
    super(message);
    this.name = 'UsageError';
  }
}

export const clock = systemClock;

export function parse<Options extends NonNullable<ParseArgsConfig['options']>>(args: string[], options: Options) {
  try {
    return parseArgs({ args, options, allowPositionals: true, strict: true });
  } catch (error) {
    throw new UsageError((error as Error).message);
  }
}

/** Every ten thousand, for work that takes its time. */
export function progress(done: number, of: number): void {
  if ((done > 0 && done % 10_000 === 0) || (done === of && of > 10_000)) process.stderr.write(`${done} of ${of}\n`);
}

export function count(n: number, noun: string): string {
  return `${n} ${noun}${n === 1 ? '' : 's'}`;
}

/** A whole number above zero. */
export function number(name: string, text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  if (!/^[1-9]\d{0,15}$/.test(text))
    throw new UsageError(`${name} must be a whole number above zero, not ${clean(text)}`);
  return Number(text);
}

export function webAddress(name: string, text: string | undefined): string | undefined {
  if (text === undefined || /^https?:$/.test(URL.parse(text)?.protocol ?? '')) return text;
  throw new UsageError(`${name} must be an http(s) address`);
}

export function oneOf<Name extends string>(
  name: string,
  names: readonly Name[],
  text: string | undefined,
): Name | undefined {
  if (text === undefined) return undefined;
  const found = names.find((one) => one === text);
  if (!found) throw new UsageError(`${name} must be one of ${names.join(', ')}`);
  return found;
}

/** Works with the receiver running or not: SQLite lets both at the file. */
export async function withStore<Result>(
  work: (store: Store) => Promise<Result>,
  { storePath } = loadConfig(readEnv(), { only: ['DATABASE_URL'] }),
): Promise<Result> {
  const store = openSqlite(storePath, { busyMs: 5_000 });
  try {
    return await work(store);
  } finally {
    store.close();
  }
}

export function print(text: string): void {
  process.stdout.write(`${text}\n`);
}

export function printJson(value: unknown): void {
  print(JSON.stringify(value, null, 2));
}

/** Aligned columns, cut to the terminal; the last column takes what is left. */
export function printTable(head: string[], rows: (string | number | null)[][]): void {
  const cells = rows.map((row) => row.map((cell) => (cell === null ? '-' : clean(String(cell)))));
  const widths = head.map((title, i) => Math.max(title.length, ...cells.map((row) => row[i]?.length ?? 0)));
  const width = process.stdout.isTTY ? process.stdout.columns : Infinity;
  const line = (row: string[]): string =>
    row
      .map((cell, i) => cell.padEnd(widths[i] ?? 0))
      .join('  ')
      .trimEnd()
      .slice(0, width);
  print(bold(line(head)));
  for (const row of cells) print(line(row));
}

export function bold(text: string): string {
  return process.stdout.isTTY ? styleText('bold', text) : text;
}

/** What strangers wrote can steer a terminal: control, escape and direction characters are shown, not obeyed. */
export function clean(text: string): string {
  // oxlint-disable-next-line no-control-regex -- these are the characters to find
  return text.replaceAll(/[\u0000-\u001f\u007f-\u009f\u200e\u200f\u202a-\u202e\u2066-\u2069]/g, '\u{fffd}');
}
