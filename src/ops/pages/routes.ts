// The routes of the pages: each screen gets its data, and each form its use case from admin/.
import type { Context } from 'koa';
import { copiesOf, maskedOf } from '../../admin/copies.ts';
import { streamOf } from '../../admin/export.ts';
import { duration, eventFilterOf, taskFilterOf } from '../../admin/filters.ts';
import { closeGap } from '../../admin/gaps.ts';
import { pauseHandler, resumeHandler } from '../../admin/handlers.ts';
import { readAgain } from '../../admin/quarantine.ts';
import { askToReconcile, readPoint, verifyFrom } from '../../admin/range.ts';
import { taskChange, type Action, type Shown } from '../../admin/tasks.ts';
import { readSignatureJudgement } from '../../receive/bad-signatures.ts';
import { orNone } from '../../store/or-none.ts';
import type { TaskFilter } from '../../store/read.ts';
import type { OpsContext } from '../context.ts';
import { lettersScreen } from './dead-letters.ts';
import { eventScreen } from './event.ts';
import { eventsScreen } from './events.ts';
import { AGES, handlerScreen } from './handler.ts';
import { handlersScreen } from './handlers.ts';
import { overview } from './overview.ts';
import { reconciliation } from './reconciliation.ts';
import { selectedScreen } from './selected.ts';
import { quarantined, refused, reread } from './refused.ts';
import { besides, rangeOf, samplesOf } from './samples.ts';
import { runbookScreen } from './runbook.ts';
import { createFrame, type Frame, type Visit } from './shell/frame.ts';
import type { Html } from './shell/html.ts';
import { count } from './shell/parts.ts';

/** The maximum of quarantined rows that the page shows and that one click reads again. */
const QUARANTINE = 200;
/** As many events as a page of the list can have. */
const MOST_SELECTED = 500;
const LANES = 8;
/** The maximum of causes that the screen of a handler shows. */
const CAUSES = 20;
const GROUPS = 200;

/** Adds all pages. Returns the function that answers addresses without a route. */
export function addPages(context: OpsContext): Frame['lost'] {
  const frame = createFrame(context);
  addOverview(frame, context);
  addEvents(frame, context);
  addHandlers(frame, context);
  addDeadLetters(frame, context);
  addReconciliation(frame, context);
  addRefused(frame, context);
  frame.screen('/runbook', 'Runbook', async () => runbookScreen());
  return frame.lost;
}

function addOverview({ screen }: Frame, { store, rules, disk, retentionDays }: OpsContext): void {
  screen('/', 'Overview', async ({ ctx, status, health, now, reads, mayChange }) => {
    const range = rangeOf(ctx.query['range']);
    // The overview must appear and report the fault if the store cannot be read.
    const samples = (await orNone(() => samplesOf(store.read, range, now))) ?? [];
    const { recent, week } = (await orNone(() => besides(store.read, now))) ?? { recent: [], week: [] };
    const handlers = (await orNone(() => store.read.handlers(now))) ?? [];
    const lanes = (await orNone(() => reads.waitingLanes(LANES))) ?? [];
    const mismatch = (await orNone(() => readSignatureJudgement(store, status, now)))?.mismatch ?? false;
    const extent = (await orNone(() => store.read.extent())) ?? null;
    const backup = null;
    const size = (await orNone(() => disk())) ?? null;
    const figures = { status, health, mismatch, now, mayChange, rules, retentionDays, disk: size, extent, backup };
    return overview({ ...figures, range, samples, recent, week, handlers, lanes });
  });
}

