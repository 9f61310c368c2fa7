// A template tag for HTML. It escapes every value that it has not made itself. Characters that hide or reverse text
// become U+FFFD.
import { UNSEEN } from '../../../base/unseen.ts';

class Markup {
  readonly text: string;
  constructor(text: string) {
    this.text = text;
  }
}
export type Html = Markup;
type Value = Html | string | number | bigint | boolean | null | undefined | readonly Value[];

/** Values are escaped for text and for quoted attributes. Lists are joined. Null, undefined and false print nothing. */
export function html(strings: TemplateStringsArray, ...values: Value[]): Html {
  return new Markup(strings.reduce((text, part, i) => text + render(values[i - 1]) + part));
}

function render(value: Value): string {
  if (value === null || value === undefined || value === false) return '';
  if (value instanceof Markup) return value.text;
  return typeof value === 'object' ? value.map(render).join('') : escape(String(value));
}

const ENTITIES: Record<string, string> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;', "'": '&#39;' };

function escape(text: string): string {
  return text
    .toWellFormed()
    .replaceAll(UNSEEN, '\u{fffd}')
    .replaceAll(/[&<>"']/g, (sign) => ENTITIES[sign] ?? sign);
}
