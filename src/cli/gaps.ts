// Stretches of history that the service can no longer replay.
import { EXIT } from '../errors.ts';
import { parse, print, printJson, printTable, withStore, type Command } from './command.ts';

const command: Command = {
  summary: 'stretches of history that can no longer be fetched',
  usage: 'gaps [--json]',
  async run(args) {
    const { values } = parse(args, { json: { type: 'boolean' } });
    const gaps = await withStore((store) => store.gaps());
    if (values.json) printJson({ gaps });
    else if (gaps.length === 0) print('no gaps');
    else
      printTable(
        ['gap', 'since', 'after', 'up to', 'why', 'closed'],
        gaps.map((gap) => [gap.id, gap.openedAt, gap.after, gap.upTo, gap.reason, gap.closedAt]),
      );
    return EXIT.done;
  },
};
export default command;
