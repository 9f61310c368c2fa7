// Reads and writes tables and lists in documents, so that tests compare them with the code. Throws if there is none.
import { readFileSync, readdirSync } from 'node:fs';
import type { Command } from '../src/cli/lib/command.ts';

/** The cells of the table under this heading, without the header row. */
export function rowsUnder(file: string, heading: string): string[][] {
  const { lines } = placeOf(readFileSync(file, 'utf8'), file, heading, '| ');
  return lines.slice(2).map((line) =>
    line
      .slice(1, -1)
      .split('|')
      .map((cell) => cell.trim()),
  );
}

/** The text of the document with these rows in the table. The test writes it to the file if vitest runs with -u. */
export function withRows(text: string, file: string, heading: string, rows: string[][]): string {
  const { lines, replaced } = placeOf(text, file, heading, '| ');
  return replaced([...lines.slice(0, 2), ...rows.map((cells) => `| ${cells.join(' | ')} |`)]);
}

/** The items of the list under this heading. */
export function itemsUnder(file: string, heading: string): string[] {
  return placeOf(readFileSync(file, 'utf8'), file, heading, '- ').lines.map((line) => line.slice(2));
}

/** The text of the document with these items in the list. The test writes it if vitest runs with -u. */
export function withItems(text: string, file: string, heading: string, items: string[]): string {
  return placeOf(text, file, heading, '- ').replaced(items.map((item) => `- ${item}`));
}

interface Place {
  lines: string[];
  /** Returns the text of the document with other lines in this place. */
  replaced: (lines: string[]) => string;
}

/** `mark`: the text with which each line of the table or list begins. */
function placeOf(text: string, file: string, heading: string, mark: string): Place {
  const section = text.indexOf(`\n## ${heading}\n`);
  const from = text.indexOf(`\n${mark}`, section) + 1;
  const end = text.indexOf('\n\n', from);
  const upTo = end === -1 ? text.trimEnd().length : end;
  const lines = text.slice(from, upTo).split('\n');
  if (section === -1 || from === 0 || lines.length < 3 || lines.some((line) => !line.startsWith(mark)))
    throw new Error(`${file} has no table or list under "${heading}"`);
  return { lines, replaced: (other) => text.slice(0, from) + other.join('\n') + text.slice(upTo) };
}

/** All commands of the CLI, in the order of `npx kit --help`. */
export async function commands(): Promise<(Command & { name: string })[]> {
  const files = readdirSync('src/cli/commands').filter((file) => file.endsWith('.ts'));
  if (files.length < 10) throw new Error('src/cli/commands has no commands');
  const names = files.map((file) => file.slice(0, -'.ts'.length)).toSorted();
  return Promise.all(
    names.map(async (name) => {
      const { default: command } = (await import(`../src/cli/commands/${name}.ts`)) as { default: Command };
      return { ...command, name };
    }),
  );
}
