// Did event X arrive? The newest events, or those that match; as a table, or as lines of JSON.
import { once } from 'node:events';
import { iso } from '../../base/clock.ts';
import { EXIT } from '../../base/errors.ts';
import { linesOf, shown } from '../../admin/export.ts';
import { origin, taskState } from '../../admin/filters.ts';
import {
  clock,
  inert,
  moment,
  number,
  oneOf,
  parse,
  print,
  printJson,
  printTable,
  withStore,
  type Command,
} from '../lib/command.ts';

const command: Command = {
  summary: 'events, newest first',
  usage: `events [--type T] [--session S] [--origin ${origin.options.join('|')}] [--handler NAME] [--state STATE]
         [--contradicted] [--since TIME] [--until TIME] [--q KEY|ID|CURSOR|MESSAGE ID] [--before SEQ] [--limit N] [--json]
       npx kit events … --ndjson [--bodies]     all that match, a line each`,
  async run(args) {
    const text = { type: 'string' } as const;
    const flag = { type: 'boolean' } as const;
    const filters = { type: text, session: text, origin: text, handler: text, state: text, since: text, until: text };
    const options = {
      ...filters,
      contradicted: flag,
      q: text,
      before: text,
      limit: text,
      json: flag,
      ndjson: flag,
      bodies: flag,
    };
    const { values } = parse(args, options, { names: false });
    const filter = {
      type: values.type,
      session: values.session,
      contradicted: values.contradicted,
      origin: oneOf('--origin', origin.options, values.origin),
      handler: values.handler,
      state: oneOf('--state', taskState.options, values.state),
      since: moment('--since', values.since),
      until: moment('--until', values.until),
      q: values.q,
      before: number('--before', values.before),
    };
    return withStore(async (store) => {
      if (values.ndjson) {
        for await (const line of linesOf(store, filter, { now: clock.now(), bodies: values.bodies ?? false }))
          if (!process.stdout.write(inert(line))) await once(process.stdout, 'drain');
        return EXIT.done;
      }
      const { events, next } = await store.events(
        { ...filter, limit: number('--limit', values.limit) ?? 20 },
        clock.now(),
      );
      if (values.json) printJson({ events: events.map(shown), next });
      else {
        printTable(
          ['received', 'key', 'type', 'session', 'origin', 'again'],
          events.map((event) => [
            iso(event.receivedAt),
            event.key,
            event.type,
            event.sessionId,
            event.origin,
            event.copies,
          ]),
        );
        if (next !== null)
          print(
            `${events.length === 0 ? 'none among those looked at; older ones' : 'more'}: the same with --before ${next}`,
          );
      }
      return EXIT.done;
    });
  },
};
export default command;
