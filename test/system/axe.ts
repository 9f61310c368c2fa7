// What axe finds wrong with a page, for people who use a keyboard or a screen reader.
import axe from 'axe-core';
import type { Page } from 'playwright-core';

/** One line for each violation. The script is evaluated, because the policy of the page allows no other script. */
export async function violations(page: Page): Promise<string[]> {
  await page.evaluate(axe.source);
  return page.evaluate<string[]>(
    `axe.run().then(({ violations }) => violations.flatMap(({ id, nodes }) => nodes.map(({ target }) => id + ': ' + target)))`,
  );
}
