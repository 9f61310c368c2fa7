// The public listener: one webhook path and two probes. It refuses a request as early as it can. An authentic delivery
// gets a 2xx once it is on disk, even if it is unreadable. Otherwise the service would repeat it, and count a failure
// toward switching the webhook off.
import type { IncomingMessage } from 'node:http';
import { Router } from '@koa/router';
import Koa, { type Context } from 'koa';
import { countsOf } from '../base/latency-buckets.ts';
import type { Clock } from '../base/clock.ts';
import type { Logger } from '../base/log.ts';
import { canParseTarget } from '../base/target.ts';
import type { Account } from '../processes/channel.ts';
import { readDelivery, type Reading } from '../wire/event.ts';
import { receivedHeaders } from '../wire/headers.ts';
import type { BodyReader } from './body.ts';
import { NOTICES, REFUSALS, type Cause, type RefusalName } from './causes.ts';
import { isLikely, isSentByKit, type DeliveryHealth } from './delivery-health.ts';
import { Unavailable, type GroupCommit } from './group-commit.ts';
import { createPrefixAdvice } from './prefix-advice.ts';
import { createRefusalRecords, type RefusalLog } from './refusal-log.ts';
import { closeAfterAnswer } from './server.ts';
import type { Verifier } from './verify.ts';

export interface ReceiveOptions {
  path: string;
  prefix: string;
  bodyLimit: number;
  verifier: Verifier;
  bodies: BodyReader;
  groupCommit: GroupCommit;
  clock: Clock;
  /** The machine's clock, which measures the age of signatures. */
  machine: Clock;
  log: Logger;
  refusalLog: RefusalLog;
  health: DeliveryHealth;
  draining: () => boolean;
  /** The state that /readyz shows if the client asks for JSON. */
  state?: () => ReceiverState;
}

export interface ReceiverState extends Pick<Account, 'processes' | 'alarms'> {
  /** False: for a second, signs of life could not be written to the store. */
  writable: boolean;
  /** A fingerprint that tells stores apart. */
  store: string;
}

export function createReceiveApp(options: ReceiveOptions): Koa {
  const refuse = createRefuse(options);
  const receive = createRoute(options, refuse);
  const app = new Koa();
  // This check runs before the router, because the router's search costs as much as verifying a signature. The path
  // must match exactly: `/webhooks/` gets 404.
  app.use((ctx, next) => {
    const parsed = canParseTarget(ctx);
    if (parsed && ctx.path === options.path && ctx.method === 'POST') return receive(ctx);
    // Nobody reads the body of another request.
    if (hasBody(ctx.req)) closeAfterAnswer(ctx.req, ctx.res);
    if (!parsed) {
      ctx.status = 400;
      return undefined;
    }
    if (ctx.path !== options.path) return next();
    ctx.set('Allow', 'POST');
    return refuse(ctx, 'method');
  });
  app.use(createProbes(options).routes());
  app.use((ctx) => refuse(ctx, 'path'));
  // Without a listener, Koa would print the stack, and with it parts of the request.
  app.on('error', (error: unknown) => options.refusalLog.note('broken_answer', {}, error));
  return app;
}

