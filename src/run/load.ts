// Finds the user's handlers and checks them, so that a slip shows when the kit starts and not when an event comes.
import type { AsyncLocalStorage } from 'node:async_hooks';
import { readdirSync } from 'node:fs';
import { registerHooks } from 'node:module';
import { basename, extname, join } from 'node:path';
import { setImmediate as settled } from 'node:timers/promises';
import { pathToFileURL } from 'node:url';
import { z } from 'zod';
import { ConfigError } from '../config.ts';
import { describe } from '../base/errors.ts';
import type { Handler } from '../kit.ts';
import { typeOf } from '../wire/event-types.ts';
import type { FileFault } from '../processes/channel.ts';
import { DEFAULT_RETRY, type RetryPolicy } from '../base/backoff.ts';
import { nearestType } from './did-you-mean.ts';
import type { Course } from './trace.ts';

/** A handler with its defaults filled in. */
export type Loaded = Omit<Required<Handler>, 'maxAgeMs' | 'setup' | 'on' | 'retry' | 'rate'> & {
  on: '*' | Set<string>;
  retry: RetryPolicy;
  maxAgeMs: number | null;
  rate: NonNullable<Handler['rate']> | null;
  setup: Handler['setup'];
};

export interface LoadOptions {
  /** Without it nothing can be proved: strict order is refused. */
  replay: boolean;
  /** Files that have ended this process before: left out. */
  without?: string[];
  courses: AsyncLocalStorage<Course>;
  /** Before a file is begun. */
  onFile?: (file: string) => Promise<void>;
}

export interface LoadedFolder {
  /** By their files. */
  handlers: Map<string, Loaded>;
  /** The first of each file. */
  faults: Map<string, string>;
  /** True: what goes astray from now on is no fault of the loading. */
  over: boolean;
}

const NO_PROOF = `order: 'strict' needs API_BASE_URL and API_KEY: only replay can prove that nothing before an event is missing; set both, or use 'window'`;
const LOAD_MS = 10_000;
const DAY_MS = 86_400_000;

const ms = z
  .int()
  .min(0)
  .max(365 * DAY_MS);
const fn = z.custom<(...args: never[]) => unknown>((value) => typeof value === 'function', 'must be a function');
const shape = z.strictObject({
  name: z
    .string()
    .regex(/^[\w.-]{1,100}$/, 'must be 1 to 100 letters, digits, and . _ -')
    .optional(),
  on: z.union([z.string(), z.array(z.string()).min(1)], 'must be an event type, several, or "*"'),
  lane: z
    .union([z.enum(['conversation', 'session', 'none']), fn], 'must be conversation, session, none, or a function')
    .optional(),
  order: z.enum(['arrival', 'window', 'strict'], `must be 'arrival', 'window' or 'strict'`).optional(),
  retry: z
    .strictObject({ attempts: z.int().min(1).max(1_000).optional(), firstMs: ms.optional(), maxMs: ms.optional() })
    .optional(),
  laneHoldMs: ms.optional(),
  timeoutMs: z.number().min(1).max(DAY_MS).optional(),
  maxAgeMs: ms.optional(),
  onStale: z.enum(['run', 'skip', 'dead']).optional(),
  history: z.boolean().optional(),
  rate: z.strictObject({ perMinute: z.int().min(1).max(60_000) }).optional(),
  setup: fn.optional(),
  handle: z.custom((value) => typeof value === 'function', 'is required: an async function of the event and ctx'),
});

/** Throws ConfigError where the folder cannot be read. A fault of one file keeps no other from being loaded. */
export async function loadHandlers(folder: string, options: LoadOptions): Promise<LoadedFolder> {
  const { replay, without = [], courses, onFile } = options;
  resolveKitEverywhere();
  const found: LoadedFolder = { handlers: new Map(), faults: new Map(), over: false };
  const { handlers, faults } = found;
  for (const file of filesIn(folder)) {
    const path = join(folder, file);
    if (without.includes(path)) continue;
    const fail = (error: unknown): boolean => {
      if (found.over) return false;
      if (!faults.has(path)) faults.set(path, faultOf(error, path));
      return true;
    };
    await onFile?.(path);
    try {
      const load = courses.run({ file: path, fail }, () => import(pathToFileURL(path).href));
      const module = (await within(LOAD_MS, load)) as { default?: unknown };
      const handler = checkHandler(module.default, basename(file, extname(file)), replay);
      const other = [...handlers].find(([, { name }]) => name === handler.name)?.[0];
      if (other)
        faults.set(
          path,
          `${path}: is named ${handler.name}, as ${other} is: a name is a handler's identity, give another`,
        );
      else handlers.set(path, handler);
      // What it left unawaited comes up now.
      await settled();
    } catch (error) {
      fail(error);
    }
  }
  return found;
}

