// Turns the kit's log into lines for people: a line for each attempt, a second line for its error, and the result of
// each reload after a handler was saved.
import { stripVTControlCharacters, styleText } from 'node:util';

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
const COMMON = new Set(['level', 'time', 'process', 'handler', 'key', 'msg']);

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
  if (told['process'] === 'receive' && Array.isArray(told['handlers'])) {
    return [`${paint('cyan', 'reloaded')}   ${told['handlers'].map(clean).join(', ')} in ${clean(told['ms'])} ms`];
  }
  if (typeof told['handler'] === 'string' && typeof told['key'] === 'string')
    return [`${INDENT}${told['handler']}: ${text()}`];
  return Number(level) >= WARN ? [`${paint('yellow', 'the kit')}    ${text()}`] : [];

  function attempt(outcome: string): string[] {
    const { time, key, type, lane, handler, ms, late, origin, error, why, at } = told ?? {};
    const marks = [late === true && 'late', origin === 'replay' && 'recovered'].filter(Boolean).join(' ');
    const lanes = typeof lane === 'number' ? `#${lane}` : '-';
    const cells = row(
      `${clean(time).slice(11, 19)}Z`,
      clean(key),
      clean(type),
      lanes,
      clean(handler ?? '-'),
      outcome,
      clean(ms ?? ''),
    );
    const coloured = cells.replace(outcome.padEnd(9), paint(COLOURS[outcome] ?? 'white', outcome.padEnd(9)));
    const words = !live && why !== undefined ? why : error;
    const place = typeof at === 'string' ? `  ${here(at)}` : '';
    const second = words === undefined ? [] : [`${INDENT}${paint('red', clean(words))}${place}`];
    return [marks ? `${coloured}  ${paint('magenta', marks)}` : coloured, ...second];
  }

  /** The message, and the fields that are not in COMMON. */
  function text(): string {
    const fields = Object.entries(told ?? {}).filter(([name]) => !COMMON.has(name));
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
