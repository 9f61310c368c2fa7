// The shape of a command, and the parsing of its arguments. Each command is a file in ../commands.
import { parseArgs } from 'node:util';
import type { z } from 'zod';
import type { Point } from '../../store/read.ts';
import { wholeNumber } from '../../admin/filters.ts';
import { readPoint } from '../../admin/range.ts';
import { clean } from './print.ts';

export interface Command {
  /** One line, which `npx kit --help` shows for the command. */
  summary: string;
  usage: string;
  /** Resolves to the exit code, if the command did not succeed. Throws UsageError, AdminError, ConfigError, StoreError. */
  run(args: string[]): Promise<number | void>;
}

export class UsageError extends Error {
  constructor(message: string) {
    super(message);
    this.name = 'UsageError';
  }
}

interface Options<Text extends string, Flag extends string, List extends string> {
  /** Options with a text: `--from TEXT`. */
  text?: Text[];
  /** Options without a value: `--json`. */
  flags?: Flag[];
  /** Options that may be given several times. */
  lists?: List[];
  /** Whether arguments that are not options are allowed. Default: true. */
  names?: boolean;
}

interface Parsed<Text extends string, Flag extends string, List extends string> {
  values: { [_ in Text]?: string } & { [_ in Flag]?: boolean } & { [_ in List]?: string[] };
  positionals: string[];
}

export function parse<Text extends string = never, Flag extends string = never, List extends string = never>(
  args: string[],
  { text = [], flags = [], lists = [], names = true }: Options<Text, Flag, List>,
): Parsed<Text, Flag, List> {
  const options = Object.fromEntries([
    ...text.map((name) => [name, { type: 'string' }] as const),
    ...flags.map((name) => [name, { type: 'boolean' }] as const),
    ...lists.map((name) => [name, { type: 'string', multiple: true }] as const),
  ]);
  try {
    return parseArgs({ args, options, allowPositionals: names }) as Parsed<Text, Flag, List>;
  } catch (error) {
    throw new UsageError((error as Error).message);
  }
}

/** Reads options by the schemas that the pages and the API use. Throws UsageError. */
export function readOptions<Schema extends z.ZodType>(
  schema: Schema,
  options: Record<string, string | boolean | undefined>,
): z.output<Schema> {
  const { data, error } = schema.safeParse(options);
  const issue = error?.issues[0];
  if (!issue) return data as z.output<Schema>;
  const name = issue.path.join('.');
  const given = issue.code === 'invalid_format' ? `, not ${clean(String(options[name]))}` : '';
  throw new UsageError(`--${name} ${issue.message}${given}`);
}

export function number(name: string, text: string | undefined): number | undefined {
  const { data, error } = wholeNumber.optional().safeParse(text);
  if (error) throw new UsageError(`${name} ${error.issues[0]?.message}, not ${clean(String(text))}`);
  return data;
}

export function pointOf(name: string, text: string): Point {
  const point = readPoint(text);
  if (point === undefined) throw new UsageError(`${name} must be a cursor, or a time like 2026-01-31T12:00:00Z`);
  return point;
}

export function webAddress(name: string, text: string | undefined): string | undefined {
  if (text === undefined || /^https?:$/.test(URL.parse(text)?.protocol ?? '')) return text;
  throw new UsageError(`${name} must be an http(s) address`);
}
