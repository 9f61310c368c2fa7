// Did event X arrive? The newest events, or those that match.
import { iso } from '../clock.ts';
import { EXIT } from '../errors.ts';
import { clock, number, oneOf, parse, print, printJson, printTable, withStore, type Command } from './command.ts';
import { TASK_STATES } from './tasks.ts';

const command: Command = {
  summary: 'events, newest first',
  usage: 'events [--type T] [--session S] [--state STATE] [--q KEY|ID|CURSOR] [--before SEQ] [--limit N] [--json]',
  async run(args) {
    const text = { type: 'string' } as const;
    const { values } = parse(args, {
      type: text,
      session: text,
      state: text,
      q: text,
      before: text,
      limit: text,
      json: { type: 'boolean' },
    });
    const page = await withStore((store) =>
      store.events(
        {
          type: values.type,
          session: values.session,
          state: oneOf('--state', TASK_STATES, values.state),
          q: values.q,
          before: number('--before', values.before),
          limit: number('--limit', values.limit) ?? 20,
        },
        clock.now(),
      ),
    );
    const events = page.events.map((event) => ({
      ...event,
      createdAt: iso(event.createdAt),
      receivedAt: iso(event.receivedAt),
    }));
    if (values.json) printJson({ events, next: page.next });
    else {
      printTable(
        ['received', 'key', 'type', 'session', 'origin', 'again'],
        events.map((event) => [event.receivedAt, event.key, event.type, event.sessionId, event.origin, event.copies]),
      );
      if (page.next !== null) print(`more: npx kit events --before ${page.next}`);
    }
    return EXIT.done;
  },
};
export default command;
