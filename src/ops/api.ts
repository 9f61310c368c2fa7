// The JSON API for programs, with probes and metrics. access.ts guards every route except the two probes.
import type { Context, Middleware } from 'koa';
import { koaBody } from 'koa-body';
import { shown, streamOf } from '../admin/export.ts';
import { eventFilterOf, taskFilterOf } from '../admin/filters.ts';
import { canCommit } from '../admin/health.ts';
import { askToReconcile } from '../admin/range.ts';
import { redacted, type PersonalReads } from '../admin/redact.ts';
import { CHANGED, changeThese, matchingTasks, readJob, readTaskChange } from '../admin/tasks.ts';
import { iso } from '../base/clock.ts';
import type { Access } from './access.ts';
import type { OpsContext } from './context.ts';
import type { What } from './decision.ts';
import { renderMetrics } from './metrics.ts';
import { orNone } from '../store/or-none.ts';

export function addApi(context: OpsContext): void {
  addProbes(context);
  addReads(context);
  addChanges(context);
}

/** Middleware that lets only allowed requests through. The others get an error that says what they lack. */
function may(what: What, access: Access): Middleware {
  return async (ctx, next) => {
    const decision = access.program(ctx, what);
    if (decision === 'allowed') return next();
    if (decision === 'throttled') return refuse(ctx, 429, 'too many wrong tokens; a right one still passes');
    if (what === 'reveal' && !access.canReveal)
      return refuse(ctx, 403, 'bodies are shown with OPS_TOKEN alone, and none is set');
    if (decision === 'elsewhere')
      return refuse(ctx, 403, 'Host or Origin is not this machine; behind a proxy, set OPS_ORIGIN');
    return refuse(ctx, 401, `needs ${what === 'read' ? 'OPS_READ_TOKEN or OPS_TOKEN' : 'OPS_TOKEN'} as a bearer token`);
  };
}

function refuse(ctx: Context, status: number, error: string): void {
  ctx.status = status;
  ctx.body = { error };
}

function addProbes({ router, access, wrongTokens, store, view, rules, clock, disk }: OpsContext): void {
  router.get('/livez', (ctx) => {
    ctx.body = 'alive\n';
  });
  router.get('/readyz', async (ctx) => {
    const { processes, alarms } = await view.status(clock.now());
    const ready = processes.receive === 'up' && canCommit(alarms, rules);
    ctx.status = ready ? 200 : 503;
    ctx.body = ready ? 'ready\n' : 'deliveries cannot be committed\n';
  });
  router.get('/metrics', may('read', access), async (ctx) => {
    await wrongTokens.save();
    const [status, counters] = [await view.status(clock.now()), await view.counters()];
    const handlers = (await orNone(() => store.read.handlers(clock.now()))) ?? [];
    const { type, text } = await renderMetrics({ status, counters, handlers, disk: await disk() });
    ctx.type = type;
    ctx.body = text;
  });
}

function addReads({ router, access, store, view, clock, log, jobs }: OpsContext): void {
  const read = may('read', access);
  const reveal = may('reveal', access);
  const readsOf = (ctx: Context): PersonalReads =>
    access.program(ctx, 'change') === 'allowed' ? store.read : redacted(store.read);

  router.get('/api/status', read, async (ctx) => {
    ctx.body = await view.status(clock.now());
  });
  router.get('/api/events', read, async (ctx) => {
    const { events, next } = await store.read.events(eventFilterOf(ctx.query), clock.now());
    ctx.body = { events: events.map(shown), next };
  });
  router.get('/api/events/:key', read, async (ctx) => {
    const found = await readsOf(ctx).event(ctx.params['key'] ?? '', clock.now());
    if (!found) return refuse(ctx, 404, 'no event has this key, id or cursor');
    ctx.body = { ...found, event: shown(found.event) };
  });
  const withBodies: Middleware = (ctx, next) => (ctx.query['bodies'] === undefined ? next() : reveal(ctx, next));
  router.get('/api/events.ndjson', read, withBodies, (ctx) => {
    const bodies = ctx.query['bodies'] !== undefined;
    if (bodies) log.info({ bodies: 'exported', by: 'OPS_TOKEN', from: ctx.ip }, 'bodies were revealed');
    ctx.type = 'application/x-ndjson';
    ctx.body = streamOf(store, eventFilterOf(ctx.query), { now: clock.now(), bodies });
  });
  router.post('/api/events/:key/body', reveal, async (ctx) => {
    const found = await store.read.event(ctx.params['key'] ?? '', clock.now());
    const body = found && (await store.read.body(found.event.key));
    if (!found || !body) return refuse(ctx, 404, 'no event has this key, id or cursor, or its body was purged');
    log.info({ key: found.event.key, by: 'OPS_TOKEN', from: ctx.ip }, 'a body was revealed');
    ctx.type = 'application/json';
    ctx.body = Buffer.from(body);
  });
  router.get('/api/tasks', read, async (ctx) => {
    ctx.body = await readsOf(ctx).tasks(taskFilterOf(ctx.query, clock.now()), clock.now());
  });
  router.get('/api/dead-letters', read, async (ctx) => {
    const { handler, group: id, limit } = taskFilterOf(ctx.query, clock.now());
    const at = iso(clock.now());
    ctx.body = { ...(await readsOf(ctx).groups({ handler, id, limit })), at };
  });
  router.get('/api/jobs', read, (ctx) => {
    ctx.body = { jobs: jobs.list() };
  });
  router.get('/api/quarantine', read, async (ctx) => {
    ctx.body = { quarantine: await store.read.quarantine(500) };
  });
}

function addChanges({ router, access, store, clock, log, jobs, onChange }: OpsContext): void {
  const change = may('change', access);
  const json = koaBody({ text: false, urlencoded: false, multipart: false, jsonLimit: '1mb' });
  const bodyOf = (ctx: Context): unknown => (ctx.request as { body?: unknown }).body;

  for (const action of ['retry', 'discard'] as const)
    router.post(`/api/tasks/${action}`, change, json, async (ctx) => {
      const asked = readTaskChange(action, bodyOf(ctx));
      const moved = await changeThese(await matchingTasks(store, asked, clock), store, asked, clock);
      log.info({ [CHANGED[action]]: moved, reason: asked.reason || undefined }, `tasks ${CHANGED[action]} by hand`);
      onChange();
      ctx.body = { [CHANGED[action]]: moved };
    });
  router.post('/api/jobs', change, json, async (ctx) => {
    const asked = readJob(bodyOf(ctx));
    const job = await jobs.start(asked);
    log.info({ job: job.id, action: job.action, of: job.of, reason: asked.reason }, 'a job was started');
    ctx.status = 202;
    ctx.body = { job };
  });
  router.post('/api/jobs/:id/cancel', change, (ctx) => {
    if (!jobs.cancel(Number(ctx.params['id']))) return refuse(ctx, 404, 'no running job has this number');
    log.info({ change: ctx.path }, 'a job was cancelled');
    ctx.body = { cancelled: true };
  });
  router.post('/api/reconcile', change, async (ctx) => {
    const now = clock.now();
    await askToReconcile(store, now);
    log.info({ change: ctx.path }, 'reconciliation was asked for');
    ctx.status = 202;
    ctx.body = { asked: iso(now) };
  });
}
