// Turns the kit's log into lines for people: a line for each attempt, a second line for its error, and the result of
// each reload after a handler was saved.
import { stripVTControlCharacters, styleText } from 'node:util';
import { advised } from '../advice.ts';

export interface LineOptions {
  /** True: the events are real, so error messages are left out, because they may quote what other people wrote. */
  live: boolean;
  colour: boolean;
  /** Paths are shown relative to this folder. */
  folder: string;
}

type Colour = Parameters<typeof styleText>[0];

const COLOURS: Record<string, Colour> = {
  done: 'green',
  skipped: 'gray',
  retry: 'yellow',
  dead: 'red',
  unhandled: 'gray',
};
const INDENT = ' '.repeat(11);
const WARN = 40;
/** Fields of every line, which are shown elsewhere in it. */
const COMMON = new Set(['level', 'time', 'process', 'handler', 'key', 'msg']);
/** Fields of the kit's own lines that are shown elsewhere, or say nothing to a developer. */
const OWN = new Set(['role', 'error', 'why', 'at', 'how', 'code', 'signal', 'type', 'nearest', 'alarm']);
/** Alarms about faults that dev has shown already. */
const SHOWN = new Set(['handler_failing', 'lane_fault']);

export const HEAD = row('time', 'key', 'type', 'lane', 'handler', 'verdict', 'ms');

/** The lines to print for one line of the kit's output: none, one or several. */
export function readable(line: string, { live, colour, folder }: LineOptions): string[] {
  const paint = (how: Colour, words: string): string =>
    colour ? styleText(how, words, { validateStream: false }) : words;
  const told = parse(line);
  // A line that is not the kit's JSON was printed by a handler.
  if (!told) return [line];
  const { msg, level, verdict, faults, problems } = told;
  if (typeof verdict === 'string') return attempt(verdict);
  const broken = Array.isArray(faults) ? faults : problems;
  if (Array.isArray(broken))
    return broken.map(
      (fault) => `${paint('red', 'broken')}     ${here(clean(fault))} (${clean(msg).split('; ').at(-1)})`,
    );
  if (clean(msg).startsWith('SIGHUP') && Array.isArray(told['handlers'])) {
    return [`${paint('cyan', 'reloaded')}   ${told['handlers'].map(clean).join(', ')} in ${clean(told['ms'])} ms`];
  }
  if (SHOWN.has(String(told['alarm']))) return [];
  const { handler, process: role } = told;
  const by = typeof handler === 'string' ? `${handler}: ` : '';
  const isHandlers = by !== '' && typeof told['key'] === 'string';
  if (isHandlers && clean(role).startsWith('run') && !('at' in told)) return [`${INDENT}${by}${text(COMMON)}`];
  if (!isHandlers && Number(level) < WARN) return [];
  const from = isHandlers ? INDENT : `${paint('yellow', 'the kit')}    `;
  return [`${from}${by}${text(COMMON.union(OWN))}`, ...error()];

  function attempt(outcome: string): string[] {
    const { time, key, type, lane, ms, late, origin } = told ?? {};
    const marks = [late === true && 'late', origin === 'replay' && 'recovered'].filter(Boolean).join(' ');
    const lanes = typeof lane === 'number' ? `#${lane}` : '-';
    const who = clean(told?.['handler'] ?? '-');
    const at = `${clean(time).slice(11, 19)}Z`;
    const cells = row(at, clean(key), clean(type), lanes, who, outcome, clean(ms ?? ''));
    const coloured = cells.replace(outcome.padEnd(9), paint(COLOURS[outcome] ?? 'white', outcome.padEnd(9)));
    return [marks ? `${coloured}  ${paint('magenta', marks)}` : coloured, ...error()];
  }

  /** The event's key, the error, and the handler's line, unless the error's text names it. */
  function error(): string[] {
    const { key, why, error: name, at } = told ?? {};
    const words = clean(live || typeof why !== 'string' ? (name ?? '') : advised(why));
    const place = typeof at === 'string' ? here(at) : '';
    const end = words.includes(place) ? '' : place;
    if (words === '' && place === '') return [];
    return [`${INDENT}${[clean(key ?? ''), words && paint('red', words), end].filter(Boolean).join('  ')}`];
  }

  /** The message, and the fields that are not hidden. */
  function text(hidden: Set<string>): string {
    const fields = Object.entries(told ?? {}).filter(([name]) => !hidden.has(name));
    return clean(fields.length > 0 ? `${clean(msg)} ${JSON.stringify(Object.fromEntries(fields))}` : msg);
  }

  function here(words: string): string {
    return words.replaceAll(`${folder}/`, '');
  }
}

function row(...[time = '', key = '', type = '', lane = '', handler = '', verdict = '', ms = '']: string[]): string {
  return `${time.padEnd(9)}  ${key.padEnd(19)}  ${type.padEnd(20)}  ${lane.padEnd(5)}  ${handler.padEnd(14)}  ${verdict.padEnd(9)}  ${ms.padStart(5)}`;
}

/** Puts untrusted text on one line, without characters that control a terminal. */
export function clean(value: unknown): string {
  const plain = stripVTControlCharacters(typeof value === 'string' ? value : (JSON.stringify(value) ?? ''));
  return plain
    .replaceAll(/[\p{Cc}\p{Cf}\s]+/gu, ' ')
    .trim()
    .slice(0, 500);
}

/** The fields of a line of the kit's log. Undefined: something else printed the line. */
export function parse(line: string): Record<string, unknown> | undefined {
  try {
    const told: unknown = JSON.parse(line);
    return typeof told === 'object' && told !== null && 'process' in told ? { ...told } : undefined;
  } catch {
    return undefined;
  }
}
