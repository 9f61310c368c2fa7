// Lists the handlers: their state, what waits, and how their attempts of the last hour ended.
import { attemptsBetween, NO_ATTEMPTS } from '../../admin/recent-attempts.ts';
import type { HandlerFigures } from '../../store/read.ts';
import { parse, type Command } from '../lib/command.ts';
import { withStore } from '../lib/store.ts';
import { printList } from '../lib/table.ts';

const HOUR_MS = 3_600_000;
const STEP_MS = 300_000;

export default {
  summary: 'handlers: state, what waits, failures of the last hour',
  usage: 'handlers [--json]',
  async run(args) {
    const { values } = parse(args, { flags: ['json'], names: false });
    const handlers = await withStore(async (store) => {
      const now = store.now();
      const recent = attemptsBetween(await store.read.samples(now - HOUR_MS, now, STEP_MS));
      return (await store.read.handlers(now)).map((one) => {
        const { took: _, ...lastHour } = recent.get(one.name) ?? NO_ATTEMPTS;
        return { ...one, lastHour };
      });
    });
    const head = ['handler', 'state', 'waiting', 'oldest', 'failed', 'p95', 'dead'];
    const rows = handlers.map((one) => {
      const { succeeded, failed, p95 } = one.lastHour;
      const share = succeeded + failed === 0 ? null : `${Math.round((100 * failed) / (succeeded + failed))} %`;
      const oldest = one.oldestSeconds === null ? null : `${one.oldestSeconds} s`;
      return [one.name, stateOf(one), one.waiting, oldest, share, p95 && `${p95} ms`, one.dead];
    });
    printList(values.json, { handlers }, head, rows, { none: 'no handler was ever loaded', least: ['p95', 'oldest'] });
  },
} satisfies Command;

function stateOf({ loaded, paused }: HandlerFigures): string {
  if (paused) return `paused since ${paused.since}${paused.reason === null ? '' : `: ${paused.reason}`}`;
  return loaded ? 'running' : 'not loaded';
}
