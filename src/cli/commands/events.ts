// Lists the newest events, or those that match, as a table or as lines of JSON.
import { once } from 'node:events';
import { iso } from '../../base/clock.ts';
import { linesOf, shown } from '../../admin/export.ts';
import { eventQuery, origin } from '../../admin/filters.ts';
import { outcomesOf } from '../../admin/outcomes.ts';
import { number, parse, readOptions, type Command } from '../lib/command.ts';
import { inert, print } from '../lib/print.ts';
import { withStore } from '../lib/store.ts';
import { printList } from '../lib/table.ts';

export default {
  summary: 'events, newest first',
  usage: `events [--type T] [--session S] [--origin ${origin.options.join('|')}] [--handler NAME]
         [--state STATE] [--contradicted] [--unseen] [--since TIME] [--until TIME]
         [--q KEY|ID|CURSOR|MESSAGE ID] [--before SEQ] [--limit N] [--json]
       npx kit events … --ndjson [--bodies]     all that match, one line each
  --unseen: replay and the stream have not shown it, as a forged event`,
  async run(args) {
    const { values } = parse(args, {
      text: ['type', 'session', 'origin', 'handler', 'state', 'since', 'until', 'q', 'before', 'limit'],
      flags: ['contradicted', 'unseen', 'json', 'ndjson', 'bodies'],
      names: false,
    });
    const filter = readOptions(eventQuery, values);
    const limit = number('--limit', values.limit) ?? 20;
    await withStore(async (store) => {
      const now = store.now();
      if (values.ndjson) {
        for await (const line of linesOf(store, filter, { now, bodies: values.bodies ?? false }))
          if (!process.stdout.write(inert(line))) await once(process.stdout, 'drain');
        return;
      }
      const { events, next } = await store.read.events({ ...filter, limit }, now);
      const head = ['received', 'key', 'type', 'outcome', 'session', 'origin', 'again'];
      const rows = events.map((one) => {
        const outcome = outcomesOf(one).map(({ words }) => words);
        const { key, type, sessionId, copies } = one;
        return [iso(one.receivedAt), key, type, outcome.join(', ') || 'no task', sessionId, one.origin, copies];
      });
      const none = next === null ? 'no event matches' : 'no match so far';
      const least = ['again', 'session', 'origin'];
      printList(values.json, { events: events.map(shown), next }, head, rows, { none, least });
      if (!values.json && next !== null) print(`older ones: the same with --before ${next}`);
    });
  },
} satisfies Command;
