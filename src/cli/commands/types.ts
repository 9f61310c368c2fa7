// Shows the fields of the events that came, beside the schemas in src/events.ts, and writes the schema of a new type.
import { ITEM, KEY, type Field } from '../../admin/fields.ts';
import { learnTypes, NEWEST, type LearnedType } from '../../admin/types.ts';
import { textOf } from '../../admin/type-text.ts';
import { parse, UsageError, type Command } from '../lib/command.ts';
import { clean, count, fail, print, printJson } from '../lib/print.ts';
import { withStore } from '../lib/store.ts';
import { printTable } from '../lib/table.ts';

export default {
  summary: 'the fields of the events that came, beside src/events.ts',
  usage: `types [<type>] [--json]
       npx kit types <type> --schema     a definition to paste into src/events.ts
  Reads the ${NEWEST} newest events of each type: names of fields and kinds of values, never a value.
  in     the share of the events, or of the objects, that have the field
  ${KEY}  a key that may name a person, like a phone number`,
  async run(args): Promise<number | void> {
    const { values, positionals } = parse(args, { flags: ['json', 'schema'] });
    const [only] = positionals;
    if (positionals.length > 1 || (values.schema && !only)) throw new UsageError('one event type is needed');
    const types = await withStore((store) => Array.fromAsync(learnTypes(store, store.now(), only)));
    const [first] = types;
    if (only && first?.events === 0)
      return fail(
        `no readable event of ${clean(only)} is stored; those of npx kit trigger do not count. npx kit types lists the types that came`,
      );
    if (values.schema && first) print(textOf(first));
    else if (values.json)
      printJson(types.map(({ root, ...type }) => ({ ...type, misfits: root.misfits, fields: rowsOf(root) })));
    else for (const type of types) show(type);
  },
} satisfies Command;

interface Row extends Pick<Field, 'named' | 'missing' | 'misfits'> {
  path: string;
  /** The part of the objects around it that have the field, from 0 to 1. Null: an item, or a value of a map. */
  share: number | null;
  kinds: Record<string, number>;
}

function rowsOf({ fields, kinds }: Field, above = ''): Row[] {
  const objects = kinds.get('object') ?? 0;
  return [...fields].flatMap(([name, field]) => {
    const path = name === ITEM ? above + ITEM : above ? `${above}.${name}` : name;
    const share = name === ITEM || name === KEY || objects === 0 ? null : field.times / objects;
    const { named, missing, misfits } = field;
    const row = { path, share, kinds: Object.fromEntries(field.kinds), named, missing, misfits };
    return [row, ...(field.times > 0 ? rowsOf(field, path) : [])];
  });
}

function show({ type, events, defined, root }: LearnedType): void {
  const hint = defined ? '' : `; not in src/events.ts: npx kit types ${clean(type)} --schema`;
  const whole = root.misfits === 0 ? '' : `; the schema refuses ${percent(root.misfits / events)} as a whole`;
  print(`${clean(type)}: ${count(events, 'event')}${events === NEWEST ? ', the newest' : ''}${hint}${whole}`);
  if (events === 0) return;
  const rows = rowsOf(root).filter(({ share, kinds }) => share !== null || Object.keys(kinds).length > 0);
  printTable(
    ['  field', 'in', 'kinds', ...(defined ? ['src/events.ts'] : [])],
    rows.map((row) => {
      const shown = [
        `  ${row.path}`,
        row.share === null ? null : percent(row.share),
        Object.keys(row.kinds).join(', '),
      ];
      return defined ? [...shown, differenceOf(row, events)] : shown;
    }),
  );
}

function differenceOf({ share, named, missing, misfits }: Row, events: number): string {
  if (!named) return share === null ? '' : 'does not name it';
  return [
    ...(share === 0 ? ['never came'] : []),
    ...(missing > 0 ? [`required, missing in ${percent(missing / events)}`] : []),
    ...(misfits > 0 ? [`does not fit in ${percent(misfits / events)}`] : []),
  ].join('; ');
}

function percent(share: number): string {
  return `${share === 0 || share === 1 ? share * 100 : Math.min(99, Math.max(1, Math.round(share * 100)))} %`;
}
