// Authentic deliveries and replay items that could not be read as an event; their bytes are kept.
import { EXIT } from '../errors.ts';
import { number, parse, print, printJson, printTable, withStore, type Command } from './command.ts';

const command: Command = {
  summary: 'authentic bytes that could not be read as an event',
  usage: 'quarantine [--limit N] [--json]',
  async run(args) {
    const { values } = parse(args, { json: { type: 'boolean' }, limit: { type: 'string' } });
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
