// Values as PostgreSQL's driver gives and takes them, and numbers for their names in a statement.
import { types as standard } from 'pg';

/** Values as SQLite gives them: a boolean is 0 or 1, and what has a type that SQLite lacks is text. */
const PARSERS = new Map<number, (text: string) => unknown>([
  ...[21, 23, 700, 701, 1700].map((oid) => [oid, Number] as const),
  [16, (text) => Number(text === 't')],
  [17, standard.getTypeParser(17)],
  [20, (text) => (Number.isSafeInteger(Number(text)) ? Number(text) : BigInt(text))],
]);
export const types = { getTypeParser: ((oid: number) => PARSERS.get(oid) ?? String) as never };

/** Quoted text and comments stay as they are. */
const TOKEN = /'(?:[^']|'')*'|"(?:[^"]|"")*"|--[^\n]*|\/\*[\s\S]*?\*\/|\?|@(\w+)/g;

/** Names become numbers, and so do the question marks of users. */
export function numbered(text: string): { text: string; names: string[] } {
  const names: string[] = [];
  const replaced = text.replaceAll(TOKEN, (token, name?: string) => {
    if (token === '?') return `$${names.push(token)}`;
    if (name === undefined) return token;
    if (!names.includes(name)) names.push(name);
    return `$${names.indexOf(name) + 1}`;
  });
  return { text: replaced, names };
}

/** In PostgreSQL, text cannot hold a NUL. */
export function bound(value: unknown): unknown {
  if (typeof value === 'string') return value.includes('\0') ? value.replaceAll('\0', '\uFFFD') : value;
  if (typeof value === 'boolean') return Number(value);
  return Array.isArray(value) ? value.map(bound) : value;
}
