// What became of it? The story of one event.
import { iso } from '../clock.ts';
import { EXIT } from '../errors.ts';
import { clean, clock, count, parse, print, printJson, UsageError, withStore, type Command } from './command.ts';

const command: Command = {
  summary: 'the story of one event, by key, id or cursor',
  usage: 'explain <key, id or cursor> [--json]',
  async run(args) {
    const { values, positionals } = parse(args, { json: { type: 'boolean' } });
    const [name] = positionals;
    if (!name || positionals.length > 1) throw new UsageError('one key, id or cursor is needed');
    const found = await withStore((store) => store.event(name, clock.now()));
    if (!found) {
      process.stderr.write(`no event has the key, id or cursor ${clean(name)}: npx kit events lists the newest\n`);
      return EXIT.failed;
    }
    const { event, sightings, aliases, conflicts, tasks } = found;
    const times = { createdAt: iso(event.createdAt), receivedAt: iso(event.receivedAt) };
    if (values.json) {
      printJson({ ...found, event: { ...event, ...times } });
      return EXIT.done;
    }
    print(`${clean(event.type)} ${clean(event.key)}`);
    print(`  id ${clean(event.id ?? '-')}, cursor ${event.cursor ?? '-'}, session ${clean(event.sessionId ?? '-')}`);
    print(`  happened ${times.createdAt ?? 'at an unknown time'}, received ${times.receivedAt} by ${event.origin}`);
    for (const { origin, at } of sightings) print(`  brought by ${origin} as well, first ${at}`);
    print(
      `  came again ${count(event.copies, 'time')}; body ${event.bytes === null ? 'purged' : `${event.bytes} bytes`}`,
    );
    if (event.flags) print(`  odd: ${event.flags}`);
    if (aliases.length > 0) print(`  also known as ${clean(aliases.join(', '))}`);
    if (conflicts > 0) print(`  contradicted by ${count(conflicts, 'arrival')}, kept in the store`);
    if (tasks.length === 0) print('  no task: no handler was there for its type, or run has not read it yet');
    for (const task of tasks) {
      print(
        `  task ${task.id} of ${task.handler}: ${task.state}, ${count(task.attempts, 'attempt')}${task.late ? ', late' : ''}`,
      );
      if (task.startedAt) print(`    started ${task.startedAt}${task.finishedAt ? `, ended ${task.finishedAt}` : ''}`);
      if (task.state === 'ready') print(`    due ${task.dueAt}`);
      if (task.state === 'held')
        print('    held: for earlier events of its lane, or for the proof of replay (npx kit status)');
      if (task.error) print(`    ${clean(task.error)}`);
    }
    return EXIT.done;
  },
};
export default command;
