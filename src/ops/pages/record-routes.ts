// The addresses of Events, one event, and Dead letters.
import type { Clock } from '../../base/clock.ts';
import type { AdminStore } from '../../store/admin.ts';
import type { TaskFilter, ReadStore } from '../../store/read.ts';
import { copiesOf, maskedOf } from '../../admin/copies.ts';
import { streamOf } from '../../admin/export.ts';
import type { Jobs } from '../../admin/jobs.ts';
import { eventFilterOf, taskFilterOf } from '../../admin/filters.ts';
import { shelteredEvent, shelteredGroup, shelteredTask } from '../../admin/redact.ts';
import { eventScreen, eventsScreen } from './events.ts';
import type { Frame, Visit } from './shell/frame.ts';
import type { Html } from './shell/html.ts';
import { lettersScreen } from './dead-letters.ts';
import { count } from './shell/parts.ts';

const GROUPS = 200;

export function addRecords(
  { screen, change, reveal, download }: Frame,
  { store, clock, jobs }: { store: ReadStore & AdminStore; clock: Clock; jobs: Jobs },
): void {
  screen('/events', 'Events', async ({ ctx, now, mayReveal }) => {
    const filter = eventFilterOf(ctx.query);
    return eventsScreen({ filter, ...(await store.events(filter, now)) }, mayReveal);
  });
  screen('/events/:key', 'Event', (visit) => oneEvent(visit, false));
  reveal('/events/:key/body', 'Event', (visit) => oneEvent(visit, true));
  download('/events.ndjson', (ctx, bodies) => {
    ctx.attachment('events.ndjson');
    ctx.type = 'application/x-ndjson';
    ctx.body = streamOf(store, eventFilterOf(ctx.query), { now: clock.now(), bodies });
  });

  screen('/dead-letters', 'Dead letters', async ({ ctx, now, status, mayChange }) => {
    const { handler, group, before, limit } = taskFilterOf(ctx.query);
    const { dead, groups } = await store.groups({ handler, id: group, limit: GROUPS });
    const page = group === undefined ? undefined : await store.tasks({ group, before, limit }, now);
    const found = {
      dead,
      groups: mayChange ? groups : groups.map(shelteredGroup),
      tasks: mayChange ? page?.tasks : page?.tasks.map(shelteredTask),
    };
    const rest = { handler, next: page?.next ?? null, jobs: jobs.list().slice(0, 3) };
    return lettersScreen({ ...found, ...rest, waiting: status.tasks.ready }, mayChange);
  });
  change('/dead-letters/retry', (form) => begin('retry', form));
  change('/dead-letters/discard', async (form) => {
    if (form.get('reason')?.trim()) return begin('discard', form);
    return { to: wayBack(form), message: 'Tasks are discarded with a reason: say why they need not run.' };
  });
  change('/dead-letters/cancel', async (form) => {
    const cancelled = jobs.cancel(Number(form.get('job')));
    return { to: '/dead-letters', message: cancelled ? 'Cancelled: what was moved stays moved.' : 'It had ended.' };
  });

  async function oneEvent({ ctx, now, mayChange, mayReveal }: Visit, revealed: boolean): Promise<Html | undefined> {
    const whole = await store.event(ctx['params']['key'] ?? '', now);
    if (!whole) return undefined;
    const found = mayChange ? whole : shelteredEvent(whole);
    const body = await store.body(found.event.key);
    const inLanes = found.tasks.filter(({ lane }) => lane !== null);
    const neighbours = await Promise.all(
      inLanes.map(async (task) => ({ task, ...(await store.neighbours(task.id, now)) })),
    );
    const copies = revealed && body ? copiesOf(found.event, body) : undefined;
    const page = { found, neighbours, masked: body && maskedOf(body), revealed: copies };
    return eventScreen(page, { change: mayChange, reveal: mayReveal });
  }

  async function begin(action: 'retry' | 'discard', form: URLSearchParams): Promise<{ to: string; message: string }> {
    const filter = chosen(form);
    const to = wayBack(form);
    const job = await jobs.start(action, filter, form.get('reason') ?? '');
    if (!job) return { to, message: 'Another job is at work: wait for it, or cancel it.' };
    const tasks = `${count(job.of)} ${job.of === 1 ? 'task' : 'tasks'}`;
    return { to, message: `${tasks} will ${action === 'retry' ? 'run again' : 'be skipped'}.` };
  }
}

function wayBack(form: URLSearchParams): string {
  return form.get('to') ?? '/dead-letters';
}

/** Nothing is chosen by an empty form. */
function chosen(form: URLSearchParams): TaskFilter {
  const [id, group, handler] = [form.get('id'), form.get('group'), form.get('handler')];
  if (id !== null) return { ids: [Number(id)] };
  if (group !== null) return { state: 'dead', group: Number(group) };
  if (handler !== null) return { state: 'dead', handler };
  const state = form.get('state');
  return state === 'dead' || state === 'ready' ? { state } : { ids: [] };
}