function addHandlers({ screen, change }: Frame, { store, clock, jobs }: OpsContext): void {
  const path = '/handlers';
  const named = (ctx: Context): string => ctx['params']['name'] ?? '';
  const rowsOf = async ({ now, mayChange }: Visit) => {
    const [samples, { recent }] = [await samplesOf(store.read, '1h', now), await besides(store.read, now)];
    return { handlers: await store.read.handlers(now), samples, recent, range: '1h' as const, now, mayChange };
  };
  screen(path, 'Handlers', async (visit) => handlersScreen(await rowsOf(visit)));
  screen(`${path}/:name`, ':name', async (visit) => {
    const { ctx, now, reads, mayChange } = visit;
    const rows = await rowsOf(visit);
    const handler = rows.handlers.find(({ name }) => name === named(ctx));
    const detail = handler && (await reads.handler(handler.name, now));
    if (!handler || !detail) return undefined;
    const { groups } = await reads.groups({ handler: handler.name, limit: CAUSES });
    const age = String(ctx.query['older']);
    const before = mayChange && Object.hasOwn(AGES, age) ? now - duration.parse(age) : null;
    const filter = before !== null && { ...waitingBefore(handler.name, before), changedBy: now };
    const old = filter ? { before, tasks: (await store.admin.matching(filter, now)).length } : undefined;
    return handlerScreen({ ...rows, handler, detail, groups, jobs: jobs.list().slice(0, 1), old });
  });
  const pause = (form: URLSearchParams, handler: string | null): Promise<string> =>
    pauseHandler(store, { handler, reason: form.get('reason') ?? '' }, clock.now());
  change(`${path}/pause`, path, (form) => pause(form, null));
  change(`${path}/resume`, path, () => resumeHandler(store, null, clock.now()));
  change(`${path}/:name/pause`, path, (form, ctx) => pause(form, named(ctx)));
  change(`${path}/:name/resume`, path, (_, ctx) => resumeHandler(store, named(ctx), clock.now()));
  change(`${path}/:name/discard`, path, async (form, ctx) => {
    const filter = waitingBefore(named(ctx), Number(form.get('before')) || 0);
    const asked = taskChange('discard', filter, form.get('reason') ?? '');
    const { of } = await jobs.start({ ...asked, shown: shownIn(form) });
    return `${count(of)} ${of === 1 ? 'task' : 'tasks'} will be skipped`;
  });
}

function waitingBefore(handler: string, receivedBefore: number): TaskFilter {
  return { state: 'ready', handler, receivedBefore };
}

function addEvents({ screen, ask, reveal, download }: Frame, { store, clock, concurrency }: OpsContext): void {
  screen('/events', 'Events', async ({ ctx, now, mayChange, mayReveal }) => {
    const filter = eventFilterOf(ctx.query);
    const [page, offers] = [await store.read.events(filter, now), await store.read.offers()];
    const all = ctx.query['select'] === 'all';
    return eventsScreen({ filter, offers, all, ...page }, { change: mayChange, reveal: mayReveal });
  });
  ask('/events/selected/tasks', 'Selected events', async ({ now, reads }, form) => {
    const keys = form.getAll('event').slice(0, MOST_SELECTED);
    const found = [];
    for (const key of keys) found.push((await reads.event(key, now))?.tasks ?? []);
    const action = form.get('action') === 'discard' ? 'discard' : 'retry';
    const from = form.get('to') ?? '';
    const to = from.startsWith('/events') ? from : '/events';
    return selectedScreen({ action, events: keys.length, tasks: found.flat(), to, now, concurrency });
  });
  download('/events.ndjson', (ctx, bodies) => {
    ctx.attachment('events.ndjson');
    ctx.type = 'application/x-ndjson';
    ctx.body = streamOf(store, eventFilterOf(ctx.query), { now: clock.now(), bodies });
  });

  const one = async (visit: Visit, revealed: boolean): Promise<Html | undefined> => {
    const { ctx, now, reads, mayChange, mayReveal } = visit;
    const found = await reads.event(ctx['params']['key'] ?? '', now);
    if (!found) return undefined;
    const body = await store.read.body(found.event.key);
    const inLanes = found.tasks.filter(({ lane }) => lane !== null);
    const neighbours = await Promise.all(
      inLanes.map(async (task) => ({ task, ...(await store.read.neighbours(task.id, now)) })),
    );
    const copies = revealed && body ? copiesOf(found.event, body) : undefined;
    const page = { found, neighbours, masked: body && maskedOf(body), revealed: copies };
    return eventScreen(page, { change: mayChange, reveal: mayReveal });
  };
  screen('/events/:key', 'Event', (visit) => one(visit, false));
  reveal('/events/:key/body', 'Event', (visit) => one(visit, true));
}

