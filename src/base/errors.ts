// What was thrown, whatever it is, as plain text. Handlers may throw frozen errors, getters that throw, or no errors.
import { existsSync } from 'node:fs';
import { dirname, relative } from 'node:path';

/** Exit codes of every entry point. */
export const EXIT = { done: 0, failed: 1, usage: 2, unreachable: 69, configuration: 78 } as const;

export interface Thrown {
  name: string;
  message: string;
  /** The handler's own line where there is one, else the kit's, or the line that cannot be read; as `file:line`. */
  at: string | null;
}

export function describe(thrown: unknown): Thrown {
  try {
    if (!(thrown instanceof Error)) return { name: typeof thrown, message: String(thrown).slice(0, 2_000), at: null };
    return {
      name: textOf(thrown.name).slice(0, 100),
      message: `${textOf(thrown.message)}${causeOf(thrown.cause)}`.slice(0, 2_000),
      at: firstFrame(textOf(thrown.stack)),
    };
  } catch {
    return { name: 'unknown', message: 'what was thrown could not be read', at: null };
  }
}

/** What lies behind: `fetch failed` alone helps nobody. */
function causeOf(cause: unknown): string {
  if (!(cause instanceof Error)) return '';
  const words = cause.message || textOf((cause as { code?: unknown }).code);
  return `: ${words}`;
}

/** Behind a message, for people: the line of a handler, as seen from where they started the kit. Nothing for the kit's own. */
export function behind(at: string | null): string {
  if (at === null || isOurs(at)) return '';
  const path = relative(process.cwd(), at);
  return ` (${path.startsWith('..') ? at : path})`;
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

function isOurs(place: string): boolean {
  const ours = `${dirname(import.meta.dirname)}/`;
  return place.startsWith(ours) && !place.slice(ours.length - 1).includes('/handlers/');
}

/** The first line of a file that is not the kit's, as `file:line`; null where there is none. */
export function handlersLine(stack = ''): string | null {
  return placesIn(stack).find((place) => !isOurs(place)) ?? null;
}

function firstFrame(stack: string): string | null {
  // What Node puts before the error where a file is no TypeScript.
  const unreadable = /^(?:file:\/\/)?(\/[^\n]+:\d+)\n/.exec(stack)?.[1];
  if (unreadable && isFile(unreadable)) return unreadable;
  return handlersLine(stack) ?? placesIn(stack)[0] ?? null;
}

function placesIn(stack: string): string[] {
  return stack
    .split('\n')
    .slice(1)
    .flatMap((line) => {
      const place = /(?:\(|at )(?:file:\/\/)?(\/[^()]+:\d+):\d+\)?$/.exec(line)?.[1];
      return place && !place.includes('/node_modules/') && isFile(place) ? [place] : [];
    });
}
