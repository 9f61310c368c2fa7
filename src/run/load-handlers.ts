// Finds the user's handlers and checks them, so that mistakes show when the kit starts and not when an event comes.
import type { AsyncLocalStorage } from 'node:async_hooks';
import { readdirSync } from 'node:fs';
import { registerHooks } from 'node:module';
import { basename, extname, join } from 'node:path';
import { setImmediate as settled, setTimeout as sleep } from 'node:timers/promises';
import { pathToFileURL } from 'node:url';
import { z } from 'zod';
import { ConfigError } from '../config.ts';
import type { Handler, KitEvent } from '../kit.ts';
import { typeOf } from '../wire/event-map.ts';
import { DEFAULT_HOLD_MS, DEFAULT_RETRY, type RetryPolicy } from '../base/retry-policy.ts';
import { nearestType } from './did-you-mean.ts';
import { faultOf, FieldError, withLine } from './file-fault.ts';
import type { Scope } from './stray-errors.ts';

/** A handler with its defaults filled in. */
export type Loaded = Omit<Required<Handler>, 'maxAgeMs' | 'setup' | 'on' | 'retry' | 'rate'> & {
  on: '*' | Set<string>;
  retry: RetryPolicy;
  maxAgeMs: number | null;
  rate: NonNullable<Handler['rate']> | null;
  setup: Handler['setup'];
  /** The path of its file. Null: a test made it. */
  file: string | null;
};

export interface LoadOptions {
  /** Whether replay is configured. If it is not, handlers with `order: 'strict'` are refused. */
  replay: boolean;
  /** Files to leave out, because their code ended an earlier process. */
  without?: string[];
  scopes: AsyncLocalStorage<Scope>;
  /** Called before each file is loaded. */
  onFile?: (file: string) => Promise<void>;
}

export interface LoadedFolder {
  /** By the path of their files. */
  handlers: Map<string, Loaded>;
  /** The first fault of each file. */
  faults: Map<string, string>;
  /** True: loading and setups are over, so a stray error is no longer a fault of a file. */
  over: boolean;
}

const NO_PROOF = `order: 'strict' needs API_BASE_URL and API_KEY: only replay can prove that nothing before an event is missing; set both, or use 'window'`;
const LOAD_MS = 10_000;
const DAY_MS = 86_400_000;

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
  on: z.union([z.string(), z.array(z.string()).min(1)], 'must be an event type, several, or "*"'),
  lane: z
    .union(
      [z.enum(['conversation', 'session', 'none']), z.custom<(event: KitEvent) => string>(isFunction)],
      'must be conversation, session, none, or a function',
    )
    .default('conversation'),
  order: z.enum(['arrival', 'window', 'strict'], `must be 'arrival', 'window' or 'strict'`).default('window'),
  retry: z
    .strictObject({
      attempts: z.int().min(1).max(1_000).default(DEFAULT_RETRY.attempts),
      firstMs: ms.default(DEFAULT_RETRY.firstMs),
      maxMs: ms.default(DEFAULT_RETRY.maxMs),
    })
    .prefault({}),
  laneHoldMs: ms.default(DEFAULT_HOLD_MS),
  timeoutMs: z.number().min(1).max(DAY_MS).default(30_000),
  maxAgeMs: ms.optional(),
  onStale: z.enum(['run', 'skip', 'dead']).default('run'),
  history: z.boolean().default(false),
  rate: z.strictObject({ perMinute: z.int().min(1).max(60_000) }).optional(),
  setup: z.custom<Required<Handler>['setup']>(isSetup, 'must be a function, or a list of SQL and functions').optional(),
  handle: z.custom<Handler['handle']>(isFunction, 'is required: an async function of the event and ctx'),
});

/** Throws ConfigError if the folder cannot be read. If one file has a fault, the others are still loaded. */
export async function loadHandlers(folder: string, options: LoadOptions): Promise<LoadedFolder> {
  const { replay, without = [], scopes, onFile } = options;
  resolveKitEverywhere();
  const found: LoadedFolder = { handlers: new Map(), faults: new Map(), over: false };
  const { handlers } = found;
  for (const file of filesIn(folder)) {
    const path = join(folder, file);
    if (without.includes(path)) continue;
    const fail = failOf(found, path);
    await onFile?.(path);
    try {
      const load = scopes.run({ file: path, fail }, () => import(pathToFileURL(path).href));
      const module = (await Promise.race([load, tooLate()])) as { default?: unknown };
      const handler = checkHandler(module.default, basename(file, extname(file)), replay);
      const other = [...handlers].find(([, { name }]) => name === handler.name)?.[0];
      if (other) throw new FieldError('name', `is named ${handler.name}, like ${other}: give it another name`);
      handlers.set(path, { ...handler, file: path });
      // Waits until a rejection that the file left unhandled has been reported.
      await settled();
    } catch (error) {
      fail(error);
    }
  }
  return found;
}

