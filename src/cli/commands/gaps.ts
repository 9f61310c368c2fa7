// Stretches of history that the service can no longer replay; a person who has fetched what matters closes one.
import { EXIT } from '../../base/errors.ts';
import {
  clean,
  clock,
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

const command: Command = {
  summary: 'stretches of history that can no longer be fetched',
  usage:
    'gaps [--json]\n       npx kit gaps close <gap> --reason "…"     when what matters of it was fetched by other means',
  async run(args) {
    const { values, positionals } = parse(args, { json: { type: 'boolean' }, reason: { type: 'string' } });
    const [verb, id, ...more] = positionals;
    if (more.length > 0 || (verb !== undefined && verb !== 'close')) throw new UsageError('gaps, or gaps close <gap>');
    if (verb === 'close') return close(number('the gap', id), values.reason);
    const gaps = await withStore((store) => store.gaps());
    if (values.json) printJson({ gaps });
    else if (gaps.length === 0) print('no gaps');
    else
      printTable(
        ['gap', 'since', 'after', 'up to', 'why', 'closed', 'by'],
        gaps.map((gap) => [gap.id, gap.openedAt, gap.after, gap.upTo, gap.reason, gap.closedAt, gap.closedBy]),
      );
    return EXIT.done;
  },
};
export default command;

async function close(id: number | undefined, reason: string | undefined): Promise<number> {
  if (id === undefined) throw new UsageError('which gap? npx kit gaps lists them');
  if (!reason?.trim()) throw new UsageError('--reason is needed: what was done about it');
  if (await withStore((store) => store.closeGap(id, reason, clock.now()))) {
    print(`gap ${id} is closed: ${clean(reason)}`);
    return EXIT.done;
  }
  return fail(`there is no open gap ${id}: npx kit gaps lists them`);
}
