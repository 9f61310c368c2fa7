// The ops port: the operations as an API, the page that calls it, probes and metrics.
import { createHash } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import { extname } from 'node:path';
import { Router } from '@koa/router';
import Koa, { type Context } from 'koa';
import { loggable } from '../base/errors.ts';
import type { Logger } from '../base/log.ts';
import type { Config } from '../config.ts';
import { diskOf } from '../keep/alarms.ts';
import { OPERATIONS } from '../operations/all.ts';
import { argumentsOf, checked, Refused, type Operation, type OperationContext } from '../operations/define.ts';
import { processesOf } from '../operations/judge.ts';
import { readFacts } from '../operations/store/facts.ts';
import type { PeopleStore } from '../operations/store/open.ts';
import { listen } from '../receive/server.ts';
import { StoreError } from '../store/store.ts';
import { refusal } from './access.ts';

const POLICY = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
const HEADERS = {
  'X-Content-Type-Options': 'nosniff',
  'Cache-Control': 'no-store',
  'Content-Security-Policy': POLICY,
  'Referrer-Policy': 'no-referrer',
};
const PAGE = new URL('page/', import.meta.url);
/** The packages that the page's modules import. The page's import map has the same names. */
const MODULES = ['preact', 'preact/hooks', 'htm'];

type OpsOptions = { db: PeopleStore; config: Config; log: Logger };

type Guard = (ctx: Context, next: () => Promise<unknown>) => Promise<unknown>;

/** Throws ConfigError if the kit cannot listen on the port. */
export async function startOps({ db, config, log }: OpsOptions): Promise<Server> {
  const disk = () => diskOf(config.storePath);
  const context: OperationContext = { db, clock: db.clock, disk, config: () => config };
  const tokens = { all: config.OPS_TOKEN, read: config.OPS_READ_TOKEN };
  const guard =
    (access: Operation['access']): Guard =>
    (ctx, next) => {
      const refused = refusal(tokens, ctx.req.headers, access);
      if (!refused) return next();
      if (refused.status === 401) ctx.set('WWW-Authenticate', 'Basic realm="kit"');
      return answer(ctx, refused.status, { error: refused.error });
    };
  const router = new Router({ sensitive: true, strict: true });
  addProbes(router, db);
  router.get('/metrics', guard('read'), async (ctx) => {
    const { metricsOf } = await import('./metrics.ts');
    const { type, text } = await metricsOf(await readFacts(db), disk());
    ctx.type = type;
    ctx.body = text;
  });
  router.get('/api', guard('read'), (ctx) => {
    ctx.body = OPERATIONS.map((operation) => {
      const { name, about, access, reads = access !== 'change', first = [] } = operation;
      return { name, about, access, reads, first, args: argumentsOf(operation) };
    });
  });
  addPage(router, guard('read'));
  for (const operation of OPERATIONS) addOperation(router, operation, context, { guard, log });
  const app = createApp(router, log);
  const handle = app.callback();
  const server = createServer((req, res) => void handle(req, res));
  await listen(server, 'OPS_PORT', config.OPS_PORT, config.OPS_HOST);
  return server;
}

/** Reads the page once, at the start. The policy allows the import map by its hash, and no other inline script. */
function addPage(router: Router, guard: Guard): void {
  const page = readFileSync(new URL('index.html', PAGE), 'utf8');
  const [, map = ''] = /<script type="importmap">(.*?)<\/script>/s.exec(page) ?? [];
  const hash = createHash('sha256').update(map).digest('base64');
  const policy = `${POLICY}; script-src 'self' 'sha256-${hash}'; style-src 'self'; connect-src 'self'; img-src data:`;
  const own = readdirSync(PAGE).map((name) => [name, new URL(name, PAGE)] as const);
  const modules = MODULES.map((name) => [`${name}.js`, new URL(import.meta.resolve(name))] as const);
  for (const [name, url] of [...own, ...modules]) {
    const body = readFileSync(url, 'utf8');
    router.get(name === 'index.html' ? '/' : `/page/${name}`, guard, (ctx) => {
      ctx.set('Content-Security-Policy', policy);
      ctx.type = extname(name);
      ctx.body = body;
    });
  }
}

function createApp(router: Router, log: Logger): Koa {
  const app = new Koa();
  app.use(async (ctx, next) => {
    ctx.set(HEADERS);
    try {
      await next();
    } catch (error) {
      const { status = 500, message } = error as { status?: number; message: string };
      if (error instanceof Refused) return answer(ctx, 400, { error: message });
      if (error instanceof StoreError) return answer(ctx, 503, { error: message });
      if (status >= 400 && status < 500)
        return answer(ctx, status, { error: 'the body must be a JSON object of 64 KiB at most' });
      log.error(loggable(error), 'an ops request failed');
      await answer(ctx, 500, { error: 'failed: see the log' });
    }
  });
  app.use(router.routes()).use(router.allowedMethods());
  app.on('error', (error: unknown) => log.warn(loggable(error), 'an answer of the ops port broke off'));
  return app;
}

/** Reading is a GET with a query. Changing, or showing what strangers wrote, is a POST with JSON. */
function addOperation(
  router: Router,
  operation: Operation,
  context: OperationContext,
  { guard, log }: { guard: (access: Operation['access']) => Guard; log: Logger },
): void {
  const { name, access, reads = access !== 'change' } = operation;
  if (reads)
    router.get(`/api/${name}`, guard('read'), async (ctx) => {
      const more = Object.keys(ctx.query).filter((key) => operation.byPost?.includes(key));
      if (more.length > 0) throw new Refused(`ask for ${more.join(', ')} by POST`);
      await answer(ctx, 200, await operation.run(context, checked(operation, { ...ctx.query })));
    });
  if (access === 'read') return;
  router.post(`/api/${name}`, guard(access), async (ctx) => {
    const { koaBody } = await import('koa-body');
    await koaBody({ text: false, urlencoded: false, multipart: false, jsonLimit: '64kb' })(ctx, async () => {});
    const { body = {} } = ctx.request as { body?: Record<string, unknown> };
    const result = await operation.run(context, checked(operation, body));
    log.info({ operation: name }, 'an operation was called through the API');
    await answer(ctx, 200, result);
  });
}

async function answer(ctx: Context, status: number, body: unknown): Promise<void> {
  ctx.status = status;
  ctx.body = body;
}

function addProbes(router: Router, db: PeopleStore): void {
  router.get('/livez', (ctx) => void (ctx.body = 'alive\n'));
  router.get('/readyz', async (ctx) => {
    const processes = processesOf(await readFacts(db));
    ctx.status = processes.receive === 'up' ? 200 : 503;
    ctx.body = processes.receive === 'up' ? 'ready\n' : 'the main process gives no sign of life\n';
  });
}
