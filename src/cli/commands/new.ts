// A handler and its test from a template. What a template is for stands in its own header, and nowhere else.
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join, relative, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { loadConfig, readEnv } from '../../config.ts';
import { EXIT } from '../../base/errors.ts';
import { fail, parse, print, printJson, printTable, UsageError, type Command } from '../lib/command.ts';

const TEMPLATES = fileURLToPath(new URL('../../../templates/', import.meta.url));

const command: Command = {
  summary: 'a handler and its test, from a template; alone: which templates there are',
  usage:
    'new [--json]\n       npx kit new <template> <name>     writes HANDLERS_DIR/<name>.ts and test/handlers/<name>.test.ts',
  async run(args) {
    const { values, positionals } = parse(args, { json: { type: 'boolean' } });
    const [template, name] = positionals;
    const templates = readTemplates();
    if (template === undefined) return list(templates, values.json);
    if (!templates.some((one) => one.name === template))
      throw new UsageError(`there is no template ${JSON.stringify(template)}: npx kit new lists them`);
    if (name === undefined || positionals.length > 2)
      throw new UsageError('one name is needed: of the handler and its file');
    if (!/^[a-z0-9][\w-]{0,99}$/i.test(name))
      throw new UsageError('the name begins with a letter or digit, and goes on with those, - and _');
    return write(template, name);
  },
};
export default command;

function list(templates: { name: string; line: string }[], json: boolean | undefined): number {
  if (json) printJson(templates);
  else {
    printTable(
      ['template', 'what it does'],
      templates.map(({ name, line }) => [name, line]),
    );
    print('\nnpx kit new <template> <name> writes the handler and its test');
  }
  return EXIT.done;
}

function readTemplates(): { name: string; line: string }[] {
  const files = existsSync(TEMPLATES) ? readdirSync(TEMPLATES).toSorted() : [];
  return files
    .filter((file) => /^[^_].*\.ts$/.test(file) && !file.endsWith('.test.ts'))
    .map((file) => ({ name: file.slice(0, -'.ts'.length), line: lineOf(readFileSync(join(TEMPLATES, file), 'utf8')) }));
}

/** The first sentence of its header. */
function lineOf(source: string): string {
  const header =
    /^(?:\/\/.*\n)+/
      .exec(source)?.[0]
      .replaceAll(/^\/\/ ?/gm, '')
      .replaceAll('\n', ' ') ?? '';
  return /^.*?\.(?= |$)/.exec(header)?.[0] ?? header.trim();
}

function write(template: string, name: string): number {
  const { handlersDir } = loadConfig(readEnv(), { only: ['HANDLERS_DIR'] });
  const handler = join(handlersDir, `${name}.ts`);
  const test = resolve('test', 'handlers', `${name}.test.ts`);
  const there = [handler, test].find((path) => existsSync(path));
  if (there) {
    return fail(`${there} is there already: choose another name`);
  }
  const path = relative(dirname(test), handler);
  const source = (file: string): string => readFileSync(join(TEMPLATES, file), 'utf8');
  create(handler, source(`${template}.ts`));
  create(test, source(`${template}.test.ts`).replaceAll(`'./${template}.ts'`, `'${path}'`));
  print(`${relative('', handler)}\n${relative('', test)}\n`);
  print(`Next: read its header, change what it does, and npm test -- ${relative('', test)}`);
  print('npm run dev runs it against the simulated service; a running receiver takes it with npx kit reload');
  return EXIT.done;
}

function create(path: string, source: string): void {
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, source, { flag: 'wx' });
}