export function listFaults(faults: Map<string, string>): FileFault[] {
  return [...faults].map(([file, fault]) => ({ file, fault }));
}

/** Types in `on` that src/events.ts does not know: a slip, or one to be added there. */
export function unknownTypes({ on }: Pick<Loaded, 'on'>): { type: string; nearest: string | undefined }[] {
  if (on === '*') return [];
  return [...on].filter((type) => !typeOf(type)).map((type) => ({ type, nearest: nearestType(type) }));
}

/** For people: which handler, which type, and what was probably meant. */
export function notesOf(handlers: LoadedFolder['handlers']): string[] {
  return [...handlers].flatMap(([file, handler]) =>
    unknownTypes(handler).map(
      ({ type, nearest }) =>
        `${file}: ${handler.name} is on ${JSON.stringify(type)}, which src/events.ts does not know: ${nearest ? `did you mean ${nearest}?` : 'add it there, if it is no slip'}`,
    ),
  );
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

/** Fills in the defaults. Throws with every fault of its fields. */
export function checkHandler(exported: unknown, fileName: string, replay: boolean): Loaded {
  if (exported === undefined) throw new Error('has no default export: export default defineHandler({ … })');
  const parsed = shape.safeParse(exported);
  if (!parsed.success) {
    throw new Error(
      parsed.error.issues.map(({ path, message }) => `${path.join('.') || 'handler'}: ${message}`).join('; '),
    );
  }
  const handler = exported as Handler;
  if (handler.order === 'strict' && !replay) throw new Error(NO_PROOF);
  return {
    name: handler.name ?? fileName,
    on: handler.on === '*' ? '*' : new Set(typeof handler.on === 'string' ? [handler.on] : handler.on),
    lane: handler.lane ?? 'conversation',
    order: handler.order ?? 'window',
    retry: { ...DEFAULT_RETRY, ...handler.retry },
    laneHoldMs: handler.laneHoldMs ?? 120_000,
    timeoutMs: handler.timeoutMs ?? 30_000,
    maxAgeMs: handler.maxAgeMs ?? null,
    onStale: handler.onStale ?? 'run',
    history: handler.history ?? false,
    rate: handler.rate ?? null,
    setup: handler.setup?.bind(handler),
    handle: handler.handle.bind(handler),
  };
}

/** What is wrong with a file, and in which line. */
export function faultOf(error: unknown, path: string, what = ''): string {
  return `${placeOf(error, path)}: ${what}${wordingOf(error)}`;
}

/** With the line where it is known, which may be in a file that the handler imports. */
function placeOf(error: unknown, path: string): string {
  const { at } = describe(error);
  if (at?.startsWith(`${path}:`)) return at;
  return at && !at.startsWith(import.meta.dirname) ? `${path}: ${at}` : path;
}

/** Without the stack: what is wrong. */
function wordingOf(error: unknown): string {
  const { name, message } = describe(error);
  const plain = message.replaceAll(/\s+/g, ' ').trim();
  return name === 'Error' ? plain : `${name}: ${plain}`;
}

async function within<Result>(limitMs: number, work: Promise<Result>): Promise<Result> {
  const late = Promise.withResolvers<never>();
  const timer = setTimeout(() => late.reject(new Error(`did not load within ${limitMs / 1000} s`)), limitMs);
  try {
    return await Promise.race([work, late.promise]);
  } finally {
    clearTimeout(timer);
  }
}

/** package.json maps '#kit' and '#kit/testing' for files of this repository only; HANDLERS_DIR may lie elsewhere. */
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