/** The webhook route: checks the headers, reads and verifies the body, commits the event and answers. */
function createRoute(options: ReceiveOptions, refuse: Refuse): (ctx: Context) => Promise<void> {
  const { prefix, bodyLimit, verifier, bodies, groupCommit, machine, refusalLog, health, draining } = options;
  const names = receivedHeaders(prefix);
  const adviseOnPrefix = createPrefixAdvice(options);

  async function commit(ctx: Context, reading: Reading, sentByKit: boolean): Promise<void> {
    try {
      const { verdict, conflict } = await groupCommit.accept(reading);
      ctx.status = 204;
      if (!sentByKit) health.answered(204, verdict);
      if (!sentByKit && verdict === 'new') health.firstSeen(reading, ctx.req.headers[names.attempt]);
      if (conflict) refusalLog.note('conflict', { key: conflict.with, conflict: conflict.reason });
      else if (verdict === 'quarantined') refusalLog.note('quarantined', {});
    } catch (error) {
      if (!(error instanceof Unavailable)) throw error;
      refuse(ctx, 'store', sentByKit);
    }
  }

  async function receive(ctx: Context, handled: Promise<void>): Promise<void> {
    const { req } = ctx;
    const { headers } = req;
    const began = performance.now();
    if (draining()) ctx.set('Connection', 'close');
    const encoding = headers['content-encoding'] ?? 'identity';
    if (encoding.toLowerCase() !== 'identity') return refuse(ctx, 'content_encoding');
    const claimed = verifier.headers(req, machine.now());
    if (claimed === 'no_signature') await adviseOnPrefix(req);
    if (typeof claimed === 'string') return refuse(ctx, claimed);
    if (Number(headers['content-length'] ?? 0) > bodyLimit) return refuse(ctx, 'body_limit');

    if (headers.expect !== undefined) ctx.res.writeContinue();
    const check = verifier.body(claimed);
    const parts = await bodies.read(req, bodyLimit, handled, check.update);
    if (typeof parts === 'string') return refuse(ctx, parts);
    const signers = check.end(machine.now());
    if (signers === 'bad_signature') return refuse(ctx, signers);
    const reading = readDelivery(Buffer.concat(parts));
    const sentByKit = isSentByKit(reading);
    if (signers === 'clock_skew') return refuse(ctx, sentByKit ? 'own_skew' : signers);

    if ('event' in reading) {
      const skewSeconds = Math.round(machine.now() / 1000) - claimed.timestamp;
      reading.event.signed = { secret: (signers[0] ?? 0) + 1, skewSeconds };
    }
    if (!sentByKit) health.signed(signers, claimed.timestamp);
    await commit(ctx, reading, sentByKit);
    groupCommit.count(countsOf(performance.now() - began));
  }

  return async (ctx) => {
    const { promise, resolve } = Promise.withResolvers<void>();
    // Not the end of the answer: a sender that does not read would hold the memory of bodies.
    await receive(ctx, promise).finally(resolve);
  };
}

function hasBody({ headers }: IncomingMessage): boolean {
  return headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > 0;
}

type Refuse = (ctx: Context, cause: RefusalName, sentByKit?: boolean) => void;

/** Answers with an empty body. The rest of an unfinished request is read and dropped. */
function createRefuse(options: ReceiveOptions): Refuse {
  const { prefix, groupCommit, clock, refusalLog, health } = options;
  const record = createRefusalRecords(groupCommit, clock, prefix);
  return (ctx, cause, sentByKit = false) => {
    const { status, counts }: Cause = REFUSALS[cause];
    const failed = counts === 'likely' ? isLikely(ctx.req, prefix) : counts === 'surely' && !sentByKit;
    if (failed) health.answered(status, cause);
    if (cause === 'bad_signature') health.forged();
    groupCommit.count({ [`refused.${cause}`]: 1 });
    refusalLog.note(cause, { status });
    record(cause, ctx.req);
    // Setting an empty body changes the status to 204, so the status is set afterwards.
    ctx.body = null;
    ctx.status = status;
    if (!ctx.req.complete) closeAfterAnswer(ctx.req, ctx.res);
  };
}

function createProbes({ groupCommit, draining, state: stateOf }: ReceiveOptions): Router {
  const router = new Router({ sensitive: true, strict: true });
  router.get('/livez', (ctx) => {
    ctx.body = 'alive\n';
  });
  router.get('/readyz', (ctx) => {
    const state = stateOf?.();
    const ready = groupCommit.ready() && !draining() && state?.writable !== false;
    const fault = groupCommit.replaced() ? NOTICES.store_replaced : NOTICES.store_unwritable;
    const words = ready ? 'ready' : draining() ? 'draining' : fault.readyz;
    ctx.status = ready ? 200 : 503;
    ctx.body = state && ctx.accepts('text', 'json') === 'json' ? { ...state, ready, words } : `${words}\n`;
  });
  return router;
}
