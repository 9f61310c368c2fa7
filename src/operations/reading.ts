// What people look at: events, tasks, quarantine, and the whole story of one event.
import { z } from 'zod';
import { iso } from '../base/clock.ts';
import { eventFilter, flag, limit, taskFilter } from './arguments.ts';
import { define, Refused, withTimes } from './define.ts';
import type { Facts, TaskLine } from './store/shapes.ts';

export const events = define({
  name: 'events',
  about: 'stored events, newest first',
  args: eventFilter,
  access: 'reveal',
  reads: true,
  // They ask what strangers wrote, and a URL must not hold a phone number.
  byPost: ['sender', 'text'],
  run: async ({ read }, filter) => (await read.events(filter)).map(withTimes),
});

export const tasks = define({
  name: 'tasks',
  about: 'tasks of handlers: waiting ones oldest first, others newest first',
  args: taskFilter.extend({ causes: flag.describe('groups of the same error') }),
  access: 'read',
  async run({ read, clock }, { causes, ...filter }) {
    if (causes) return (await read.causes(filter)).map(withTimes);
    const facts = await read.facts();
    const list = await read.tasks(filter);
    return list.map((task) => rowOf(task, facts, clock.now()));
  },
});

export const explain = define({
  name: 'explain',
  about: 'one event: how it came, and what each handler did with it; --data shows what it holds',
  args: z.object({ event: z.string().describe('its key, id or cursor'), data: flag }),
  first: ['event'],
  access: 'reveal',
  reads: true,
  byPost: ['data'],
  async run({ read, clock }, { event: name, data }) {
    const event = await read.event(name);
    if (!event) throw new Refused(`no event has the key, id or cursor ${name}: see npx kit events`);
    const facts = await read.facts();
    const list = await read.tasks({ event: event.key, limit: 1_000 });
    const told = list.map(async (task) => ({
      ...rowOf(task, facts, clock.now()),
      failures: (await read.attempts(event.seq, task.handler)).map(withTimes),
    }));
    const body = data ? await read.body(event.seq) : undefined;
    const pending = facts.handlers.filter(({ position }) => position < event.seq).map(({ name: handler }) => handler);
    return { ...(data && { body }), event: withTimes(event), tasks: await Promise.all(told), notYetTakenUpBy: pending };
  },
});

function rowOf(task: TaskLine, facts: Facts, now: number) {
  const { handler, key, type, state, ...rest } = withTimes(task);
  return { handler, key, type, state, waitsFor: waitsFor(task, facts, now), ...rest };
}

/** Null: it has ended. */
function waitsFor(task: TaskLine, facts: Facts, now: number): string | null {
  if (task.state !== 'waiting') return null;
  const handler = facts.handlers.find(({ name }) => name === task.handler);
  if (task.running) return 'running';
  if (handler?.state !== 'loaded')
    return `waits until the handler's file works again: ${handler?.fault ?? 'it is missing'}`;
  if (handler.paused) return `waits because the handler is paused: npx kit resume ${task.handler}`;
  if (task.dueAt === null)
    return `waits until replay has shown everything up to it (the watermark is ${facts.watermark ?? 'not set'})`;
  if (task.dueAt > now) return `waits until ${iso(task.dueAt)}${task.failedAt === null ? '' : ', to be tried again'}`;
  return task.crashes > 0
    ? 'waits for a process of its own, because its process died'
    : 'is due, behind earlier tasks of its lane';
}

export const quarantine = define({
  name: 'quarantine',
  about: 'authentic bytes that are no new, readable event; with a number: its bytes',
  args: z.object({ id: z.coerce.number().int().optional(), limit }),
  first: ['id'],
  access: 'reveal',
  reads: true,
  byPost: ['id'],
  async run({ read }, { id, limit: most }) {
    if (id === undefined) return (await read.quarantine(most)).map(withTimes);
    const bytes = await read.quarantined(id);
    if (!bytes) throw new Refused(`there is nothing under the number ${id}: see npx kit quarantine`);
    return { id, bytes: bytes.toString('latin1') };
  },
});
