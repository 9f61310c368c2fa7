// What was thrown, whatever it is, as plain text. Handlers may throw frozen errors, getters that throw, or no errors.
import { existsSync } from 'node:fs';

/** Exit codes of every entry point. */
export const EXIT = { done: 0, failed: 1, usage: 2, unreachable: 69, configuration: 78 } as const;

export interface Thrown {
  name: string;
  message: string;
  /** The first stack frame outside node_modules and Node itself, or the line that cannot be read, as `file:line`. */
  at: string | null;
}

export function describe(thrown: unknown): Thrown {
  try {
    if (!(thrown instanceof Error)) return { name: typeof thrown, message: String(thrown).slice(0, 2_000), at: null };
    return {
      name: textOf(thrown.name).slice(0, 100),
      message: textOf(thrown.message).slice(0, 2_000),
      at: firstFrame(textOf(thrown.stack)),
    };
  } catch {
    return { name: 'unknown', message: 'what was thrown could not be read', at: null };
  }
}

/** Fit for a log: the message stays out, because it may quote what strangers wrote; so does a name that is none. */
export function loggable(thrown: unknown): { error: string; at: string | null } {
  const { name, at } = describe(thrown);
  return { error: /^[A-Za-z_$][\w$]*$/.test(name) ? name : 'unknown', at };
}

/** The types promise strings; what is thrown promises nothing. */
function textOf(value: unknown): string {
  return typeof value === 'string' ? value : 'unknown';
}

/** A message of several lines may look like frames, and quote what strangers wrote. */
function isFile(place: string): boolean {
  return existsSync(place.replace(/:\d+$/, ''));
}

function firstFrame(stack: string): string | null {
  // What Node puts before the error where a file is no TypeScript.
  const unreadable = /^(?:file:\/\/)?(\/[^\n]+:\d+)\n/.exec(stack)?.[1];
  if (unreadable && isFile(unreadable)) return unreadable;
  for (const line of stack.split('\n').slice(1)) {
    const place = /((?:file:\/\/|\/)[^()]+:\d+):\d+\)?$/.exec(line)?.[1]?.replace('file://', '');
    if (place && !place.includes('/node_modules/') && isFile(place)) return place;
  }
  return null;
}
