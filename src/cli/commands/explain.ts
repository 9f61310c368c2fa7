// Shows the timeline of one event, with its tasks.
import { copiesOf, textOf } from '../../admin/copies.ts';
import { shown } from '../../admin/export.ts';
import { unloadedWords } from '../../admin/move.ts';
import type { ShownTask } from '../../store/read.ts';
import type { Store } from '../../store/store.ts';
import { laneWords, rivalOf, timelineOf, type Found } from '../../admin/timeline.ts';
import { parse, UsageError, type Command } from '../lib/command.ts';
import { clean, count, fail, inert, print, printJson } from '../lib/print.ts';
import { withStore } from '../lib/store.ts';

export default {
  summary: 'the timeline of one event',
  usage: `explain <key, id or cursor> [--body | --curl | --fixture] [--json]
  --body also shows bodies that contradict it`,
  async run(args): Promise<number | void> {
    const { values, positionals } = parse(args, { flags: ['json', 'body', 'curl', 'fixture'] });
    const [name] = positionals;
    if (!name || positionals.length > 1) throw new UsageError('one key, id or cursor is needed');
    const found = await withStore((store) => find(store, name, values));
    if (!found) return fail(`no event has the key, id or cursor ${clean(name)}: npx kit events lists the newest`);
    const { event, body, others } = found;
    const contradictions = others.map((one) => ({ at: one.at, body: textOf(one.body) }));
    const copies = body && copiesOf(event, body);
    if (values.json) {
      const told = { ...found, event: shown(event), loaded: undefined, others: undefined };
      return printJson({ ...told, body: copies?.text, contradictions: values.body ? contradictions : undefined });
    }
    tellEvent(found);
    for (const near of found.neighbours) tellTask(near, event, found.loaded);
    if (!copies && (values.body || values.curl || values.fixture)) print(`  no body: ${bodyOf(found)}`);
    if (copies) print(inert(values.curl ? copies.curl : values.fixture ? copies.fixture : copies.text));
    for (const { at, body: words } of contradictions) print(`contradicted at ${at} by:\n${inert(words)}`);
  },
} satisfies Command;

type Looked = NonNullable<Awaited<ReturnType<typeof find>>>;

/** The event, its tasks and their neighbours in the lane. Bodies are read only if an option asks for them. */
async function find(store: Store, name: string, asked: { body?: boolean; curl?: boolean; fixture?: boolean }) {
  const now = store.now();
  const found = await store.read.event(name, now);
  if (!found) return undefined;
  const neighbours = [];
  for (const task of found.tasks) neighbours.push({ task, ...(await store.read.neighbours(task.id, now)) });
  const { key } = found.event;
  const loaded = (await store.read.handlers(now)).flatMap((one) => (one.loaded ? [one.name] : []));
  const body = asked.body || asked.curl || asked.fixture ? await store.read.body(key) : null;
  return { ...found, neighbours, loaded, body, others: asked.body ? await store.read.contradictions(key) : [] };
}

function tellEvent(found: Found): void {
  const { event, aliases, tasks } = found;
  const { createdAt, receivedAt } = shown(event);
  const rival = rivalOf(event);
  print(`${clean(event.type)} ${clean(event.key)}`);
  print(`  id ${clean(event.id ?? '-')}, cursor ${event.cursor ?? '-'}, session ${clean(event.sessionId ?? '-')}`);
  print(`  happened ${createdAt ?? 'at an unknown time'}, received ${receivedAt} by ${event.origin}`);
  print(`  body ${bodyOf(found)}; redelivered ${count(event.copies, 'time')}`);
  if (event.flags) print(`  flags: ${event.flags}`);
  if (aliases.length > 0) print(`  also known as ${clean(aliases.join(', '))}`);
  if (rival) print(`  its cursor was that of ${rival} before: npx kit explain ${rival}`);
  for (const { at, what, detail, error } of timelineOf(found)) {
    print(`  ${at}  ${clean(what)}${detail ? `: ${clean(detail)}` : ''}`);
    if (error) print(`    ${clean(error)}`);
  }
  if (tasks.length === 0)
    print(
      '  no task: no handler was there for its type, it is history and no handler has history: true, it was erased before, or run has not read it yet',
    );
}

function bodyOf({ event, erased }: Found): string {
  if (erased) return 'erased by npx kit erase';
  return event.bytes === null ? 'purged after PAYLOAD_RETENTION_DAYS' : `${event.bytes} bytes`;
}

function tellTask(
  { task, earlier, later }: Looked['neighbours'][number],
  event: Found['event'],
  loaded: string[],
): void {
  const tries = `${count(task.attempts, 'attempt')}${task.late ? ', late' : ''}`;
  print(`  task ${task.id} of ${clean(task.handler)}: ${task.state}, ${tries}`);
  if (task.state === 'held') print('    held: it waits for earlier events of its lane, or for replay (npx kit status)');
  if (!loaded.includes(task.handler)) {
    const waits = task.state === 'ready' || task.state === 'held';
    print(clean(`    no loaded handler is named ${task.handler}${waits ? `. ${unloadedWords(task.handler)}` : ''}`));
  }
  print(`    ${laneWords(task, event)}`);
  const names = (list: ShownTask[]): string =>
    clean(list.map(({ key, state }) => `${key} ${state}`).join(', ')) || 'none nearby';
  if (task.lane !== null) print(`    earlier in its lane: ${names(earlier)}; later: ${names(later)}`);
}
