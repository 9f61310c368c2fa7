// Text from outside is shown as text, and never interpreted as markup.
import { expect, test } from 'vitest';
import { html } from '../../../../src/ops/pages/shell/html.ts';

test('every value is escaped, in text and in attributes', () => {
  const hostile = `<script>alert('1')</script>" onload="x&amp;`;
  expect(html`<a title="${hostile}">${hostile}</a>`.text).toBe(
    '<a title="&lt;script&gt;alert(&#39;1&#39;)&lt;/script&gt;&quot; onload=&quot;x&amp;amp;">' +
      '&lt;script&gt;alert(&#39;1&#39;)&lt;/script&gt;&quot; onload=&quot;x&amp;amp;</a>',
  );
});

test('markup from the template tag is not escaped, alone or in lists; null, undefined and false print nothing', () => {
  const items = ['<', '>'].map((sign) => html`<li>${sign}</li>`);
  expect(html`${items}${null}${undefined}${false}`.text).toBe('<li>&lt;</li><li>&gt;</li>');
  expect(html`${0} ${12n} ${true}`.text).toBe('0 12 true');
});

test('an object that only looks like markup is refused', () => {
  const forged = JSON.parse('{"text":"<script>"}') as string;
  expect(() => html`${forged}`.text).toThrow(TypeError);
});

test.each([
  ['a right-to-left override', '\u202e'],
  ['an isolate', '\u2066'],
  ['a mark of direction', '\u200f'],
  ['a null', '\u0000'],
  ['an escape', '\u001b'],
  ['a carriage return', '\r'],
  ['a C1 control', '\u009b'],
  ['a byte-order mark', '\ufeff'],
  ['a space without width', '\u200b'],
  ['half a surrogate pair', '\ud800'],
])('%s is shown as U+FFFD', (_, sign) => {
  expect(html`a${sign}b`.text).toBe('a\u{fffd}b');
});

test('tabs, line feeds, joined emoji and other scripts stay', () => {
  const text = 'a\tb\nc 👩‍💻 שלום';
  expect(html`${text}`.text).toBe(text);
});
