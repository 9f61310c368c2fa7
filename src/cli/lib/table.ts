// Tables that fit the terminal. On a terminal they are coloured.
import { styleText } from 'node:util';
import stringWidth from 'string-width';
import { clean, print, printJson } from './print.ts';

type Cell = string | number | null;

/** Splits text into visible characters. A letter with its accents, or an emoji of several parts, is one character. */
const characters = new Intl.Segmenter();
/** Minimum width of a column that is cut. */
const NARROW = 8;
const TONES: Record<string, 'red' | 'yellow' | 'green' | 'gray'> = {
  dead: 'red',
  skipped: 'gray',
  ready: 'yellow',
  held: 'yellow',
  running: 'yellow',
  done: 'green',
};

/** Cells that are never cut, because half a number, key or time is useless. */
const WHOLE = /^(-|\d+|[ci]:[\x21-\x7e]+|(\d{4}-)?\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+Z)?)$/;

interface TableOptions {
  /** Printed instead of a table without rows. */
  none?: string;
  /** Columns that a narrow terminal leaves out, the least important first. */
  least?: string[];
}

/**
 * Prints aligned columns. If they do not fit, times lose their year and fractions, and columns in `least` are left out.
 * Then the widest columns are cut, and a cut cell ends in an ellipsis.
 */
export function printTable(head: string[], rows: Cell[][], { none = 'nothing', least = [] }: TableOptions = {}): void {
  if (rows.length === 0) return print(none);
  const room = process.stdout.isTTY ? process.stdout.columns : Infinity;
  let lines = [head, ...rows.map((row) => row.map((cell) => (cell === null ? '-' : clean(String(cell)))))];
  const over = (widths = widest(lines)): number => widths.reduce((a, b) => a + b, 0) + 2 * (widths.length - 1) - room;
  if (over() > 0) lines = lines.map((line) => line.map(shortTime));
  for (const title of least) {
    const column = lines[0]?.indexOf(title) ?? -1;
    if (over() > 0 && column >= 0) lines = lines.map((line) => line.toSpliced(column, 1));
  }
  const widths = widest(lines);
  const [titles = [], ...cells] = lines;
  while (over(widths) > 0) {
    const soft = widths.map((width, i) => (cells.every((line) => WHOLE.test(line[i] ?? '')) ? 0 : width));
    const giving = soft.indexOf(Math.max(...soft));
    const width = soft[giving] ?? 0;
    if (width <= NARROW) break;
    const next = Math.max(NARROW, ...soft.filter((one) => one < width));
    widths[giving] = Math.max(next, width - over(widths));
  }
  const printLine = (line: string[], toned: (cell: string, fitted: string) => string): void =>
    print(
      line
        .map((cell, i) => toned(cell, fit(cell, widths[i] ?? 0)))
        .join('  ')
        .trimEnd(),
    );
  printLine(titles, (_, fitted) => bold(fitted));
  for (const line of cells) printLine(line, tonedByState);
}

/** Prints the rows as a table, or with `--json` what they show. */
export function printList(json: boolean | undefined, shown: object, ...table: Parameters<typeof printTable>): void {
  if (json) printJson(shown);
  else printTable(...table);
}

function widest([titles = [], ...cells]: string[][]): number[] {
  return titles.map((title, i) => Math.max(stringWidth(title), ...cells.map((line) => stringWidth(line[i] ?? ''))));
}

/** Makes text bold, but only on a terminal and without NO_COLOR: `styleText` checks both. */
export function bold(text: string): string {
  return styleText('bold', text);
}

function shortTime(cell: string): string {
  return cell.replace(/^\d{4}-(\d\d-\d\d)T(\d\d:\d\d:\d\d)\.\d+Z$/, '$1 $2');
}

function tonedByState(cell: string, fitted: string): string {
  const tone = Object.hasOwn(TONES, cell) ? TONES[cell] : undefined;
  return tone ? styleText(tone, fitted) : fitted;
}

/** Pads the text to this width. Longer text is cut between two characters. */
function fit(text: string, width: number): string {
  let shown = text;
  if (stringWidth(text) > width) {
    shown = '';
    for (const { segment } of characters.segment(text)) {
      if (stringWidth(shown + segment) >= width) break;
      shown += segment;
    }
    shown += '…';
  }
  return shown + ' '.repeat(Math.max(0, width - stringWidth(shown)));
}
