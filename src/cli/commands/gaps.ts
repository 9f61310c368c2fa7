// Lists gaps, and closes a gap by hand.
import { closeGap } from '../../admin/gaps.ts';
import { number, parse, UsageError, type Command } from '../lib/command.ts';
import { clean, print } from '../lib/print.ts';
import { withStore } from '../lib/store.ts';
import { printList } from '../lib/table.ts';

export default {
  summary: 'ranges of history that can no longer be fetched',
  usage:
    'gaps [--json]\n       npx kit gaps close <gap> --reason "…"     after you fetched what you need by other means',
  async run(args) {
    const { values, positionals } = parse(args, { text: ['reason'], flags: ['json'] });
    const [verb, id, ...more] = positionals;
    if (more.length > 0 || (verb !== undefined && verb !== 'close')) throw new UsageError('gaps, or gaps close <gap>');
    if (verb === 'close') return close(number('the gap', id), values.reason);
    const gaps = await withStore((store) => store.read.gaps());
    const head = ['gap', 'since', 'after', 'up to', 'why', 'closed', 'by'];
    const rows = gaps.map((gap) => [gap.id, gap.openedAt, gap.after, gap.upTo, gap.reason, gap.closedAt, gap.closedBy]);
    return printList(values.json, { gaps }, head, rows, { none: 'no gaps', least: ['by', 'since', 'closed'] });
  },
} satisfies Command;

async function close(gap: number | undefined, reason = ''): Promise<void> {
  if (gap === undefined) throw new UsageError('which gap? npx kit gaps lists them');
  if (!reason.trim()) throw new UsageError('--reason is needed: what was done about it');
  const words = await withStore((store) => closeGap(store, { gap, reason }, store.now()));
  print(`${words}: ${clean(reason)}`);
}
