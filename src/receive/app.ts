// The public listener: one path for deliveries, and two probes. It refuses a request as early as it can. An authentic
// delivery gets a 2xx once it is on disk, whatever it holds: otherwise the service would repeat it and count a failure.
import { Router } from '@koa/router';
import Koa, { type Context } from 'koa';
import type { Clock } from '../base/clock.ts';
import { orUndefined } from '../base/errors.ts';
import type { Config } from '../config.ts';
import { readDelivery } from '../wire/event.ts';
import { DELIVERY } from '../wire/headers.ts';
import { isSigned, readSignatures, readTimestamp } from '../wire/signature.ts';
import { createBodyReader } from './body.ts';
import { CAUSES, type Cause } from './causes.ts';
import type { Commit } from './commit.ts';
import type { Health } from './health.ts';
import { closeAfter } from './server.ts';

const DAY_SECONDS = 86_400;

export interface ReceiveOptions {
  config: Config;
  /** The webhook's secrets. A function, because a reload changes them. */
  secrets: () => string[];
  commit: Commit;
  health: Health;
  clock: Clock;
  /** 'ready', or the reason why no new deliveries should be sent here. */
  state: () => 'ready' | 'draining' | 'the store cannot be written' | 'the store was replaced';
}

export function createReceiveApp(options: ReceiveOptions): Koa {
  const { config, health, state } = options;
  const receive = createRoute(options);
  const app = new Koa();
  // Deliveries do not go through the router: its search costs as much as a signature. The path must match exactly.
  app.use(async (ctx, next) => {
    const asked = pathOf(ctx);
    if (asked === undefined) return refuse(ctx, 'bad_http', health);
    if (asked !== config.WEBHOOK_PATH) return next();
    if (ctx.method === 'POST') return receive(ctx);
    ctx.set('Allow', 'POST');
    return refuse(ctx, 'method', health);
  });
  const router = new Router({ sensitive: true, strict: true });
  router.get('/livez', (ctx) => {
    ctx.body = 'alive\n';
  });
  router.get('/readyz', (ctx) => {
    const found = state();
    ctx.status = found === 'ready' ? 200 : 503;
    ctx.body = ctx.accepts('text', 'json') === 'json' ? { ready: found === 'ready', words: found } : `${found}\n`;
  });
  app.use(router.routes());
  app.use((ctx) => refuse(ctx, 'path', health));
  // Without this listener Koa would print the stack, and with it parts of the request.
  app.on('error', (error: unknown) => health.broke(error));
  return app;
}

/** Undefined: Koa cannot parse the target of the request line, which may be any text that a stranger sends. */
function pathOf(ctx: Context): string | undefined {
  return ctx.url.startsWith('/') || URL.canParse(ctx.url, 'http://receiver') ? orUndefined(() => ctx.path) : undefined;
}

function createRoute(options: ReceiveOptions): (ctx: Context) => Promise<void> {
  const { config, secrets, commit, health, clock, state } = options;
  const { BODY_LIMIT_BYTES: bodyLimit, TIMESTAMP_TOLERANCE_SECONDS: toleranceSeconds } = config;
  const readBody = createBodyReader();
  // Node keeps the names of headers in lower case.
  const nameOf = (name: string): string => `${config.WEBHOOK_HEADER_PREFIX}${name}`.toLowerCase();
  const names = { signature: nameOf(DELIVERY.signature), timestamp: nameOf(DELIVERY.timestamp) };

  /** Takes a whole body: verifies it, stores what it holds, and answers. */
  async function take(ctx: Context, bytes: Buffer, timestamp: number, signatures: string[], since: number) {
    if (!isSigned(bytes, timestamp, signatures, secrets())) return refuse(ctx, 'bad_signature', health);
    const skew = Math.floor(clock.now() / 1_000) - timestamp;
    if (Math.abs(skew) > toleranceSeconds) return refuse(ctx, 'clock_skew', health);
    const reading = readDelivery(bytes);
    const verdict = await commit.accept(reading, since);
    if (verdict === null) return refuse(ctx, 'store', health);
    ctx.status = 204;
    health.accepted(verdict, 'event' in reading && reading.event.id?.startsWith('kit_') === true);
  }

  return async (ctx) => {
    const since = clock.monotonic();
    const { headers } = ctx.req;
    if (state() === 'draining') ctx.set('Connection', 'close');
    const encoding = headers['content-encoding'];
    if (encoding !== undefined && encoding.toLowerCase() !== 'identity') return refuse(ctx, 'content_encoding', health);
    const signatures = readSignatures(headers[names.signature]?.toString());
    if (signatures.length === 0) return refuse(ctx, 'no_signature', health);
    // Two timestamp headers arrive joined by a comma, so they are refused.
    const timestamp = readTimestamp(headers[names.timestamp]?.toString());
    if (timestamp === undefined || Math.abs(clock.now() / 1_000 - timestamp) > DAY_SECONDS)
      return refuse(ctx, 'bad_timestamp', health);
    if (Number(headers['content-length'] ?? 0) > bodyLimit) return refuse(ctx, 'body_limit', health);
    if (state() === 'the store was replaced') return refuse(ctx, 'store', health);
    if (headers.expect !== undefined) ctx.res.writeContinue();
    const body = await readBody(ctx.req, bodyLimit);
    if (typeof body === 'string') return refuse(ctx, body, health);
    await take(ctx, body.bytes, timestamp, signatures, since).finally(body.release);
  };
}

/** Answers without a body. The unread rest of the request is dropped. */
function refuse(ctx: Context, cause: Cause, health: Health): void {
  health.refused(cause);
  // In Koa an empty body sets the status to 204, so the status is set after it.
  ctx.body = null;
  ctx.status = CAUSES[cause].status;
  if (!ctx.req.complete) closeAfter(ctx.req, ctx.res);
}
