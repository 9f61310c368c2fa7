// What an operation is. Commands, API and page are derived from it, so that no surface lacks what another has.
import { z } from 'zod';
import { iso, type Clock } from '../base/clock.ts';
import { parseCursor } from '../wire/cursor.ts';
import type { Disk } from './alarms.ts';
import type { PeopleStore } from './store/open.ts';

export interface OperationContext extends PeopleStore {
  clock: Clock;
  disk: () => Disk;
  version: string;
}

export interface Operation {
  name: string;
  /** One line. */
  about: string;
  args: z.ZodObject;
  /** The argument that a command takes without an option. */
  first?: string;
  /** `reveal`: shows what strangers wrote. */
  access: 'read' | 'change' | 'reveal';
  /** It may be read without more than `read`, but for these arguments. Default: if its access is `read`. */
  reads?: boolean;
  byPost?: string[];
  /** The result is plain JSON. Throws Refused. */
  run(context: OperationContext, args: Record<string, unknown>): Promise<unknown>;
  /** For people. Default: a table. */
  show?(result: never): string;
}

/** What was asked for cannot be done. The message says why, and what to do. */
export class Refused extends Error {}

/** Keeps the types of arguments and results. */
export function define<Args extends z.ZodObject, Result>(operation: {
  name: string;
  about: string;
  args: Args;
  first?: keyof z.infer<Args> & string;
  access: Operation['access'];
  reads?: boolean;
  byPost?: (keyof z.infer<Args> & string)[];
  run(context: OperationContext, args: z.infer<Args>): Promise<Result>;
  show?(result: Result): string;
}): Operation {
  return operation;
}

export const flag = z
  .preprocess((value) => (value === 'true' || value === '' ? true : value), z.boolean())
  .default(false);
export const limit = z.coerce.number().int().min(1).max(1_000).default(50);
export const cursorArg = z.string().refine((text) => parseCursor(text) !== undefined, 'must be a cursor: digits');
export const timeArg = z
  .string()
  .transform((text) => timeOf(text) ?? Number.NaN)
  .refine((ms) => !Number.isNaN(ms), 'must be a time, like 2026-01-31 or 2026-01-31T12:00:00Z');
export const stateArg = z.enum(['waiting', 'done', 'skipped', 'dead']);
export const perMinute = z.coerce.number().int().min(1).max(60_000);

/** Every time in the result of a store becomes ISO 8601, UTC: fields whose names end in At. */
export function withTimes(row: object): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(row).map(([name, value]) => [
      name,
      /At$|^at$/.test(name) && typeof value === 'number' ? iso(value) : value,
    ]),
  );
}

/** Throws Refused with each fault of the arguments. */
export function checked({ args, name }: Operation, given: Record<string, unknown>): Record<string, unknown> {
  const names = Object.keys(args.shape);
  const unknown = Object.keys(given).find((key) => !names.includes(key));
  if (unknown !== undefined) throw new Refused(`${name} has no ${unknown}: ${nearest(unknown, names)}`);
  const parsed = args.safeParse(given, { error: wordsOf });
  if (parsed.success) return parsed.data;
  const faults = parsed.error.issues.map(({ path, message }) => `${path.join('.')}: ${message}`);
  throw new Refused(faults.join('; '));
}

/** Undefined: zod's own words. */
function wordsOf({ code, input, ...issue }: z.core.$ZodRawIssue): string | undefined {
  if (code === 'invalid_type') return input === undefined ? 'is required' : `must be a ${String(issue['expected'])}`;
  return code === 'invalid_value' ? `must be one of ${(issue['values'] as string[]).join(', ')}` : undefined;
}

/** For a name that there is not: the one that was meant, or all. */
export function nearest(word: string, names: string[]): string {
  const [best] = names.toSorted((a, b) => distance(word, a) - distance(word, b));
  if (best === undefined) return 'it takes nothing';
  return distance(word, best) <= 2 ? `did you mean ${best}?` : `it takes ${names.join(', ')}`;
}

/** Letters that are put in, left out or exchanged. */
function distance(from: string, to: string): number {
  let row = Array.from({ length: to.length + 1 }, (_, n) => n);
  for (const [y, letter] of from.split('').entries()) {
    const next = [y + 1];
    for (let x = 1; x <= to.length; x++) {
      const exchanged = (row[x - 1] ?? 0) + Number(letter !== to[x - 1]);
      next.push(Math.min(exchanged, (row[x] ?? 0) + 1, (next[x - 1] ?? 0) + 1));
    }
    row = next;
  }
  return row.at(-1) ?? 0;
}

/**
 * Unix milliseconds of `2026-01-31` or `2026-01-31T12:00:00Z`. Without a zone the text is UTC. Undefined if it is no
 * time.
 */
function timeOf(text: string): number | undefined {
  const zoned = /T.*(Z|[+-]\d\d:?\d\d)$|^[\d-]+$/.test(text) ? text : `${text}Z`;
  const time = isDay(text.slice(0, 10)) ? Date.parse(zoned) : NaN;
  return Number.isNaN(time) ? undefined : time;
}

/** Whether the day exists. Date.parse would read 2026-02-31 as a day of March. */
function isDay(text: string): boolean {
  return /^\d{4}-\d\d-\d\d$/.test(text) && iso(Date.parse(text))?.startsWith(text) === true;
}
