// What became of it? The story of one event.
import { iso } from '../../base/clock.ts';
import { EXIT } from '../../base/errors.ts';
import { copiesOf, textOf } from '../../admin/copies.ts';
import type { ShownTask } from '../../store/read.ts';
import { laneWords, rivalOf, timelineOf } from '../../admin/timeline.ts';
import {
  clean,
  clock,
  count,
  fail,
  inert,
  parse,
  print,
  printJson,
  UsageError,
  withStore,
  type Command,
} from '../lib/command.ts';

const flag = { type: 'boolean' } as const;

const command: Command = {
  summary: 'the story of one event, by key, id or cursor',
  usage:
    'explain <key, id or cursor> [--body | --curl | --fixture] [--json]     bodies are shown on demand only; --body: those that contradict it as well',
  async run(args) {
    const { values, positionals } = parse(args, { json: flag, body: flag, curl: flag, fixture: flag });
    const [name] = positionals;
    if (!name || positionals.length > 1) throw new UsageError('one key, id or cursor is needed');
    const reveal = values.body || values.curl || values.fixture;
    const found = await withStore(async (store) => {
      const now = clock.now();
      const one = await store.event(name, now);
      if (!one) return undefined;
      const neighbours = one.tasks.map(async (task) => ({ task, ...(await store.neighbours(task.id, now)) }));
      const body = reveal ? await store.body(one.event.key) : null;
      const others = values.body ? await store.contradictions(one.event.key) : [];
      return { ...one, neighbours: await Promise.all(neighbours), body, others };
    });
    if (!found) {
      return fail(`no event has the key, id or cursor ${clean(name)}: npx kit events lists the newest`);
    }
    const { event, aliases, tasks, body, others } = found;
    const rival = rivalOf(event);
    const contradictions = others.map((one) => ({ at: one.at, body: textOf(one.body) }));
    const copies = body && copiesOf(event, body);
    const times = { createdAt: iso(event.createdAt), receivedAt: iso(event.receivedAt) };
    if (values.json) {
      const shown = { ...found, event: { ...event, ...times }, others: undefined };
      printJson({ ...shown, body: copies?.text, contradictions: values.body ? contradictions : undefined });
      return EXIT.done;
    }
    print(`${clean(event.type)} ${clean(event.key)}`);
    print(`  id ${clean(event.id ?? '-')}, cursor ${event.cursor ?? '-'}, session ${clean(event.sessionId ?? '-')}`);
    print(`  happened ${times.createdAt ?? 'at an unknown time'}, received ${times.receivedAt} by ${event.origin}`);
    print(
      `  body ${event.bytes === null ? 'purged' : `${event.bytes} bytes`}; came again ${count(event.copies, 'time')}`,
    );
    if (event.flags) print(`  odd: ${event.flags}`);
    if (aliases.length > 0) print(`  also known as ${clean(aliases.join(', '))}`);
    if (rival) print(`  its cursor was that of ${rival} before: npx kit explain ${rival}`);
    for (const { at, what, detail, error } of timelineOf(found)) {
      print(`  ${at}  ${clean(what)}${detail ? `: ${clean(detail)}` : ''}`);
      if (error) print(`    ${clean(error)}`);
    }
    if (tasks.length === 0)
      print('  no task: no handler was there for its type, it was erased before, or run has not read it yet');
    for (const { task, earlier, later } of found.neighbours) {
      print(
        `  task ${task.id} of ${clean(task.handler)}: ${task.state}, ${count(task.attempts, 'attempt')}${task.late ? ', late' : ''}`,
      );
      if (task.state === 'held')
        print('    held: for earlier events of its lane, or for the proof of replay (npx kit status)');
      print(`    ${laneWords(task, event)}`);
      const names = (list: ShownTask[]): string =>
        clean(list.map(({ key, state }) => `${key} ${state}`).join(', ')) || 'none near';
      if (task.lane !== null) print(`    in its lane before it: ${names(earlier)}; behind it: ${names(later)}`);
    }
    if (copies) print(inert(values.curl ? copies.curl : values.fixture ? copies.fixture : copies.text));
    for (const { at, body: text } of contradictions) print(`what contradicted it at ${at}:\n${inert(text)}`);
    return EXIT.done;
  },
};
export default command;
