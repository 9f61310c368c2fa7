// The kit's log as lines for people.
import { stripVTControlCharacters, styleText } from 'node:util';
import { orUndefined } from '../../base/errors.ts';

export type Told = Record<string, unknown>;

const WORDS: Record<string, string> = { completed: 'done', again: 'failed' };
const COLOURS = { done: 'green', failed: 'yellow', dead: 'red', broken: 'red', loaded: 'cyan', kit: 'yellow' } as const;
const WARN = 40;
/** Messages and alarms that are not shown: other lines say the same, or Ctrl-C, saving or --live causes them. */
const KNOWN = /see npx kit explain$|^handler_|^webhook_silent|^process_down/;

/** The fields of a line of the kit's log. Undefined: a handler or Node has printed the line. */
export function toldBy(line: string): Told | undefined {
  const told = orUndefined(() => JSON.parse(line) as Told | null);
  return told?.['process'] ? told : undefined;
}

/** The line of one attempt. The second argument is its task as stored, if it failed or was skipped. */
export function attemptLine(told: Told, { error, state, dueAt }: Told = {}): string {
  const { time, handler, outcome, ms, type, key, attempt, origin } = told;
  const word = WORDS[clean(outcome)] ?? clean(outcome);
  const next = state === 'waiting' && dueAt ? `, again at ${clock(dueAt)}` : '';
  const tried = next || Number(attempt) > 1 ? `  attempt ${clean(attempt)}${next}` : '';
  const came = origin === 'webhook' ? '' : `  by ${clean(origin)}`;
  const what = `${clean(type).padEnd(20)}  ${clean(key)}${came}${tried}`;
  const line = `${clock(time)}  ${clean(handler).padEnd(16)}  ${painted(word)}  ${clean(ms).padStart(5)} ms  ${what}`;
  return error ? `${line}\n${noted('', clean(error))}` : line;
}

/** Any other line, for people. Undefined: it says nothing new to a developer. */
export function otherLine(told: Told): string | undefined {
  const { level, process: role, time: _, handler, key, msg, ...more } = told;
  const { fault, handlers, alarm } = more;
  const text = `${clean(msg)}${Object.keys(more).length > 0 ? ` ${clean(more)}` : ''}`;
  if (fault) return noted('broken', `${clean(fault)} (correct it and save; the others work)`);
  if (Array.isArray(handlers)) return noted('loaded', handlers.map(clean).join(', ') || 'no handler');
  if (KNOWN.test(clean(alarm ?? msg))) return undefined;
  if (key && handler) return noted('', `${clean(handler)}: ${text}`);
  return Number(level) < WARN ? undefined : noted('kit', `${clean(handler ?? role)}: ${text}`);
}

export const noted = (word: string, text: string): string => `${painted(word)}   ${text}`;

/** A value on one line, without characters that control a terminal: strangers may have written it. */
function clean(value: unknown): string {
  const text = stripVTControlCharacters(typeof value === 'string' ? value : (JSON.stringify(value) ?? ''));
  return text
    .replaceAll(/[\p{Cc}\p{Cf}\s]+/gu, ' ')
    .trim()
    .slice(0, 500);
}

const clock = (time: unknown): string => `${clean(time).slice(11, 19)}Z`;

function painted(word: string): string {
  const colour = COLOURS[word as keyof typeof COLOURS] ?? 'gray';
  return process.stdout.isTTY ? styleText(colour, word.padEnd(8)) : word.padEnd(8);
}
