// Tables that fit the terminal, and colour where there is one to see it.
import { styleText } from 'node:util';
import { UNSEEN } from '../../base/unseen.ts';

type Cell = string | number | null;

/** The narrowest that a column is cut to. */
const NARROW = 8;
const TONES: Record<string, 'red' | 'yellow' | 'green' | 'gray'> = {
  dead: 'red',
  skipped: 'gray',
  ready: 'yellow',
  held: 'yellow',
  running: 'yellow',
  done: 'green',
};

/** Half a number is none; a task's, an event's key and a time are needed whole. */
const WHOLE = /^(-|\d+|[ci]:[\x21-\x7e]+|(\d{4}-)?\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+Z)?)$/;

/** Aligned columns. Where they do not fit, times lose their year and fractions, then the widest give way; what is cut ends
 * in an ellipsis. */
export function printTable(head: string[], rows: Cell[][]): void {
  let cells = rows.map((row) => row.map((cell) => (cell === null ? '-' : clean(String(cell)))));
  const room = (process.stdout.isTTY ? process.stdout.columns : Infinity) - 2 * (head.length - 1);
  const widest = (): number[] =>
    head.map((title, i) => Math.max(...[title, ...cells.map((row) => row[i] ?? '')].map(widthOf)));
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
  const line = (row: string[], tone: (cell: string, fitted: string) => string): string =>
    row
      .map((cell, i) => tone(cell, fit(cell, widths[i] ?? 0)))
      .join('  ')
      .trimEnd();
  process.stdout.write(`${line(head, (_, fitted) => bold(fitted))}\n`);
  for (const row of cells) process.stdout.write(`${line(row, toned)}\n`);
}

/** styleText itself looks whether there is a terminal, and at NO_COLOR. */
export function bold(text: string): string {
  return styleText('bold', text);
}

function shortTime(cell: string): string {
  return cell.replace(/^\d{4}-(\d\d-\d\d)T(\d\d:\d\d:\d\d)\.\d+Z$/, '$1 $2');
}

function toned(cell: string, fitted: string): string {
  const tone = Object.hasOwn(TONES, cell) ? TONES[cell] : undefined;
  return tone ? styleText(tone, fitted) : fitted;
}

function fit(text: string, width: number): string {
  let [kept, used] = ['', 0];
  const signs = Array.from(text, (sign) => ({ sign, takes: widthOf(sign) }));
  const fits = sum(signs.map(({ takes }) => takes)) <= width;
  for (const { sign, takes } of signs) {
    if (used + takes > (fits ? width : width - 1)) break;
    kept += sign;
    used += takes;
  }
  return `${kept}${fits ? '' : '…'}`.padEnd(kept.length + (fits ? 0 : 1) + width - used - (fits ? 0 : 1));
}

const WIDE =
  /[\u1100-\u115f\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6]|\p{Emoji_Presentation}/u;

/** In columns: signs of East Asia and emoji take two, combining ones none. */
function widthOf(text: string): number {
  if (/^[ -~]*$/.test(text)) return text.length;
  return sum(Array.from(text, (sign) => (/\p{M}|\p{Cf}/u.test(sign) ? 0 : WIDE.test(sign) ? 2 : 1)));
}

function sum(numbers: number[]): number {
  return numbers.reduce((a, b) => a + b, 0);
}

/** What strangers wrote can steer a terminal: what is not to be seen is shown as marks, not obeyed. */
export function clean(text: string): string {
  return text.replaceAll(UNSEEN, '\u{fffd}').replaceAll(/[\t\n]/g, '\u{fffd}');
}

/** JSON that says the same, and steers nothing. Outside of its strings only a carriage return is such a character. */
export function inert(json: string): string {
  return json.replaceAll(UNSEEN, (sign) =>
    sign === '\r' ? '' : `\\u${sign.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
}
