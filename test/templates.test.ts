// The table in templates/README.md agrees with the header of each template, and templates that share a table agree on it.
import { readdirSync, readFileSync } from 'node:fs';
import { afterEach, expect, test, vi } from 'vitest';
import { defineHandler } from '#kit';
import { deliver, fixture, recorder } from '#kit/testing';
import autoReply from '../templates/auto-reply.ts';
import optOut from '../templates/opt-out.ts';

afterEach(() => void vi.unstubAllEnvs());

const templates = readdirSync('templates')
  .filter((file) => /^[^.]+\.ts$/.test(file))
  .toSorted();

/** From the header: the first sentence, and the beginnings of the sentences about lane and freshness. */
function rowOf(file: string): string {
  const header = /^(?:\/\/.*\n)+/.exec(readFileSync(`templates/${file}`, 'utf8'))?.[0] ?? '';
  const text = header.replaceAll(/^\/\/ |\n/gm, (found) => (found === '\n' ? ' ' : ''));
  const parts = /^(.+?\.) .* Lane: ([^.,]+).* Freshness: ([^.,;]+)/.exec(text) ?? [];
  return `| [\`${file.replace('.ts', '')}\`](${file}) | ${parts.slice(1).join(' | ')} |`;
}

test('the table of the templates agrees with their headers', () => {
  expect(templates.length).toBeGreaterThan(3);
  const rows = readFileSync('templates/README.md', 'utf8').match(/^\| \[`.*$/gm);
  expect(rows).toEqual(templates.map(rowOf));
});

test.each([
  ['auto-reply', 'opt-out', autoReply, optOut],
  ['opt-out', 'auto-reply', optOut, autoReply],
])('auto-reply obeys opt-out, if %s is set up before %s', async (_, __, first, second) => {
  vi.stubEnv('PAID_OPERATIONS', 'allow');
  const both = defineHandler({
    ...autoReply,
    setup: [first.setup ?? [], second.setup ?? []].flat(),
    async handle(event, ctx) {
      await (['STOP', 'START'].includes(event.data.body) ? optOut : autoReply).handle(event, ctx);
    },
  });
  const said = ['STOP', 'hello', 'START', 'hello again'].map((body) => fixture('MessageReceived', { data: { body } }));
  const service = recorder({ quote: { quoteId: 'quote-1' }, send: {} });
  const { tasks, calls } = await deliver(both, said, { service });
  expect(tasks.map(({ state }) => state)).toEqual(['done', 'skipped', 'done', 'done']);
  expect(tasks[1]?.error).toBe('the writer has opted out');
  expect(calls.filter(({ name }) => name === 'send')).toHaveLength(1);
});
