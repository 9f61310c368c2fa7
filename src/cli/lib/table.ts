// Tables that fit the terminal. On a terminal they are coloured.
import { styleText } from 'node:util';
import stringWidth from 'string-width';
import { clean } from './print.ts';

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

/**
 * Prints aligned columns. If they do not fit, times lose their year and fractions. Then the widest columns are cut,
 * and a cut cell ends in an ellipsis.
 */
export function printTable(head: string[], rows: Cell[][]): void {
  let cells = rows.map((row) => row.map((cell) => (cell === null ? '-' : clean(String(cell)))));
  const room = (process.stdout.isTTY ? process.stdout.columns : Infinity) - 2 * (head.length - 1);
  const widest = (): number[] =>
    head.map((title, i) => Math.max(...[title, ...cells.map((row) => row[i] ?? '')].map((cell) => stringWidth(cell))));
  if (sum(widest()) > room) cells = cells.map((row) => row.map(shortTime));
  const widths = widest();
  for (let over = sum(widths) - room; over > 0; over = sum(widths) - room) {
    const soft = widths.map((width, i) => (cells.every((row) => WHOLE.test(row[i] ?? '')) ? 0 : width));
    const giving = soft.indexOf(Math.max(...soft));
    const width = soft[giving] ?? 0;
    if (width <= NARROW) break;
    const next = Math.max(NARROW, ...soft.filter((one) => one < width));
    widths[giving] = Math.max(next, width - Math.max(over, 1));
  }
  const printRow = (row: string[], toned: (cell: string, fitted: string) => string): void => {
    const fitted = row.map((cell, i) => toned(cell, fit(cell, widths[i] ?? 0)));
    process.stdout.write(`${fitted.join('  ').trimEnd()}\n`);
  };
  printRow(head, (_, fitted) => bold(fitted));
  for (const row of cells) printRow(row, tonedByState);
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

function sum(numbers: number[]): number {
  return numbers.reduce((a, b) => a + b, 0);
}
