// The routes of the pages: which screen each address shows, and which use case of admin/ each form has.
import { streamOf } from '../../admin/export.ts';
import { eventFilterOf } from '../../admin/filters.ts';
import { closeGap } from '../../admin/gaps.ts';
import type { Jobs } from '../../admin/jobs.ts';
import { pauseHandler, resumeHandler } from '../../admin/handlers.ts';
import { readAgain } from '../../admin/quarantine.ts';
import { askToReconcile, readPoint, verifyFrom } from '../../admin/range.ts';
import { taskChange, type Action } from '../../admin/tasks.ts';
import { readSignatureJudgement } from '../../receive/bad-signatures.ts';
import type { TaskFilter } from '../../store/read.ts';
import type { OpsContext } from '../context.ts';
import { lettersScreen } from './dead-letters.ts';
import { eventScreen } from './event.ts';
import { eventsScreen } from './events.ts';
import { handlerScreen, waitingBefore } from './handler.ts';
import { handlersScreen } from './handlers.ts';
import { overview } from './overview.ts';
import { reconciliation } from './reconciliation.ts';
import { selectedScreen } from './selected.ts';
import { quarantined, refused, reread } from './refused.ts';
import { besides, samplesOf } from './samples.ts';
import { runbookScreen } from './runbook.ts';
import { createFrame, type Frame, type Visit } from './shell/frame.ts';
import { count } from './shell/parts.ts';

/** The maximum of quarantined rows that the page shows and that one click reads again. */
const QUARANTINE = 200;

/** Adds all pages. Returns the function that answers addresses without a route. */
export function addPages(context: OpsContext): Frame['lost'] {
  const frame = createFrame(context);
  frame.screen('/', 'Overview', (visit) => overview(visit, context));
  addEvents(frame, context);
  addHandlers(frame, context);
  addDeadLetters(frame, context);
  addReconciliation(frame, context);
  addRefused(frame, context);
  frame.screen('/runbook', 'Runbook', async () => runbookScreen());
  return frame.lost;
}

function addHandlers({ screen, change }: Frame, context: OpsContext): void {
  const { store, clock, jobs } = context;
  const path = '/handlers';
  const rowsOf = async ({ now, mayChange }: Visit) => {
    const [samples, { recent }] = [await samplesOf(store.read, '1h', now), await besides(store.read, now)];
    return { handlers: await store.read.handlers(now), samples, recent, range: '1h' as const, now, mayChange };
  };
  screen(path, 'Handlers', async (visit) => handlersScreen(await rowsOf(visit)));
  screen(`${path}/:name`, ':name', async (visit) => handlerScreen(visit, await rowsOf(visit), context));
  // Without a name, every handler is meant.
  for (const at of [path, `${path}/:name`]) {
    change(`${at}/pause`, path, (form, { params: { name: handler = null } }) =>
      pauseHandler(store, { handler, reason: form.get('reason') ?? '' }, clock.now()),
    );
    change(`${at}/resume`, path, (_, { params }) => resumeHandler(store, params['name'] ?? null, clock.now()));
  }
  change(`${path}/:name/discard`, path, (form, { params }) =>
    begin(jobs, 'discard', waitingBefore(params['name'], Number(form.get('before')) || 0), form),
  );
}

function addEvents({ screen, ask, reveal, download }: Frame, { store, clock, config }: OpsContext): void {
  screen('/events', 'Events', (visit) => eventsScreen(visit, store.read));
  ask('/events/selected/tasks', 'Selected events', (visit, form) =>
    selectedScreen(visit, form, config.RUN_CONCURRENCY),
  );
  download('/events.ndjson', (ctx, bodies) => {
    ctx.attachment('events.ndjson');
    ctx.type = 'application/x-ndjson';
    ctx.body = streamOf(store, eventFilterOf(ctx.query), { now: clock.now(), bodies });
  });
  screen('/events/:key', 'Event', (visit) => eventScreen(visit, store.read, false));
  reveal('/events/:key/body', 'Event', (visit) => eventScreen(visit, store.read, true));
}

function addDeadLetters({ screen, change }: Frame, context: OpsContext): void {
  const path = '/dead-letters';
  screen(path, 'Dead letters', (visit) => lettersScreen(visit, context));
  change(`${path}/retry`, path, (form) => begin(context.jobs, 'retry', chosen(form), form));
  change(`${path}/discard`, path, (form) => begin(context.jobs, 'discard', chosen(form), form));
  change(`${path}/cancel`, path, async (form) =>
    context.jobs.cancel(Number(form.get('job'))) ? 'cancelled: what was moved stays moved' : 'it had ended',
  );
}

/** Starts a job for these tasks, as far as the form's page has shown them. Resolves to a message. */
async function begin(jobs: Jobs, action: Action, filter: TaskFilter, form: URLSearchParams): Promise<string> {
  const [at, number] = [form.get('at'), form.get('count')];
  const shown = at === null ? undefined : { at: Number(at) || 0, count: number === null ? undefined : Number(number) };
  const { of } = await jobs.start({ ...taskChange(action, filter, form.get('reason') ?? ''), shown });
  return `${count(of)} ${of === 1 ? 'task' : 'tasks'} will ${action === 'retry' ? 'run again' : 'be skipped'}`;
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

function addReconciliation({ screen, change }: Frame, context: OpsContext): void {
  const { store, clock } = context;
  const path = '/reconciliation';
  screen(path, 'Reconciliation', (visit) => reconciliation(visit, context));
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
  screen('/refused/:id', 'Quarantined', (visit) => quarantined(visit, store.read, false));
  reveal('/refused/:id/body', 'Quarantined', (visit) => quarantined(visit, store.read, true));
  change('/refused/retry', '/refused', async (form) => {
    const id = form.get('id');
    const outcomes = await readAgain(store, id === 'all' ? { newest: QUARANTINE } : Number(id) || 0, clock.now());
    onChange();
    return reread(outcomes);
  });
}
