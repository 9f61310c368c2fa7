// Writes a handler and its test, from a template or empty. The first sentence of a template's header says what it does.
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join, relative, resolve } from 'node:path';
import { z } from 'zod';
import { loadConfigOfRun, readEnv } from '../../config.ts';
import { define, Refused } from '../../operations/define.ts';

const TEMPLATES = join(import.meta.dirname, '../../../templates');
const HANDLER = `import { defineHandler } from '#kit';

export default defineHandler({
  on: 'MessageReceived',
  handle(event, ctx) {
    ctx.log.info({ messageId: event.data.message_id }, 'message received');
  },
});
`;
const TEST = `import { expect, test } from 'vitest';
import { deliver, fixture } from '#kit/testing';
import handler from './handler.ts';

test('a message is handled', async () => {
  const { tasks } = await deliver(handler, fixture('MessageReceived'));
  expect(tasks).toMatchObject([{ state: 'done', attempts: 1 }]);
});
`;

const template = (file: string): string => readFileSync(join(TEMPLATES, file), 'utf8');

function list() {
  const files = readdirSync(TEMPLATES).filter((file) => /^[^.]+\.ts$/.test(file));
  const whatOf = (file: string): string => /(?<=\/\/ ).*?\.(?=\s)/.exec(template(file))?.[0] ?? '';
  const found = files.toSorted().map((file) => ({ template: file.slice(0, -'.ts'.length), what: whatOf(file) }));
  return [{ template: 'handler', what: 'An empty handler.' }, ...found];
}

export const create = define({
  name: 'new',
  about: 'writes a handler and its test from a template; without one it lists the templates',
  args: z.object({
    template: z.string().optional().describe('one of the templates; handler is an empty one'),
    name: z.string().default('').describe('the name of the handler and its file: letters, digits, - and _'),
  }),
  first: ['template', 'name'],
  access: 'change',
  async run(_, { template: wanted, name }) {
    if (wanted === undefined) return list();
    const names = list().map((one) => one.template);
    if (!names.includes(wanted)) throw new Refused(`there is no template ${wanted}: there are ${names.join(', ')}`);
    if (!/^[a-z0-9][\w-]{0,99}$/i.test(name))
      throw new Refused('the name must be 1 to 100 letters, digits, - and _, and begin with a letter or a digit');
    const handler = join(loadConfigOfRun(readEnv()).handlersDir, `${name}.ts`);
    const test = resolve('test/handlers', `${name}.test.ts`);
    const there = [handler, test].find((path) => existsSync(path));
    if (there !== undefined) throw new Refused(`${there} exists already: choose another name`);
    const isEmpty = wanted === 'handler';
    write(handler, isEmpty ? HANDLER : template(`${wanted}.ts`));
    const source = isEmpty ? TEST : template(`${wanted}.test.ts`);
    write(test, source.replace(`'./${wanted}.ts'`, `'${relative(dirname(test), handler)}'`));
    const words = `Next: npm test ${relative('', test)}. A running kit loads the handler when it gets SIGHUP, and npm run dev at once`;
    return { handler, test, words };
  },
});

function write(path: string, text: string): void {
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, text, { flag: 'wx' });
}
