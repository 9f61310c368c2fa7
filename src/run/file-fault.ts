// Words for the fault of a handler file: the place, the error on one line, and what to do.
import { existsSync, readFileSync } from 'node:fs';
import { dirname, relative } from 'node:path';
import { behind, describe } from '../base/errors.ts';

/** A field of a handler is wrong. */
export class FieldError extends Error {
  /** Matches the line of the field. */
  readonly line: RegExp;
  constructor(field: string, words: string) {
    super(words);
    this.line = new RegExp(`(^|[\\s{,])${field}\\s*[:,(]`);
  }
}

export function faultOf(error: unknown, path: string, what = ''): string {
  const { name, message, at } = describe(error);
  const missing = missingImport(message);
  if (missing) return `${among(missing.at, path)}: ${what}${missing.words}`;
  const place = error instanceof FieldError ? withLine(path, error.line) : at;
  const plain = message.replaceAll(/\s+/g, ' ').trim();
  return `${among(place, path)}: ${what}${name === 'Error' ? plain : `${name}: ${plain}`}`;
}

/** `file:line` of the first line that matches. Without such a line, the file. */
export function withLine(file: string, pattern: RegExp): string {
  const lines = existsSync(file) ? readFileSync(file, 'utf8').split('\n') : [];
  const line = lines.findIndex((text) => pattern.test(text));
  return line < 0 ? file : `${file}:${line + 1}`;
}

/** The place, which may be in a file that the handler's file imports. */
function among(place: string | null, path: string): string {
  if (place === null || place === path || place.startsWith(`${path}:`)) return place ?? path;
  return behind(place) === '' ? path : `${path}: ${place}`;
}

/** Node names the file that imports, but neither the line nor the ending that is missing. */
function missingImport(message: string): { at: string; words: string } | undefined {
  const [, kind, name = '', from = ''] =
    /^(?:Cannot find (package|module)|Directory import) '([^']+)'.* imported from (\/\S+)/.exec(message) ?? [];
  if (from === '') return undefined;
  const [end = ''] = /[^/]*$/.exec(name) ?? [];
  const at = withLine(from, new RegExp(`['"]${kind === 'package' ? '' : '.*'}${RegExp.escape(end)}['"/]`));
  if (kind === 'package') return { at, words: `cannot find the package ${name}: npm install ${name}` };
  const near = [`${name}.ts`, name.replace(/\.m?js$/, '.ts'), `${name}/index.ts`].find((path) => existsSync(path));
  const shown = (path: string): string => relative(dirname(from), path).replace(/^(?!\.)/, './');
  const remedy = near ? `did you mean ${shown(near)}? An import names the whole file` : 'there is no such file';
  return { at, words: `cannot find ${shown(name)}: ${remedy}` };
}
