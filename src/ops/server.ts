// The ops port: what the store knows as JSON, metrics and pages, and the few changes that people make by hand.
import { createServer, type Server } from 'node:http';
import { Router } from '@koa/router';
import Koa, { type Context, type Next } from 'koa';
import { koaBody } from 'koa-body';
import { z } from 'zod';
import { iso, type Clock } from '../base/clock.ts';
import type { Config } from '../config.ts';
import { loggable } from '../base/errors.ts';
import type { Logger } from '../base/log.ts';
import { renderMetrics, type Disk } from './metrics.ts';
import { StoreError } from '../store/store.ts';
import { changeInSteps } from '../admin/in-steps.ts';
import { createAccess } from './access.ts';
import { shown, streamOf } from '../admin/export.ts';
import { createJobs } from '../admin/jobs.ts';
import { STORE_ALARMS } from './pages/overview.ts';
import { addPages, type PageOptions } from './pages/routes.ts';
import { shelteredEvent, shelteredGroup, shelteredTask } from '../admin/redact.ts';
import { eventFilterOf, faultsOf, jobOrder, selection, taskFilterOf } from '../admin/filters.ts';

export interface OpsOptions {
  config: Pick<Config, 'OPS_TOKEN' | 'OPS_READ_TOKEN' | 'OPS_ORIGIN'>;
  store: PageOptions['store'];
  /** Status and counters as people are shown them; by default as the store has them. */
  view?: PageOptions['view'];
  clock: Clock;
  log: Logger;
  disk: () => Disk;
  /** After tasks were moved by hand. */
  onChange: () => void;
}