function addDeadLetters({ screen, change }: Frame, { jobs, concurrency }: OpsContext): void {
  const path = '/dead-letters';
  screen(path, 'Dead letters', async ({ ctx, now, status, reads, mayChange }) => {
    const { handler, group, before, limit } = taskFilterOf(ctx.query, now);
    const found = await reads.groups({ handler, id: group, limit: GROUPS });
    const page = group === undefined ? undefined : await reads.tasks({ group, before, limit }, now);
    const rest = { handler, tasks: page?.tasks, next: page?.next ?? null, jobs: jobs.list().slice(0, 3), concurrency };
    return lettersScreen({ ...found, ...rest, waiting: status.tasks.ready, now }, mayChange);
  });
  const begin = async (action: Action, form: URLSearchParams): Promise<string> => {
    const { of } = await jobs.start({
      ...taskChange(action, chosen(form), form.get('reason') ?? ''),
      shown: shownIn(form),
    });
    return `${count(of)} ${of === 1 ? 'task' : 'tasks'} will ${action === 'retry' ? 'run again' : 'be skipped'}`;
  };
  change(`${path}/retry`, path, (form) => begin('retry', form));
  change(`${path}/discard`, path, (form) => begin('discard', form));
  change(`${path}/cancel`, path, async (form) =>
    jobs.cancel(Number(form.get('job'))) ? 'cancelled: what was moved stays moved' : 'it had ended',
  );
}

/** The tasks that a form selects. A form without a selection selects none. */
function chosen(form: URLSearchParams): TaskFilter {
  const [ids, group, handler] = [form.getAll('id'), form.get('group'), form.get('handler')];
  const done = form.get('state') === 'done' ? 'done' : undefined;
  if (ids.length > 0) return { ids: ids.flatMap((list) => list.split(',').map((id) => Number(id) || 0)), state: done };
  if (group !== null) return { state: 'dead', group: Number(group) };
  if (handler !== null) return { state: 'dead', handler };
  const state = form.get('state');
  return state === 'dead' || state === 'ready' ? { state } : { ids: [] };
}

/** What the page of the form has shown. */
function shownIn(form: URLSearchParams): Shown | undefined {
  const [at, number] = [form.get('at'), form.get('count')];
  return at === null ? undefined : { at: Number(at) || 0, count: number === null ? undefined : Number(number) };
}

function addReconciliation({ screen, change }: Frame, { store, view, clock }: OpsContext): void {
  const path = '/reconciliation';
  screen(path, 'Reconciliation', async ({ status, now, mayChange }) => {
    const [gaps, weeks, verify] = [
      await store.read.gaps(),
      await store.read.arrivals(),
      await store.state.get('verify'),
    ];
    const calls = (await view.counters())['replay_calls'] ?? 0;
    return reconciliation({
      status,
      runs: await store.state.get('replay_runs'),
      gaps,
      weeks,
      verify,
      calls,
      mayChange,
      now,
    });
  });
  change(`${path}/now`, path, async () => {
    await askToReconcile(store, clock.now());
    return 'reconciliation was asked for; it begins within a second';
  });
  change(`${path}/close`, path, (form) =>
    closeGap(store, { gap: Number(form.get('gap')), reason: form.get('reason') ?? '' }, clock.now()),
  );
  change(`${path}/verify`, path, async (form) => {
    const { from } = await verifyFrom(store, readPoint(form.get('from')?.trim() ?? ''), clock.now());
    return `verifying from cursor ${from} on`;
  });
}

function addRefused({ screen, change, reveal }: Frame, { store, view, clock, onChange }: OpsContext): void {
  screen('/refused', 'Refused and quarantined', async ({ status, now, mayChange }) => {
    const [counters, refusals] = [await view.counters(), await store.state.get('refusals')];
    const judgement = await readSignatureJudgement(store, status, now);
    const quarantine = await store.read.quarantine(QUARANTINE);
    return refused({ status, judgement, counters, refusals, quarantine, mayChange });
  });
  const one = async ({ ctx, mayChange, mayReveal }: Visit, revealed: boolean): Promise<Html | undefined> => {
    const row = await store.read.quarantined(Number(ctx['params']['id']) || 0);
    return row && quarantined(row, revealed ? row.body : null, { change: mayChange, reveal: mayReveal });
  };
  screen('/refused/:id', 'Quarantined', (visit) => one(visit, false));
  reveal('/refused/:id/body', 'Quarantined', (visit) => one(visit, true));
  change('/refused/retry', '/refused', async (form) => {
    const id = form.get('id');
    const outcomes = await readAgain(store, id === 'all' ? { newest: QUARANTINE } : Number(id) || 0, clock.now());
    onChange();
    return reread(outcomes);
  });
}
