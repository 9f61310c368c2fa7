// Markup as a template that escapes whatever is put into it; only what this template made itself passes as it is. What
// strangers wrote can also turn text around or hide in it: such characters are shown as marks, never obeyed.
import { UNSEEN } from '../../../base/unseen.ts';

class Markup {
  readonly text: string;
  constructor(text: string) {
    this.text = text;
  }
}
export type Html = Markup;
type Value = Html | string | number | bigint | boolean | null | undefined | readonly Value[];

/** In text and in quoted attributes alike. Lists are joined; null, undefined and false are nothing. */
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
