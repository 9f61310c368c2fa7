// Authentic deliveries and replay items that could not be read as an event; their bytes are kept, shown, and read again.
import { EXIT } from '../../base/errors.ts';
import type { Store } from '../../store/store.ts';
import {
  clean,
  clock,
  count,
  fail,
  number,
  parse,
  print,
  printJson,
  printTable,
  UsageError,
  withStore,
  type Command,
} from '../lib/command.ts';

const MOST = 10_000;

const command: Command = {
  summary: 'authentic bytes that could not be read as an event',
  usage: `quarantine [--limit N] [--json]
       npx kit quarantine show <id>               its bytes, as they came
       npx kit quarantine retry <id> | --all      read them again, after a change of what is read`,
  async run(args) {
    const { values, positionals } = parse(args, {
      json: { type: 'boolean' },
      limit: { type: 'string' },
      all: { type: 'boolean' },
    });
    const [verb, text, ...more] = positionals;
    if (more.length > 0 || (verb !== undefined && verb !== 'show' && verb !== 'retry'))
      throw new UsageError('quarantine, quarantine show <id>, or quarantine retry <id>');
    const id = number('the id', text);
    if (verb !== undefined && (id === undefined) === !(verb === 'retry' && values.all))
      throw new UsageError('which one? npx kit quarantine lists them');
    if (verb === 'show') return withStore((store) => show(store, id ?? 0));
    if (verb === 'retry') return withStore((store) => retry(store, id));
    const rows = await withStore((store) => store.quarantine(number('--limit', values.limit) ?? 50));
    if (values.json) printJson({ quarantine: rows });
    else if (rows.length === 0) print('nothing is quarantined');
    else
      printTable(
        ['id', 'received', 'origin', 'cursor', 'bytes', 'why'],
        rows.map((row) => [row.id, row.receivedAt, row.origin, row.cursor, row.bytes, row.reason]),
      );
    return EXIT.done;
  },
};
export default command;

/** As they came where another program takes them; harmless on a terminal. */
async function show(store: Store, id: number): Promise<number> {
  const row = await store.quarantined(id);
  if (!row) return missing(id);
  if (process.stdout.isTTY) print(clean(new TextDecoder().decode(row.body)));
  else process.stdout.write(row.body);
  return EXIT.done;
}

async function retry(store: Store, id: number | undefined): Promise<number> {
  const ids = id === undefined ? (await store.quarantine(MOST)).map((row) => row.id) : [id];
  let left = 0;
  for (const one of ids) {
    const accepted = await store.retryQuarantined(one, clock.now());
    if (!accepted) return missing(one);
    if (accepted.verdict === 'quarantined') left++;
  }
  print(
    `${count(ids.length - left, 'event')} read; ${left} still quarantined${left > 0 ? ': npx kit quarantine says why' : ''}`,
  );
  return left === 0 ? EXIT.done : EXIT.failed;
}

function missing(id: number): number {
  return fail(`nothing is quarantined under ${id}: npx kit quarantine lists what is`);
}
