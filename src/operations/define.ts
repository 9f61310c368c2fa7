// What an operation is. Commands, API and page are derived from it, so that no surface lacks what another has.
import { z } from 'zod';
import { iso, type Clock } from '../base/clock.ts';
import type { Config } from '../config.ts';
import { count } from './judge.ts';
import type { PeopleStore } from './store/open.ts';
import type { Disk } from './store/shapes.ts';

export interface OperationContext {
  db: PeopleStore;
  clock: Clock;
  disk: () => Disk;
  /** All variables, with their secrets. Throws ConfigError. */
  config: () => Config;
}

interface OperationOf<Args extends z.ZodObject, Result> {
  name: string;
  /** One line. */
  about: string;
  args: Args;
  /** The arguments that a command takes without an option's name, in this order. */
  first?: (keyof z.infer<Args> & string)[];
  /** `reveal`: shows what strangers wrote. */
  access: 'read' | 'change' | 'reveal';
  /** Whoever may read may call it by GET, but without arguments of `byPost`. Default: true, unless `access` is `change`. */
  reads?: boolean;
  byPost?: (keyof z.infer<Args> & string)[];
  /** The result is plain JSON. Throws Refused. */
  run(context: OperationContext, args: z.infer<Args>): Promise<Result>;
  /** What a terminal shows instead of the result. */
  show?(result: Result): unknown;
  /** True: the command ends with exit code 1. */
  fails?(result: Result): boolean;
}

export type Operation = OperationOf<z.ZodObject, unknown>;

/** Lets TypeScript check that the parts of an operation agree on its arguments and its result. */
export const define = <Args extends z.ZodObject, Result>(operation: OperationOf<Args, Result>): Operation => operation;

/** What was asked for cannot be done. The message says why, and what to do. */
export class Refused extends Error {}

/** An argument, as forms and the help show it. */
export interface Argument {
  name: string;
  kind: 'text' | 'number' | 'flag' | 'choice' | 'list';
  choices: string[];
  required: boolean;
  about: string;
  /** It must not be in a URL. */
  byPost: boolean;
}

const KINDS: Record<string, Argument['kind']> = { boolean: 'flag', integer: 'number', number: 'number', array: 'list' };

export function argumentsOf({ args, byPost = [] }: Operation): Argument[] {
  const { properties = {} } = z.toJSONSchema(args, { unrepresentable: 'any' }) as {
    properties?: Record<string, { type?: string; enum?: string[]; description?: string }>;
  };
  return Object.entries(args.shape).map(([name, schema]) => {
    const { type = '', enum: choices, description: about = '' } = properties[name] ?? {};
    const required = !(schema as z.ZodType).safeParse(undefined).success;
    const kind = choices ? 'choice' : (KINDS[type] ?? 'text');
    return { name, kind, choices: choices ?? [], required, about, byPost: byPost.includes(name) };
  });
}

/** An operation with arguments: a button of the page, a command in a text. */
export interface Remedy {
  operation: string;
  args: Record<string, string | boolean>;
}

export function commandOf({ operation, args }: Remedy): string {
  const options = Object.entries(args).map(([name, value]) => {
    const word = /^[\w.:-]+$/.test(String(value)) ? value : `'${String(value).replaceAll("'", "'\\''")}'`;
    return ` ${optionOf(name)}${value === true ? '' : ` ${word}`}`;
  });
  return `npx kit ${operation}${options.join('')}`;
}

export const optionOf = (name: string): string =>
  `--${name.replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`;

/** A row of the store, with its times as ISO 8601 in UTC: fields named `at`, or whose names end in `At`. */
export function withTimes(row: object): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(row).map(([name, value]) => [
      name,
      /At$|^at$/.test(name) && typeof value === 'number' ? iso(value) : value,
    ]),
  );
}

/** The arguments, parsed. Throws Refused: for an unknown name alone, otherwise with every fault. */
export function checked({ args, name }: Operation, given: Record<string, unknown>): Record<string, unknown> {
  const names = Object.keys(args.shape);
  const unknown = Object.keys(given).find((key) => !names.includes(key));
  if (unknown !== undefined) throw new Refused(`${name} has no ${unknown}: it takes ${names.join(', ') || 'nothing'}`);
  const parsed = args.safeParse(given, { error: wordsOf });
  if (parsed.success) return parsed.data;
  const faults = parsed.error.issues.map(({ path, message }) => `${path.join('.')}: ${message}`);
  throw new Refused(faults.join('; '));
}

const TYPES: Record<string, string> = { int: 'a whole number', array: 'an array' };

/** The words for a fault. Undefined: zod's own words. */
function wordsOf({ code, input, ...issue }: z.core.$ZodRawIssue): string | undefined {
  const type = String(issue['expected']);
  if (code === 'invalid_type') return input === undefined ? 'is required' : `must be ${TYPES[type] ?? `a ${type}`}`;
  if (code === 'too_small' && issue['origin'] === 'string')
    return `must be at least ${count(Number(issue['minimum']), 'character')} long`;
  if (code === 'too_small') return `must be at least ${String(issue['minimum'])}`;
  if (code === 'too_big') return `must be at most ${String(issue['maximum'])}`;
  return code === 'invalid_value' ? `must be one of ${(issue['values'] as string[]).join(', ')}` : undefined;
}
