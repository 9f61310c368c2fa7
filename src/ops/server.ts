// The ops port: API, metrics and pages. It shows the store, and makes the changes that people ask for.
import { createServer, type Server } from 'node:http';
import { Router } from '@koa/router';
import Koa, { type Context } from 'koa';
import { loggable } from '../base/errors.ts';
import type { Logger } from '../base/log.ts';
import { canParseTarget } from '../base/target.ts';
import { createJobs } from '../admin/jobs.ts';
import { createAccess, type AccessConfig } from './access.ts';
import { addApi } from './api.ts';
import type { OpsContext } from './context.ts';
import { faultOf } from './faults.ts';
import { addPages } from './pages/routes.ts';
import { createWrongTokens } from './wrong-tokens.ts';

export interface OpsOptions extends Pick<OpsContext, 'store' | 'rules' | 'clock' | 'log' | 'disk' | 'onChange'> {
  config: AccessConfig & OpsContext['config'];
  /** Where status and counters are read. Default: the store itself. */
  view?: OpsContext['view'];
}

export function createOpsServer({ config, view, ...options }: OpsOptions): Server {
  const wrongTokens = createWrongTokens(options);
  const context: OpsContext = {
    ...options,
    config,
    wrongTokens,
    view: view ?? options.store.read,
    router: new Router({ sensitive: true }),
    access: createAccess(config, options, wrongTokens),
    jobs: createJobs(options),
  };
  const { router, log } = context;
  addApi(context);
  const lost = addPages(context);

  const app = new Koa();
  app.use(async (ctx, next) => {
    ctx.set('X-Content-Type-Options', 'nosniff');
    ctx.set('Cache-Control', 'no-store');
    if (!canParseTarget(ctx)) {
      ctx.status = 400;
      return;
    }
    try {
      await context.access.look(ctx);
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

function answerError(ctx: Context, error: unknown, log: Logger): void {
  const { status, words } = faultOf(error) ?? { status: 500, words: 'failed; see the log' };
  ctx.status = status;
  ctx.body = { error: words || 'the request cannot be read' };
  if (status === 500) log.error(loggable(error), 'an ops request failed');
}
