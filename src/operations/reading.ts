// What people look at: events, tasks, quarantine, and the whole story of one event.
import { z } from 'zod';
import { iso } from '../base/clock.ts';
import { eventFilter, flag, limit, taskFilter } from './arguments.ts';
import { define, Refused, withTimes } from './define.ts';
import { eventNamed, handlerNamed } from './named.ts';
import { readFacts } from './store/facts.ts';
import { readCauses, readEvents, readTasks } from './store/read.ts';
import type { Facts, TaskLine } from './store/shapes.ts';
import { originOf } from '../store/rows.ts';

const FAILURES = `select n, at, error from attempts
  where event = @event and handler = (select id from handlers where name = @handler) order by n`;
const QUARANTINE = `select id, reason, received_at as "receivedAt", origin, cast(cursor as text) as cursor, event, copies,
  coalesce(octet_length(body), 0) as bytes from quarantine order by id desc limit @most`;

export const events = define({
  name: 'events',
  about: 'stored events, newest first',
  args: eventFilter,
  access: 'reveal',
  // These two search what strangers wrote, and a URL must not hold a phone number.
  byPost: ['sender', 'text'],
  run: async ({ db }, filter) => (await readEvents(db, filter)).map(withTimes),
});

export const tasks = define({
  name: 'tasks',
  about: 'tasks of handlers, newest first; with state waiting, oldest first',
  args: taskFilter.extend({ causes: flag.describe('groups failed tasks by error, the newest 10,000 of each handler') }),
  access: 'read',
  async run({ db }, { causes, ...filter }) {
    if (filter.handler !== undefined) await handlerNamed(db, filter.handler);
    const { event, type, session, error } = filter;
    if (causes && [event, type, session, error].some((value) => value !== undefined))
      throw new Refused('--causes takes --handler, --state and --limit only');
    if (causes) return (await readCauses(db, filter)).map(withTimes);
    const facts = await readFacts(db);
    return (await readTasks(db, filter)).map((task) => rowOf(task, facts));
  },
});

export const explain = define({
  name: 'explain',
  about: 'one event: how it came, and what each handler did with it; --data shows its body',
  args: z.object({ event: z.string().describe('one event: its key, id or cursor'), data: flag }),
  first: ['event'],
  access: 'reveal',
  byPost: ['data'],
  async run({ db }, { event: name, data }) {
    const event = await eventNamed(db, name);
    const facts = await readFacts(db);
    const list = await readTasks(db, { event: event.key, limit: 1_000 });
    const told = list.map(async (task) => ({
      ...rowOf(task, facts),
      failures: (await db.all<object>(FAILURES, { event: event.seq, handler: task.handler })).map(withTimes),
    }));
    const bytes = data
      ? await db.get<{ body: Buffer | null }>('select body from events where seq = @seq', { seq: event.seq })
      : null;
    const body = bytes?.body?.toString() ?? null;
    const pending = facts.handlers.filter(({ position }) => position < event.seq).map(({ name: handler }) => handler);
    return { ...(data && { body }), event: withTimes(event), tasks: await Promise.all(told), notYetTakenUpBy: pending };
  },
});

function rowOf(task: TaskLine, facts: Facts) {
  const { handler, key, type, state, ...rest } = withTimes(task);
  return { handler, key, type, state, waitsFor: waitsFor(task, facts), ...rest };
}

/** What the task waits for, or `running`. Null: the task has ended. */
function waitsFor(task: TaskLine, facts: Facts): string | null {
  if (task.state !== 'waiting') return null;
  const handler = facts.handlers.find(({ name }) => name === task.handler);
  if (task.running) return 'running';
  if (handler?.state !== 'loaded')
    return `waits until the handler's file works again: ${handler?.fault ?? 'the file is missing'}`;
  if (handler.paused) return `waits because the handler is paused: npx kit resume ${task.handler}`;
  if (task.dueAt === null)
    return `waits until replay has shown its event and all before it (watermark: ${facts.watermark ?? 'not set'})`;
  if (task.dueAt > facts.at)
    return `waits until ${iso(task.dueAt)}${task.firstFailedAt === null ? '' : ', to be tried again'}`;
  return task.crashes > 0
    ? 'waits to run in a process of its own, because a process died while it ran this task'
    : 'is due: waits for a free place, or for an earlier task of its lane';
}

export const quarantine = define({
  name: 'quarantine',
  about: 'authentic bytes that are unreadable, or contradict a stored event; with an id: the bytes themselves',
  args: z.object({ id: z.coerce.number().int().optional(), limit }),
  first: ['id'],
  access: 'reveal',
  byPost: ['id'],
  async run({ db }, { id, limit: most }) {
    if (id === undefined) {
      const rows = await db.all<{ origin: number }>(QUARANTINE, { most });
      return rows.map((row) => withTimes({ ...row, origin: originOf(row.origin) }));
    }
    const { body: bytes } =
      (await db.get<{ body: Buffer | null }>('select body from quarantine where id = @id', { id })) ?? {};
    if (!bytes) throw new Refused(`quarantine has no entry ${id}, or its bytes were erased: see npx kit quarantine`);
    return { id, bytes: bytes.toString('latin1') };
  },
});
