// Results as text for a terminal.

/** An array of objects as a table; an object as one line per field, with lists indented. */
export function textOf(result: unknown): string {
  if (!Array.isArray(result)) return linesOf(result as Record<string, unknown>);
  if (result.length === 0) return 'nothing';
  return typeof result[0] === 'object' ? tableOf(result as Record<string, unknown>[]) : result.map(cell).join('\n');
}

function linesOf(values: Record<string, unknown>): string {
  const line = ([name, value]: [string, unknown]): string => {
    if (name === 'words') return cell(value);
    const isList = Array.isArray(value) && value.length > 0;
    return `${worded(name)}: ${isList ? `\n${textOf(value)}`.replaceAll('\n', '\n  ') : cell(value) || 'none'}`;
  };
  return Object.entries(values).map(line).join('\n');
}

function tableOf(rows: Record<string, unknown>[]): string {
  const isShown = (value: unknown): boolean => value !== null && value !== false;
  const names = Object.keys(rows[0] ?? {}).filter((name) => rows.some((row) => isShown(row[name])));
  const cells = [names.map(worded), ...rows.map((row) => names.map((name) => cell(row[name])))];
  const widths = names.map((_, n) => Math.max(...cells.map((row) => row[n]?.length ?? 0)));
  const padded = (row: string[]): string => row.map((text, n) => text.padEnd(widths[n] ?? 0)).join('  ');
  return cells.map((row) => padded(row).trimEnd()).join('\n');
}

/** A value on one line, even if strangers wrote line breaks into it. */
function cell(value: unknown): string {
  if (value === null || value === undefined) return '';
  if (typeof value === 'string') return value.replaceAll(/\s+/g, ' ');
  if (Array.isArray(value)) return value.map(cell).join(', ');
  if (typeof value !== 'object') return JSON.stringify(value);
  const shownOnes = Object.entries(value).filter(([, inner]) => inner !== null);
  const part = ([name, inner]: [string, unknown]): string =>
    typeof inner === 'number' ? `${inner} ${worded(name)}` : `${worded(name)} ${cell(inner)}`;
  return shownOnes.map(part).join(', ');
}

const worded = (name: string): string => name.replaceAll(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`);

/** Characters that could control a terminal or reorder a line, but not tabs, line ends and the joiners of emoji. */
const UNSEEN = /(?![\t\n\u200c\u200d])[\p{Cc}\p{Cf}\u2028\u2029]/gu;

/** Makes text from outside safe on a terminal. JSON keeps its meaning. */
export function shown(text: string): string {
  const hidden = (unit: string): string => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`;
  return text.replaceAll(UNSEEN, (sign) => sign.split('').map(hidden).join(''));
}
