// The ops port: what the store knows as JSON and metrics, and the few changes that people make by hand.
import { createServer, type Server } from 'node:http';
import { Router } from '@koa/router';
import Koa, { type Context } from 'koa';
import { koaBody } from 'koa-body';
import { z } from 'zod';
import { iso, type Clock } from '../clock.ts';
import type { Config } from '../config.ts';
import { loggable } from '../errors.ts';
import type { Logger } from '../log.ts';
import { renderMetrics, type Disk } from '../metrics.ts';
import {
  StoreError,
  type EventStore,
  type MendStore,
  type ShownEvent,
  type TaskFilter,
  type WatchStore,
} from '../store/store.ts';
import { mendAll } from '../store/mend.ts';
import { createAccess } from './access.ts';

const LIMIT = { default: 50, most: 500 };

const count = z.coerce.number().int().min(1);
const taskState = z.enum(['held', 'ready', 'running', 'done', 'skipped', 'dead']);
const eventQuery = z.object({
  type: z.string().optional(),
  session: z.string().optional(),
  state: taskState.optional(),
  q: z.string().optional(),
  before: count.optional(),
  limit: count.max(LIMIT.most).default(LIMIT.default),
});
const taskQuery = z.object({
  state: taskState.optional(),
  handler: z.string().optional(),
  before: count.optional(),
  limit: count.max(LIMIT.most).default(LIMIT.default),
});
const selection = z
  .strictObject(
    {
      ids: z.array(z.int()).min(1).max(10_000).optional(),
      filter: z.strictObject({ state: taskState.optional(), handler: z.string().optional() }).optional(),
      reason: z.string().optional(),
    },
    'must be { "ids": [...] } or { "filter": {...} }, and a reason to discard',
  )
  .refine(({ ids, filter }) => (ids === undefined) !== (filter === undefined), 'give either ids or filter');

export interface OpsOptions {
  config: Pick<Config, 'OPS_TOKEN' | 'OPS_READ_TOKEN' | 'OPS_ORIGIN'>;
  store: WatchStore & MendStore & Pick<EventStore, 'note'>;
  clock: Clock;
  log: Logger;
  disk: () => Disk;
  /** After tasks were moved by hand. */
  onChange: () => void;
}

export function createOpsServer({ config, store, clock, log, disk, onChange }: OpsOptions): Server {
  const access = createAccess({ token: config.OPS_TOKEN, readToken: config.OPS_READ_TOKEN, origin: config.OPS_ORIGIN });
  const look = access('look');
  const change = access('change');
  const json = koaBody({ text: false, urlencoded: false, multipart: false, jsonLimit: '1mb' });
  const router = new Router({ sensitive: true });

  router.get('/livez', (ctx) => {
    ctx.body = 'alive\n';
  });
  router.get('/readyz', async (ctx) => {
    // receive shows life by writing to the store: while it does, deliveries can be committed.
    const { processes } = await store.status(clock.now());
    ctx.status = processes.receive === 'up' ? 200 : 503;
    ctx.body = processes.receive === 'up' ? 'ready\n' : 'deliveries cannot be committed\n';
  });
  router.get('/metrics', look, async (ctx) => {
    const { type, text } = await renderMetrics({
      status: await store.status(clock.now()),
      counters: await store.counters(),
      disk: disk(),
    });
    ctx.type = type;
    ctx.body = text;
  });
  router.get('/api/status', look, async (ctx) => {
    ctx.body = await store.status(clock.now());
  });
  router.get('/api/events', look, async (ctx) => {
    const { events, next } = await store.events(eventQuery.parse(ctx.query), clock.now());
    ctx.body = { events: events.map(shown), next };
  });
  router.get('/api/events/:key', look, async (ctx) => {
    const found = await store.event(ctx.params['key'] ?? '', clock.now());
    ctx.status = found ? 200 : 404;
    ctx.body = found ? { ...found, event: shown(found.event) } : { error: 'no event has this key, id or cursor' };
  });
  router.get('/api/tasks', look, async (ctx) => {
    ctx.body = await store.tasks(taskQuery.parse(ctx.query), clock.now());
  });
  router.get('/api/quarantine', look, async (ctx) => {
    ctx.body = { quarantine: await store.quarantine(LIMIT.most) };
  });
  router.post('/api/tasks/retry', change, json, async (ctx) => {
    const chosen = choose(ctx);
    const retried = await mendAll(store, chosen.filter, clock.now(), (ids) => store.retry(ids, clock.now()));
    log.info({ retried }, 'tasks retried by hand');
    onChange();
    ctx.body = { retried };
  });
  router.post('/api/tasks/discard', change, json, async (ctx) => {
    const { filter, reason } = choose(ctx);
    if (!reason) {
      ctx.status = 400;
      ctx.body = { error: 'a reason is required: { "ids": [...], "reason": "…" }' };
      return;
    }
    const discarded = await mendAll(store, filter, clock.now(), (ids) => store.discard(ids, reason, clock.now()));
    log.info({ discarded }, 'tasks discarded by hand');
    onChange();
    ctx.body = { discarded };
  });
  router.post('/api/reconcile', change, async (ctx) => {
    await store.note({}, { reconcile_asked: clock.now() });
    ctx.status = 202;
    ctx.body = { asked: iso(clock.now()) };
  });

  const app = new Koa();
  app.use(async (ctx, next) => {
    ctx.set('X-Content-Type-Options', 'nosniff');
    ctx.set('Cache-Control', 'no-store');
    try {
      await next();
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

function choose(ctx: Context): { filter: TaskFilter; reason: string | undefined } {
  const { ids, filter, reason } = selection.parse((ctx.request as { body?: unknown }).body);
  return { filter: ids ? { ids } : (filter ?? {}), reason };
}

/** Times as people and programs read them. */
function shown(event: ShownEvent): Record<string, unknown> {
  return { ...event, createdAt: iso(event.createdAt), receivedAt: iso(event.receivedAt) };
}

function answerError(ctx: Context, error: unknown, log: Logger): void {
  if (error instanceof z.ZodError) {
    ctx.status = 400;
    ctx.body = { error: error.issues.map(({ path, message }) => `${path.join('.') || 'body'}: ${message}`).join('; ') };
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