/** The returned function notes the first fault of the file. It returns false if loading and setups are over. */
export function failOf(folder: LoadedFolder, file: string, what = ''): (error: unknown) => boolean {
  return (error) => {
    if (folder.over) return false;
    if (!folder.faults.has(file)) folder.faults.set(file, faultOf(error, file, what));
    return true;
  };
}

/** Types in `on` that are not in src/events.ts: misspelt, or still to be added there. */
export function unknownTypes({ on }: Pick<Loaded, 'on'>): { type: string; nearest: string | undefined }[] {
  if (on === '*') return [];
  return [...on].filter((type) => !typeOf(type)).map((type) => ({ type, nearest: nearestType(type) }));
}

/** For people: the handler, the unknown type, and the type that was probably meant. */
export function notesOf(handlers: LoadedFolder['handlers']): string[] {
  return [...handlers.values()].flatMap((handler) =>
    unknownTypes(handler).map((slip) => `${lineOf(slip, handler)}: ${handler.name} is ${unknownWords(slip)}`),
  );
}

type UnknownType = ReturnType<typeof unknownTypes>[number];

export function unknownWords({ type, nearest }: UnknownType): string {
  const remedy = nearest ? `did you mean ${nearest}?` : 'correct it, or add it there';
  return `on ${JSON.stringify(type)}, which is not in src/events.ts: ${remedy}`;
}

export function lineOf({ type }: UnknownType, { file }: Pick<Loaded, 'file'>): string | null {
  return file && withLine(file, new RegExp(`['"]${RegExp.escape(type)}['"]`));
}

function filesIn(folder: string): string[] {
  try {
    return readdirSync(folder, { withFileTypes: true })
      .filter((entry) => !entry.isDirectory() && /^[^_.].*\.(ts|mts|js|mjs)$/.test(entry.name))
      .map((entry) => entry.name)
      .filter((name) => !/\.(test|spec|d)\.\w+$/.test(name))
      .toSorted();
  } catch {
    throw new ConfigError([`HANDLERS_DIR cannot be read: ${folder}: create it, or name another`]);
  }
}

/** Fills in the defaults. Throws an error that lists every faulty field. */
export function checkHandler(exported: unknown, fileName: string, replay: boolean): Loaded {
  if (exported === undefined) throw new Error('has no default export: export default defineHandler({ … })');
  const { data, error } = shape.safeParse(exported);
  if (error) throw fieldError(error, exported);
  const { name = fileName, on, maxAgeMs = null, rate = null, setup, handle, ...rest } = data;
  if (rest.order === 'strict' && !replay) throw new FieldError('order', NO_PROOF);
  const types = on === '*' ? on : new Set(typeof on === 'string' ? [on] : on);
  const methods = { setup: typeof setup === 'function' ? setup.bind(exported) : setup, handle: handle.bind(exported) };
  return { ...rest, name, on: types, maxAgeMs, rate, file: null, ...methods };
}

function fieldError({ issues }: z.ZodError, exported: unknown): Error {
  const [first] = issues;
  const field = first?.code === 'unrecognized_keys' ? first.keys[0] : first?.path[0];
  const words = issues.map((issue) => {
    const path = issue.path.join('.');
    if (issue.code === 'unrecognized_keys') return issue.keys.map((key) => unknownField(issue.path, key)).join('; ');
    if (path === '') return 'the default export is no handler: export default defineHandler({ … })';
    const value = issue.path.reduce<unknown>((from, name) => (from as Record<PropertyKey, unknown>)[name], exported);
    return `${path}: ${issue.message}${typeof value === 'string' ? `, not ${JSON.stringify(value)}` : ''}`;
  });
  return new FieldError(String(field), words.join('; '));
}

function unknownField(path: PropertyKey[], key: string): string {
  const nearest = path.length === 0 && nearestType(key, Object.keys(shape.shape));
  return `${[...path, key].join('.')}: is no field of a handler${nearest ? `: did you mean ${nearest}?` : ''}`;
}

async function tooLate(): Promise<never> {
  await sleep(LOAD_MS, undefined, { ref: false });
  throw new Error(`did not load within ${LOAD_MS / 1000} s`);
}

/** package.json maps '#kit' and '#kit/testing' only for files of this repository, but HANDLERS_DIR may be elsewhere. */
function resolveKitEverywhere(): void {
  const ours: Record<string, string> = { '#kit': '../kit.ts', '#kit/testing': '../testing.ts' };
  registerHooks({
    resolve(specifier, context, next) {
      const path = ours[specifier];
      if (path === undefined) return next(specifier, context);
      return { url: new URL(path, import.meta.url).href, format: 'module-typescript', shortCircuit: true };
    },
  });
}
