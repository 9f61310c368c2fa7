// Turns thrown values into plain text, or into undefined. A handler may throw a frozen error, an error whose getters
// throw, or a value that is no error.
import { existsSync } from 'node:fs';
import { dirname, relative } from 'node:path';
import { masked } from './secrets.ts';

/** Exit codes of every entry point. */
export const EXIT = { done: 0, failed: 1, usage: 2, unreachable: 69, configuration: 78 } as const;

const SRC = `${dirname(import.meta.dirname)}/`;
const PROJECT = dirname(dirname(import.meta.dirname));
/** Maximum numbers of characters. The rest of a longer text is cut off. */
const LONGEST = { message: 2_000, name: 100 };

export interface Thrown {
  name: string;
  message: string;
  /** `file:line` in the handler's code, else the handler's file, else `file:line` in the kit. Null: unknown. */
  at: string | null;
}

/** If the stack has no line of the handler, `at` is `file`. If `file` is null, `at` is a line of the kit. */
export function describe(thrown: unknown, file: string | null = null): Thrown {
  try {
    if (!(thrown instanceof Error)) {
      // Some libraries throw objects that have a message but are no errors.
      const words = String((thrown as { message?: unknown } | null | undefined)?.message ?? thrown);
      return { name: typeof thrown, message: masked(words).slice(0, LONGEST.message), at: file };
    }
    const stack = textOf(thrown.stack);
    return {
      name: masked(textOf(thrown.name)).slice(0, LONGEST.name),
      message: masked(`${textOf(thrown.message)}${causeOf(thrown)}`).slice(0, LONGEST.message),
      at: firstLine(stack) ?? file ?? placesIn(stack)[0] ?? null,
    };
  } catch {
    return { name: 'unknown', message: 'the thrown value could not be read', at: file };
  }
}

/** A suffix with the cause's message: the error `fetch failed`, for example, has its reason only in the cause. */
function causeOf({ message, cause }: Error): string {
  if (!(cause instanceof Error)) return '';
  const words = cause.message || textOf((cause as { code?: unknown }).code);
  return message.includes(words) ? '' : `: ${words}`;
}

/** A suffix for messages: ` (file:line)` or ` (file)`. Empty if `at` is null, or a line of the kit. */
export function behind(at: string | null): string {
  if (at === null || isOurs(at)) return '';
  return ` (${at.startsWith(`${PROJECT}/`) ? relative(PROJECT, at) : at})`;
}

/** The parts of an error that are safe to log. The message is left out, because it may quote a sender's text. */
export function loggable(thrown: unknown, file: string | null = null): { error: string; at: string | null } {
  const { name, at } = describe(thrown, file);
  // A name that is no identifier may quote a sender's text, too.
  return { error: /^[A-Za-z_$][\w$]*$/.test(name) ? name : 'unknown', at };
}

/** `value` should be a string, but a field of a thrown value may hold anything. */
function textOf(value: unknown): string {
  return typeof value === 'string' ? value : 'unknown';
}

/** Whether the file of `file:line` exists. A line that looks like a stack frame may be a sender's text. */
function isFile(place: string): boolean {
  return existsSync(place.replace(/:\d+$/, ''));
}

function isOurs(place: string): boolean {
  return place.startsWith(SRC) && !/^events\.ts:|(^|\/)handlers\//.test(place.slice(SRC.length));
}

function firstLine(stack: string): string | null {
  // If a file is not valid TypeScript, the first line of the stack is the `file:line` of the mistake.
  const unreadable = /^(?:file:\/\/)?(\/[^\n]+:\d{1,6})\n/.exec(stack)?.[1];
  return unreadable && isFile(unreadable) ? unreadable : (placesIn(stack).find((place) => !isOurs(place)) ?? null);
}

function placesIn(stack: string): string[] {
  return stack
    .split('\n')
    .slice(1)
    .flatMap((line) => {
      const place = /(?:\(|at )(?:file:\/\/)?(\/[^()]+:\d{1,6}):\d+\)?$/.exec(line)?.[1];
      return place && !place.includes('/node_modules/') && isFile(place) ? [place] : [];
    });
}

/** Ends the process by an uncaught exception. A rejected promise could be taken for a handler's. */
export function throwUncaught(error: unknown): void {
  setImmediate(() => {
    throw error;
  });
}

/** Undefined if `read` throws. */
export function orUndefined<Value>(read: () => Value): Value | undefined {
  try {
    return read();
  } catch {
    return undefined;
  }
}
