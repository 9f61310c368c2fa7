// What every command shares: its arguments, the store, and how it speaks. One file a command stands beside this.
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs, type ParseArgsConfig } from 'node:util';
import { systemClock, timeOf } from '../../base/clock.ts';
import { loadConfig, readEnv } from '../../config.ts';
import { EXIT } from '../../base/errors.ts';
import type { ReceiverState } from '../../receive/app.ts';
import { fingerprintOf } from '../../store/sqlite/lock.ts';
import { openSqlite } from '../../store/sqlite/open.ts';
import type { Store } from '../../store/store.ts';
import type { Point } from '../../store/read.ts';
import { readPoint } from '../../admin/range.ts';
import { clean, inert } from './table.ts';

export { bold, clean, inert, printTable } from './table.ts';

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

/** `names`: words that are no options are taken, too. */
export function parse<Options extends NonNullable<ParseArgsConfig['options']>>(
  args: string[],
  options: Options,
  { names = true } = {},
) {
  try {
    return parseArgs({ args, options, allowPositionals: names, strict: true });
  } catch (error) {
    throw new UsageError((error as Error).message);
  }
}

/** Every thousand, for work that takes its time. */
export function progress(done: number, of: number): void {
  if (of > 1_000 && done > 0 && (done % 1_000 === 0 || done === of)) process.stderr.write(`${done} of ${of}\n`);
}

/** Says why, and resolves to the exit code. */
export function fail(message: string, code: number = EXIT.failed): number {
  process.stderr.write(`${message}\n`);
  return code;
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

/** A cursor, or a time: in UTC, unless it says where. */
export function pointOf(name: string, text: string): Point {
  const point = readPoint(text);
  if (point === undefined) throw new UsageError(`${name} must be a cursor, or a time like 2026-01-31T12:00:00Z`);
  return point;
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

export function moment(name: string, text: string | undefined): number | undefined {
  const time = text === undefined ? undefined : timeOf(text);
  if (text !== undefined && time === undefined)
    throw new UsageError(`${name} must be a time like 2026-01-31 or 2026-01-31T12:00:00Z`);
  return time;
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

export interface Readiness {
  words: string;
  ready: boolean;
  listens: boolean;
  /** Undefined where another kit listens there, or none. */
  state?: ReceiverState;
}

/** What the receiver itself says: signs of life are written to the store, and where it cannot be written, all seem to be down. */
export async function readiness(
  { PORT, storePath } = loadConfig(readEnv(), { only: ['PORT', 'DATABASE_URL'] }),
): Promise<Readiness> {
  try {
    const response = await fetch(`http://127.0.0.1:${PORT}/readyz`, {
      headers: { accept: 'application/json' },
      signal: AbortSignal.timeout(3_000),
    });
    const text = await response.text();
    const said = { ready: response.ok, listens: true };
    if (!response.headers.get('content-type')?.includes('json')) return { ...said, words: clean(text.trim()) };
    const state = JSON.parse(text) as ReceiverState & { words: string };
    const ours = state.store === fingerprintOf(storePath) ? { state } : {};
    return { ...said, ...ours, words: clean(state.words) };
  } catch {
    return { words: `nothing listens on port ${PORT}`, ready: false, listens: false };
  }
}

/** Why nobody does what was asked for, with what to do. */
export async function whyDown(): Promise<string> {
  const { words, ready, listens } = await readiness();
  if (!listens) return 'the receiver is not running: npm start';
  const why = ready ? 'a process of it does not: npx kit status' : `it says that ${words}: npx kit doctor`;
  return `the receiver runs, but ${why}`;
}

/** The process that fetches starts a moment after deliveries are taken. */
export async function keepIsUp(store: Store): Promise<boolean> {
  for (let looks = 0; looks < 50; looks++) {
    const { processes } = await store.status(clock.now());
    if (processes.keep === 'up' || processes.receive === 'down') return processes.keep === 'up';
    await sleep(100);
  }
  return false;
}

/** Undefined where `keep` can be asked to read; else says why not, and resolves to the exit code. */
export async function unlessItReads(store: Store): Promise<number | undefined> {
  if (!(await keepIsUp(store))) return fail(await whyDown(), EXIT.unreachable);
  const { reconcile } = await store.status(clock.now());
  if (reconcile.state !== 'off') return undefined;
  return fail('reconciliation is off: set API_BASE_URL and API_KEY, then restart the kit', EXIT.configuration);
}

export function print(text: string): void {
  process.stdout.write(`${text}\n`);
}

export function printJson(value: unknown): void {
  print(inert(JSON.stringify(value, null, 2)));
}
