// The runbook as a page: an anchor for each alarm, and nothing of the file is taken as HTML.
import { readFileSync } from 'node:fs';
import { expect, onTestFinished, test } from 'vitest';
import { RULES } from '../../../src/alarms/rules/index.ts';
import { runbookScreen } from '../../../src/ops/pages/runbook.ts';
import { createOps, NOTHING_SET } from '../harness.ts';

const TEXT = readFileSync('src/ops/runbook.md', 'utf8');

test.each(Object.keys(RULES))('the page has an anchor for the alarm %s', (alarm) => {
  expect(runbookScreen().text).toContain(`<h2 id="${alarm}">${alarm}</h2>`);
});

test('every link within the page leads to an anchor', () => {
  const { text } = runbookScreen();
  const links = [...text.matchAll(/href="#(\w+)"/g)].map(([, name]) => name);
  expect(links.length).toBeGreaterThan(Object.keys(RULES).length);
  for (const name of links) expect(text).toContain(`id="${name}"`);
});

test('no mark of Markdown is left on the page, so the file uses nothing that the page cannot show', () => {
  const words = runbookScreen().text.replaceAll(/<code>.*?<\/code>|<[^>]*>/gs, '');
  expect(words).not.toMatch(/\*\*|`|\]\(|^\s*(#|[-*] |\d+\. |\||> )/m);
  for (const block of TEXT.split(/\n{2,}/))
    expect(block.trim(), 'one line for each heading and paragraph').not.toContain('\n');
});

test('HTML, code and links of other files are shown as text', () => {
  const { text } = runbookScreen(
    '# Title\n\n## name\n\n<img src=x onerror="a()"> & `<b>` **bold `x`** [`a.md`](../processes/a.md#b) [evil](javascript:alert(1))\n',
  );
  expect(text).toContain('&lt;img src=x onerror=&quot;a()&quot;&gt; &amp; <code>&lt;b&gt;</code>');
  expect(text).toContain('<strong>bold <code>x</code></strong>');
  expect(text).toContain('<code>a.md</code> (<code>src/processes/a.md</code>)');
  expect(text).not.toMatch(/<img|href="(?!#)/);
});

test('a reader may see the runbook; without a token nobody may', async () => {
  const ops = await createOps({ ...NOTHING_SET, OPS_TOKEN: 'changes-0123456789', OPS_READ_TOKEN: 'looks-0123456789' });
  onTestFinished(() => ops.close());
  const asked = await ops.get('/runbook', { authorization: 'Bearer looks-0123456789' });
  expect(asked.status).toBe(200);
  expect(asked.text).toContain('href="/runbook"');
  expect((await ops.get('/runbook')).status).toBe(401);
});
