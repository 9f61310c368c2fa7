// Writes a handler and its test from a template. The header of a template says what it is for.
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join, relative, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { loadConfig, readEnv } from '../../config.ts';
import { parse, UsageError, type Command } from '../lib/command.ts';
import { fail, print } from '../lib/print.ts';
import { printList } from '../lib/table.ts';

/** A small repository (`npm run init`) may lack it. */
const DEV = fileURLToPath(new URL('../../tools/dev/main.ts', import.meta.url));
const TEMPLATES = fileURLToPath(new URL('../../../templates/', import.meta.url));

export default {
  summary: 'write a handler and its test, or list the templates',
  usage: `new [--json]
       npx kit new <template> <name>
  Writes HANDLERS_DIR/<name>.ts and test/handlers/<name>.test.ts`,
  async run(args) {
    const { values, positionals } = parse(args, { flags: ['json'] });
    const [template, name] = positionals;
    const templates = readTemplates();
    if (template === undefined) return list(templates, values.json);
    if (!templates.some((one) => one.name === template))
      throw new UsageError(`there is no template ${JSON.stringify(template)}: npx kit new lists them`);
    if (name === undefined || positionals.length > 2)
      throw new UsageError('one name is needed, for the handler and its file');
    if (!/^[a-z0-9][\w-]{0,99}$/i.test(name))
      throw new UsageError('the name begins with a letter or digit; it holds letters, digits, - and _');
    return write(template, name);
  },
} satisfies Command;

function list(templates: { name: string; line: string }[], json: boolean | undefined): void {
  const rows = templates.map(({ name, line }) => [name, line]);
  printList(json, templates, ['template', 'what it does'], rows, { none: 'there are no templates' });
  if (!json) print('\nnpx kit new <template> <name> writes the handler and its test');
}

function readTemplates(): { name: string; line: string }[] {
  const files = existsSync(TEMPLATES) ? readdirSync(TEMPLATES).toSorted() : [];
  return files
    .filter((file) => /^[^_].*\.ts$/.test(file) && !file.endsWith('.test.ts'))
    .map((file) => ({ name: file.slice(0, -'.ts'.length), line: lineOf(readFileSync(join(TEMPLATES, file), 'utf8')) }));
}

/** The first sentence of the template's header. */
function lineOf(source: string): string {
  const header =
    /^(?:\/\/.*\n)+/
      .exec(source)?.[0]
      .replaceAll(/^\/\/ ?/gm, '')
      .replaceAll('\n', ' ') ?? '';
  return /^.*?\.(?= |$)/.exec(header)?.[0] ?? header.trim();
}

function write(template: string, name: string): number | void {
  const { handlersDir } = loadConfig(readEnv(), { only: ['HANDLERS_DIR'] });
  const handler = join(handlersDir, `${name}.ts`);
  const test = resolve('test', 'handlers', `${name}.test.ts`);
  const there = [handler, test].find((path) => existsSync(path));
  if (there) return fail(`${there} is there already: choose another name`);
  const path = relative(dirname(test), handler);
  const source = (file: string): string => readFileSync(join(TEMPLATES, file), 'utf8');
  create(handler, source(`${template}.ts`));
  create(test, source(`${template}.test.ts`).replaceAll(`'./${template}.ts'`, `'${path}'`));
  print(`${relative('', handler)}\n${relative('', test)}\n`);
  print(`Next: read its header, change it, and run npm test -- ${relative('', test)}`);
  if (existsSync(DEV)) print('npm run dev runs it against the simulated service');
  print('npx kit reload loads it in a running receiver');
}

function create(path: string, source: string): void {
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, source, { flag: 'wx' });
}
