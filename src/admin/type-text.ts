// Writes the definition of a type, as in src/events.ts, from what was learned. Example values are made up from kinds.
import { ITEM, KEY, type Field } from './fields.ts';
import type { LearnedType } from './types.ts';

interface Written {
  schema: string;
  example: string;
  /** Stands for a value that was always there so far, but is missing. */
  orElse: string;
}

const KINDS: Record<string, [schema: string, example: string, orElse: string]> = {
  UUID: ['z.guid()', 'session', 'null'],
  digits: ['z.string()', `'15550100'`, `''`],
  'long digits': ['z.string()', `'9007199254740993'`, `''`],
  time: ['z.string()', 'new Date(at).toISOString()', `''`],
  string: ['z.string()', `'text'`, `''`],
  integer: ['integer()', '1', 'null'],
  number: ['z.number()', '1.5', 'null'],
  boolean: ['z.boolean()', 'false', 'false'],
};
const ID = /(^|_)id$/;

export function textOf({ type, root }: LearnedType): string {
  const { schema, example } = objectText(root, '    ');
  const about = [...new Set(example.match(/\b(n|session|at)(?=[,)}\]])/g))].join(', ');
  const name = /^[A-Za-z]\w*$/.test(type) ? type : `'${type.replaceAll(/['\\]/g, '\\$&')}'`;
  return `  ${name}: define({
    data: ${schema},
    example: (${about && `{ ${about} }`}) => (${example}),
  }),`;
}

function objectText({ fields, kinds }: Field, pad: string): Written {
  const names = [...fields].filter(([name, { times }]) => times > 0 && name !== ITEM && name !== KEY);
  const values = fields.get(KEY);
  if (names.length === 0 && values?.times)
    return { schema: `z.record(z.string(), ${innerText(KEY, values, pad).schema})`, example: '{}', orElse: 'null' };
  const lines = names.map(([name, field]) => {
    const { schema, example, orElse } = valueText(name, field, `${pad}  `);
    const always = field.times === kinds.get('object') && !field.kinds.has('null');
    const wrapped = always && ID.test(name) ? schema : `orElse(${schema}, ${always ? orElse : 'null'})`;
    return { schema: `${pad}  ${name}: ${wrapped},\n`, example: `${pad}  ${name}: ${example},\n` };
  });
  const all = (part: 'schema' | 'example'): string =>
    lines.length === 0 ? '{}' : `{\n${lines.map((line) => line[part]).join('')}${pad}}`;
  return { schema: `z.looseObject(${all('schema')})`, example: all('example'), orElse: 'null' };
}

/** An item of a list, or a value of a map. It may be null, but cannot be missing. */
function innerText(name: string, field: Field, pad: string): Written {
  const { schema, ...rest } = valueText(name, field, pad);
  return { schema: field.kinds.has('null') ? `orElse(${schema}, null)` : schema, ...rest };
}

function valueText(name: string, field: Field, pad: string): Written {
  const kind = oneKind(name, field);
  if (kind === 'object') return objectText(field, pad);
  if (kind === 'list') {
    const items = field.fields.get(ITEM);
    const item = items ? innerText(ITEM, items, pad) : { schema: 'z.unknown()', example: '' };
    return { schema: `z.array(${item.schema})`, example: `[${item.example}]`, orElse: '[]' };
  }
  const [schema = 'z.unknown()', example = 'null', orElse = 'null'] = KINDS[kind] ?? [];
  if (kind === 'integer' && name.endsWith('_unix_ms')) return { schema, example: 'at', orElse };
  if (kind === 'string' && ID.test(name)) return { schema, example: `\`${name}-\${n}\``, orElse };
  return { schema, example, orElse };
}

/** The kind that stands for all kinds that came. Empty: none does. */
function oneKind(name: string, { kinds }: Field): string {
  const came = new Set(kinds.keys());
  came.delete('null');
  const within = (...some: string[]): boolean => came.size > 0 && [...came].every((kind) => some.includes(kind));
  if (within('integer', 'digits') && (came.has('integer') || name.endsWith('_unix_ms'))) return 'integer';
  if (within('integer', 'number')) return 'number';
  if (came.size > 1 && within('UUID', 'digits', 'long digits', 'time', 'string')) return 'string';
  return came.size === 1 ? ([...came][0] ?? '') : '';
}
