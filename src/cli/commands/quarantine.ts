// Quarantined deliveries and replay items: lists them, shows their bytes, parses them again.
import { EXIT } from '../../base/errors.ts';
import { readAgain } from '../../admin/quarantine.ts';
import { number, parse, UsageError, type Command } from '../lib/command.ts';
import { clean, count, fail, print } from '../lib/print.ts';
import { withStore } from '../lib/store.ts';
import { printList } from '../lib/table.ts';

const ALL = { newest: 10_000 };

export default {
  summary: 'authentic bytes that are no readable event',
  usage: `quarantine [--limit N] [--json]
       npx kit quarantine show <id>               its bytes, as they came
       npx kit quarantine retry <id> | --all      parse them again, after a change of the code`,
  async run(args) {
    const { values, positionals } = parse(args, { text: ['limit'], flags: ['all', 'json'] });
    const [verb, name, ...more] = positionals;
    if (more.length > 0 || (verb !== undefined && verb !== 'show' && verb !== 'retry'))
      throw new UsageError('quarantine, quarantine show <id>, or quarantine retry <id>');
    const id = number('the id', name);
    if (verb !== undefined && (id === undefined) === !(verb === 'retry' && values.all))
      throw new UsageError('which one? npx kit quarantine lists them');
    if (verb === 'show') return show(id ?? 0);
    if (verb === 'retry') return retry(id);
    const limit = number('--limit', values.limit) ?? 50;
    const quarantine = await withStore((store) => store.read.quarantine(limit));
    const head = ['id', 'received', 'origin', 'cursor', 'bytes', 'why'];
    const rows = quarantine.map((row) => [row.id, row.receivedAt, row.origin, row.cursor, row.bytes, row.reason]);
    const options = { none: 'nothing is quarantined', least: ['bytes', 'origin', 'cursor'] };
    return printList(values.json, { quarantine }, head, rows, options);
  },
} satisfies Command;

/** A pipe gets the original bytes. On a terminal, control characters are replaced. */
async function show(id: number): Promise<number | void> {
  const row = await withStore((store) => store.read.quarantined(id));
  if (!row) return missing(id);
  if (process.stdout.isTTY) print(clean(new TextDecoder().decode(row.body)));
  else process.stdout.write(row.body);
}

async function retry(id: number | undefined): Promise<number> {
  const outcomes = await withStore((store) => readAgain(store, id ?? ALL, store.now()));
  if (id !== undefined && outcomes.includes(undefined)) return missing(id);
  const left = outcomes.filter((one) => one?.verdict === 'quarantined').length;
  const why = left > 0 ? ': npx kit quarantine says why' : '';
  print(`${count(outcomes.length - left, 'event')} read; ${left} still quarantined${why}`);
  return left === 0 ? EXIT.done : EXIT.failed;
}

function missing(id: number): number {
  return fail(`nothing is quarantined under ${id}: npx kit quarantine lists what is`);
}