export function createOpsServer(options: OpsOptions): Server {
  const { config, store, view = store, clock, log, disk, onChange } = options;
  const { OPS_TOKEN: token, OPS_READ_TOKEN: readToken, OPS_ORIGIN: origin } = config;
  const access = createAccess({ clock, token, readToken, origin });
  const look = access.api('look');
  const change = access.api('change');
  const mayChange = (ctx: Context): boolean => access.standing(ctx) === 'change';
  const json = koaBody({ text: false, urlencoded: false, multipart: false, jsonLimit: '1mb' });
  const jobs = createJobs({ store, clock, log, onChange });
  const router = new Router({ sensitive: true });

  /** Bodies need OPS_TOKEN, also where nothing else needs a token. */
  async function tokenOnly(ctx: Context, next: Next): Promise<void> {
    if (token === undefined) return refuse(ctx, 403, 'bodies are shown with OPS_TOKEN alone, and none is set');
    return change(ctx, next);
  }
  async function bodiesOnly(ctx: Context, next: Next): Promise<void> {
    return ctx.query['bodies'] === undefined ? next() : tokenOnly(ctx, next);
  }

  router.get('/livez', (ctx) => {
    ctx.body = 'alive\n';
  });
  router.get('/readyz', async (ctx) => {
    const { processes, alarms } = await view.status(clock.now());
    const ready = processes.receive === 'up' && !alarms.some(({ name }) => STORE_ALARMS.has(name));
    ctx.status = ready ? 200 : 503;
    ctx.body = ready ? 'ready\n' : 'deliveries cannot be committed\n';
  });
  router.get('/metrics', look, async (ctx) => {
    const { type, text } = await renderMetrics({
      status: await view.status(clock.now()),
      counters: await view.counters(),
      disk: disk(),
    });
    ctx.type = type;
    ctx.body = text;
  });
  router.get('/api/status', look, async (ctx) => {
    ctx.body = await view.status(clock.now());
  });
  router.get('/api/events', look, async (ctx) => {
    const { events, next } = await store.events(eventFilterOf(ctx.query), clock.now());
    ctx.body = { events: events.map(shown), next };
  });
  router.get('/api/events/:key', look, async (ctx) => {
    const whole = await store.event(ctx.params['key'] ?? '', clock.now());
    const found = whole && (mayChange(ctx) ? whole : shelteredEvent(whole));
    ctx.status = found ? 200 : 404;
    ctx.body = found ? { ...found, event: shown(found.event) } : { error: 'no event has this key, id or cursor' };
  });
  router.get('/api/tasks', look, async (ctx) => {
    const { tasks, next } = await store.tasks(taskFilterOf(ctx.query), clock.now());
    ctx.body = { tasks: mayChange(ctx) ? tasks : tasks.map(shelteredTask), next };
  });
  // As lines, however many; with bodies, for OPS_TOKEN alone.
  router.get('/api/events.ndjson', look, bodiesOnly, async (ctx) => {
    const bodies = ctx.query['bodies'] !== undefined;
    if (bodies) log.info({ bodies: 'exported', by: 'OPS_TOKEN', from: ctx.ip }, 'bodies were revealed');
    ctx.type = 'application/x-ndjson';
    ctx.body = streamOf(store, eventFilterOf(ctx.query), { now: clock.now(), bodies });
  });
  router.post('/api/events/:key/body', tokenOnly, async (ctx) => {
    const found = await store.event(ctx.params['key'] ?? '', clock.now());
    const body = found && (await store.body(found.event.key));
    if (!found || !body) return refuse(ctx, 404, 'no event has this key, id or cursor, or its body was purged');
    log.info({ key: found.event.key, by: 'OPS_TOKEN', from: ctx.ip }, 'a body was revealed');
    ctx.type = 'application/json';
    ctx.body = Buffer.from(body);
  });
  router.get('/api/dead-letters', look, async (ctx) => {
    const { handler, group: id, limit } = taskFilterOf(ctx.query);
    const { dead, groups } = await store.groups({ handler, id, limit });
    ctx.body = { dead, groups: mayChange(ctx) ? groups : groups.map(shelteredGroup) };
  });
  router.get('/api/jobs', look, (ctx) => {
    ctx.body = { jobs: jobs.list() };
  });
  router.post('/api/jobs', change, json, async (ctx) => {
    const { action, ids, filter, reason = '' } = jobOrder.parse((ctx.request as { body?: unknown }).body);
    const job = await jobs.start(action, ids ? { ids } : (filter ?? {}), reason);
    if (!job) return refuse(ctx, 409, 'another job is at work: wait for it, or cancel it');
    log.info({ job: job.id, action, of: job.of, reason }, 'a job was begun');
    ctx.status = 202;
    ctx.body = { job };
  });
  router.post('/api/jobs/:id/cancel', change, (ctx) => {
    if (!jobs.cancel(Number(ctx.params['id']))) return refuse(ctx, 404, 'no job of this number is at work');
    log.info({ change: ctx.path }, 'a job was cancelled');
    ctx.body = { cancelled: true };
  });
  router.get('/api/quarantine', look, async (ctx) => {
    ctx.body = { quarantine: await store.quarantine(500) };
  });
  for (const [action, done] of [
    ['retry', 'retried'],
    ['discard', 'discarded'],
  ] as const)
    router.post(`/api/tasks/${action}`, change, json, async (ctx) => {
      const { ids, filter, reason } = selection.parse((ctx.request as { body?: unknown }).body);
      if (action === 'discard' && !reason)
        return refuse(ctx, 400, 'a reason is required: { "ids": [...], "reason": "…" }');
      const moved = await changeInSteps(store, ids ? { ids } : (filter ?? {}), clock.now(), (some) =>
        action === 'retry' ? store.retry(some, clock.now()) : store.discard(some, reason ?? '', clock.now()),
      );
      log.info({ [done]: moved, reason }, `tasks ${done} by hand`);
      onChange();
      ctx.body = { [done]: moved };
    });
  router.post('/api/reconcile', change, async (ctx) => {
    await store.note({}, { reconcile_asked: clock.now() });
    log.info({ change: ctx.path }, 'reconciliation was asked for');
    ctx.status = 202;
    ctx.body = { asked: iso(clock.now()) };
  });
  const lost = addPages({ router, access, store, view, clock, log, jobs, onChange });

  const app = new Koa();
  app.use(async (ctx, next) => {
    ctx.set('X-Content-Type-Options', 'nosniff');
    ctx.set('Cache-Control', 'no-store');
    try {
      await next();
      if (ctx.method === 'GET' && ctx.status >= 404 && !ctx.body && !ctx.path.startsWith('/api/')) await lost(ctx);
    } catch (error) {
      answerError(ctx, error, log);
    }
  });
  app.use(router.routes());
  app.use(router.allowedMethods());
  app.on('error', (error: unknown) => log.warn(loggable(error), 'an ops answer broke'));
  const handle = app.callback();
  return createServer((req, res) => void handle(req, res));
}

function refuse(ctx: Context, status: number, error: string): void {
  ctx.status = status;
  ctx.body = { error };
}

function answerError(ctx: Context, error: unknown, log: Logger): void {
  if (error instanceof z.ZodError) {
    ctx.status = 400;
    ctx.body = { error: faultsOf(error) };
  } else if (error instanceof StoreError) {
    ctx.status = 503;
    ctx.body = { error: error.message };
  } else {
    const status = (error as { status?: unknown } | null)?.status;
    ctx.status = typeof status === 'number' && status >= 400 && status < 500 ? status : 500;
    ctx.body = { error: ctx.status === 500 ? 'failed; see the log' : 'the request cannot be read' };
    if (ctx.status === 500) log.error(loggable(error), 'an ops request failed');
  }
}
