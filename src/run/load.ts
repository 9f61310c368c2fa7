// Finds the user's handlers and checks them, so that mistakes show at the start, with file, line and remedy. A file
// with a fault is left out, and the others work.
import type { AsyncLocalStorage } from 'node:async_hooks';
import { readdirSync, readFileSync } from 'node:fs';
import { registerHooks } from 'node:module';
import { basename, extname, join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { z } from 'zod';
import { describe, orUndefined } from '../base/errors.ts';
import { ConfigError } from '../config.ts';
import type { Handler, KitEvent } from '../kit.ts';
import type { HandlerFile } from '../store/work.ts';
import { typesFault } from '../wire/event-types.ts';
import { Scope } from './stray.ts';

/** A handler with its defaults filled in. */
export type Loaded = Omit<Required<Handler>, 'on' | 'retry' | 'maxAgeMs' | 'rate' | 'setup'> & {
  file: string;
  on: '*' | Set<string>;
  retry: Required<NonNullable<Handler['retry']>>;
  maxAgeMs: number | null;
  rate: { perMinute: number } | null;
  setup?: Handler['setup'];
};

export interface LoadOptions {
  /** Whether the kit has an API key. Without one, strict order is refused. */
  replay: boolean;
  /** Files to leave out, by path: how each one ended `run`. */
  without: Record<string, string>;
  scopes: AsyncLocalStorage<Scope>;
  /** Awaited before each file is loaded. */
  onFile?: (file: string) => unknown;
}

const LOAD_MS = 10_000;
const DAY_MS = 86_400_000;
const STRICT = `order: 'strict' needs API_BASE_URL and API_KEY, because only replay can show that nothing is missing: set both, or use 'window'`;

const ms = z
  .int()
  .min(0)
  .max(365 * DAY_MS);
const isFunction = (value: unknown): boolean => typeof value === 'function';
const isSetup = (value: unknown): boolean =>
  isFunction(value) || (Array.isArray(value) && value.every((step) => typeof step === 'string' || isFunction(step)));
const shape = z.strictObject({
  name: z
    .string()
    .regex(/^[\w.-]{1,100}$/, 'must be 1 to 100 letters, digits, and . _ -')
    .optional(),
  on: z.union([z.string(), z.array(z.string()).min(1)], `must be an event type, several, or '*'`),
  lane: z
    .union(
      [z.enum(['conversation', 'session', 'none']), z.custom<(event: KitEvent) => string>(isFunction)],
      `must be 'conversation', 'session', 'none', or a function`,
    )
    .default('conversation'),
  order: z.enum(['arrival', 'window', 'strict'], `must be 'arrival', 'window' or 'strict'`).default('window'),
  retry: z
    .strictObject({
      attempts: z.int().min(1).max(1_000).default(20),
      firstMs: ms.default(1_000),
      maxMs: ms.default(3_600_000),
    })
    .prefault({}),
  laneHoldMs: ms.default(120_000),
  timeoutMs: z.number().min(1).max(DAY_MS).default(30_000),
  maxAgeMs: ms.optional(),
  onStale: z.enum(['run', 'skip', 'dead']).default('run'),
  rate: z.strictObject({ perMinute: z.int().min(1).max(60_000) }).optional(),
  setup: z.custom<Required<Handler>['setup']>(isSetup, 'must be a function, or a list of SQL and functions').optional(),
  handle: z.custom<Handler['handle']>(isFunction, 'is required: an async function of the event and ctx'),
});

/** Throws ConfigError if the folder cannot be read. */
export async function loadHandlers(folder: string, options: LoadOptions) {
  const { replay, without, scopes, onFile } = options;
  resolveKitEverywhere();
  const handlers: Loaded[] = [];
  const faults = new Map<string, string>();
  const paths = filesIn(folder).map((name) => join(folder, name));
  for (const file of paths) {
    try {
      if (without[file] !== undefined) throw new Error(without[file]);
      if (typesFault !== undefined) throw typesFault;
      await onFile?.(file);
      const handler = { ...checkHandler(await importAlone(file, scopes), nameOf(file), replay), file };
      const other = handlers.find(({ name }) => name === handler.name)?.file;
      if (other) throw fieldFault('name', `is named ${handler.name}, like ${other}: give it another name`);
      handlers.push(handler);
    } catch (error) {
      faults.set(file, faultOf(error, file));
    }
  }
  const files = paths.map((file): HandlerFile => {
    const own = handlers.find((handler) => handler.file === file)?.name;
    // A file with a fault is named without its extension. If a loaded handler has that name, the extension is kept.
    const free = handlers.some(({ name }) => name === nameOf(file)) ? basename(file) : nameOf(file);
    return { file, name: own ?? free, fault: faults.get(file) ?? null };
  });
  return { handlers, files };
}

const nameOf = (file: string): string => basename(file, extname(file));

/** '*' means every event of the service. The kit's own events must be named. */
export function wants({ on }: Pick<Loaded, 'on'>, type: string): boolean {
  const isEvery = on === '*' || on.has('*');
  return (on !== '*' && on.has(type)) || (isEvery && !type.startsWith('kit.'));
}

function filesIn(folder: string): string[] {
  const entries = orUndefined(() => readdirSync(folder, { withFileTypes: true }));
  if (!entries) throw new ConfigError([`HANDLERS_DIR cannot be read: ${folder}: create it, or name another`]);
  return entries
    .filter((entry) => !entry.isDirectory() && /^[^_.].*\.(ts|mts|js|mjs)$/.test(entry.name))
    .map(({ name }) => name)
    .filter((name) => !/\.(test|spec|d)\.\w+$/.test(name))
    .toSorted();
}

/** Loads the file and returns its default export. Throws what the file throws, also in work that it does not await. */
async function importAlone(file: string, scopes: AsyncLocalStorage<Scope>): Promise<unknown> {
  const scope = new Scope(file);
  try {
    const load = scopes.run(scope, () => import(pathToFileURL(file).href) as Promise<{ default?: unknown }>);
    await scope.wait(load, LOAD_MS);
    await scope.check();
    return (await load).default;
  } finally {
    scope.close();
  }
}

/** Fills in the defaults. Throws an error that names the first faulty field. */
export function checkHandler(exported: unknown, fileName: string, replay: boolean): Omit<Loaded, 'file'> {
  if (exported === undefined) throw new Error('has no default export: export default defineHandler({ … })');
  const { data, error } = shape.safeParse(exported);
  if (error) throw shapeFault(error.issues[0]);
  const { name = fileName, on, maxAgeMs = null, rate = null, setup, handle, ...rest } = data;
  if (rest.order === 'strict' && !replay) throw fieldFault('order', STRICT);
  const types = on === '*' ? on : new Set(typeof on === 'string' ? [on] : on);
  const methods = { setup: typeof setup === 'function' ? setup.bind(exported) : setup, handle: handle.bind(exported) };
  return { ...rest, name, on: types, maxAgeMs, rate, ...methods };
}

/** An error about a line of the handler's file. The pattern `line` finds that line. */
export class LineError extends Error {
  readonly line: RegExp;
  constructor(words: string, line: RegExp) {
    super(words);
    this.line = line;
  }
}

const fieldFault = (field: string, words: string): LineError =>
  new LineError(words, new RegExp(`(^|[\\s{,])${RegExp.escape(field)}\\s*[:,(]`));

function shapeFault(issue: z.core.$ZodIssue | undefined): Error {
  const [field, ...more] = issue?.code === 'unrecognized_keys' ? [...issue.path, ...issue.keys] : (issue?.path ?? []);
  if (field === undefined) return new Error('the default export is no handler: export default defineHandler({ … })');
  const remedy =
    issue?.code === 'unrecognized_keys' ? 'is no field of a handler: correct or remove it' : issue?.message;
  return fieldFault(String(field), `${[field, ...more].join('.')}: ${remedy}`);
}

/** The place and the error, in one line for people. The place may be in a file that the handler's file imports. */
export function faultOf(error: unknown, file: string, what = ''): string {
  const { name, message, at } = describe(error, file);
  const place = error instanceof LineError ? lineIn(file, error.line) : (at ?? file);
  const where = place === file || place.startsWith(`${file}:`) ? place : `${file}: ${place}`;
  return `${where}: ${what}${name === 'Error' ? '' : `${name}: `}${message.replaceAll(/\s+/g, ' ').trim()}`;
}

/** `file:line` of the first line that matches. If no line matches: `file`. */
function lineIn(file: string, pattern: RegExp): string {
  const lines = orUndefined(() => readFileSync(file, 'utf8').split('\n')) ?? [];
  const line = lines.findIndex((text) => pattern.test(text));
  return line < 0 ? file : `${file}:${line + 1}`;
}

/** package.json maps '#kit' only for files of this repository, but HANDLERS_DIR may be elsewhere. */
function resolveKitEverywhere(): void {
  const kit = { url: new URL('../kit.ts', import.meta.url).href, format: 'module-typescript', shortCircuit: true };
  registerHooks({ resolve: (specifier, context, next) => (specifier === '#kit' ? kit : next(specifier, context)) });
}
