// The public listener: one webhook path and two probes. It refuses as early as it can and answers authentic deliveries
// with a 2xx once they are on disk, whatever they hold: a non-2xx counts towards switching the webhook off.
import { Router } from '@koa/router';
import Koa, { type Context, type Next } from 'koa';
import { countsOf } from '../base/latency-buckets.ts';
import type { Clock } from '../base/clock.ts';
import { Unavailable, type GroupCommit } from './group-commit.ts';
import type { Account } from '../processes/channel.ts';
import type { Logger } from '../base/log.ts';
import { readDelivery, type Reading } from '../wire/event.ts';
import { BodyError, type BodyReader } from './body.ts';
import { isOurs, isRepeated, type DeliveryHealth } from './delivery-health.ts';
import { lingerOnClose } from './linger.ts';
import { createRefusalRecords } from './refusal-records.ts';
import type { RefusalLog } from './refusal-log.ts';
import { createTurns } from './turns.ts';
import type { Verifier } from './verify.ts';

/** Who tried while we started, or by a clock a little ahead of ours, was refused by nobody but us. */
const STARTING_MS = 2_000;

export interface ReceiveOptions {
  path: string;
  prefix: string;
  bodyLimit: number;
  verifier: Verifier;
  bodies: BodyReader;
  groupCommit: GroupCommit;
  clock: Clock;
  log: Logger;
  refusalLog: RefusalLog;
  health: DeliveryHealth;
  draining: () => boolean;
  /** What the kit says of itself to who asks for JSON. */
  state?: () => ReceiverState;
}

export interface ReceiverState {
  /** Whether the store takes what is written. */
  writable: boolean;
  /** Tells stores apart. */
  store: string;
  processes: Account['processes'];
  alarms: Account['alarms'];
}

const REPLACED = 'the store was replaced or deleted: stop the kit, then put a backup in its place with npx kit restore';

export function createReceiveApp(options: ReceiveOptions): Koa {
  const { path, bodyLimit, verifier, bodies, groupCommit, clock, refusalLog, health, draining } = options;
  const hereSince = clock.now() + STARTING_MS;
  const attemptHeader = `${options.prefix}Attempt`.toLowerCase();
  const refusals = createRefusalRecords(options);
  const turns = createTurns();
  const noteAlienPrefix = once((prefix: string) => {
    options.log.warn({ prefix }, `deliveries carry other header names: set WEBHOOK_HEADER_PREFIX=${prefix}`);
  });

  async function receive(ctx: Context): Promise<void> {
    const { req } = ctx;
    const began = performance.now();
    if (draining()) ctx.set('Connection', 'close');
    const encoding = req.headers['content-encoding'];
    if (encoding !== undefined && encoding.toLowerCase() !== 'identity') return refuse(ctx, 415, 'content_encoding');

    const claimed = verifier.headers(req, clock.now());
    if (typeof claimed === 'string') {
      if (claimed === 'no_signature') noteAlienPrefix(alienPrefix(req.headers, options.prefix));
      return refuse(ctx, 401, claimed);
    }
    if (Number(req.headers['content-length'] ?? 0) > bodyLimit) return refuse(ctx, 413, 'body_limit');

    let body: Buffer;
    try {
      if (req.headers.expect !== undefined) ctx.res.writeContinue();
      body = await bodies.read(req, bodyLimit);
    } catch (error) {
      if (!(error instanceof BodyError)) throw error;
      if (error.code === 'too_large') return refuse(ctx, 413, 'body_limit');
      return refuse(ctx, 408, `body_${error.code}`);
    }
    const turn = turns.wait(body.length);
    if (turn) await turn;
    const signers = verifier.body(claimed, body, clock.now());
    if (signers === 'bad_signature') health.forged();
    if (typeof signers === 'string' && signers !== 'clock_skew') return refuse(ctx, 401, signers);
    const reading = readDelivery(body);
    const entries = isOurs(reading) ? undefined : health;
    if (signers === 'clock_skew') {
      entries?.answered(401, signers);
      return refuse(ctx, 401, entries ? signers : 'own_skew');
    }
    if ('event' in reading) {
      const skewSeconds = Math.round(clock.now() / 1000) - claimed.timestamp;
      reading.event.signed = { secret: (signers[0] ?? 0) + 1, skewSeconds };
    }
    entries?.signed(signers, claimed.timestamp);
    await commit(ctx, reading, entries);
    groupCommit.count(countsOf(performance.now() - began));
  }

  async function commit(ctx: Context, reading: Reading, entries: DeliveryHealth | undefined): Promise<void> {
    try {
      const { verdict, conflict } = await groupCommit.accept(reading);
      ctx.status = 204;
      entries?.answered(204, verdict);
      if (
        entries &&
        verdict === 'new' &&
        happenedSince(hereSince, reading) &&
        isRepeated(ctx.req.headers[attemptHeader])
      )
        groupCommit.count({ unseen_failures: 1 });
      if (verdict === 'quarantined' || conflict)
        refusalLog.note(
          conflict ? 'conflict' : 'quarantined',
          conflict ? { key: conflict.with, conflict: conflict.reason } : {},
        );
    } catch (error) {
      if (!(error instanceof Unavailable)) throw error;
      entries?.answered(503, 'store');
      refuse(ctx, 503, 'store');
    }
  }

  /** An empty answer; what the sender did not finish sending is not kept. */
  function refuse(ctx: Context, status: number, cause: string): void {
    groupCommit.count({ [`refused.${cause}`]: 1 });
    refusalLog.note(cause, { status });
    refusals.note(cause, ctx.req);
    // An empty body turns the status into 204, so the status comes second.
    ctx.body = null;
    ctx.status = status;
    if (!ctx.req.complete) {
      lingerOnClose(ctx.req);
      ctx.set('Connection', 'close');
    }
  }

  /** Before the router, whose search for a route costs as much as verifying does. */
  function webhook(ctx: Context, next: Next): Promise<void> | void {
    if (ctx.path !== path) return next();
    if (ctx.method === 'POST') return receive(ctx);
    ctx.set('Allow', 'POST');
    refuse(ctx, 405, 'method');
  }

  const router = new Router({ sensitive: true, strict: true });
  router.get('/livez', (ctx) => {
    ctx.body = 'alive\n';
  });
  router.get('/readyz', (ctx) => {
    const state = options.state?.();
    const ready = groupCommit.ready() && !draining() && state?.writable !== false;
    const fault = groupCommit.replaced() ? REPLACED : 'the store cannot be written';
    const words = ready ? 'ready' : draining() ? 'draining' : fault;
    ctx.status = ready ? 200 : 503;
    ctx.body = state && ctx.accepts('text', 'json') === 'json' ? { ...state, ready, words } : `${words}\n`;
  });

  const app = new Koa();
  app.use(webhook);
  app.use(router.routes());
  app.use((ctx) => refuse(ctx, 404, 'path'));
  // Koa would print the stack, and with it what a stranger sent.
  app.on('error', (error: unknown) => refusalLog.note('broken_answer', {}, error));
  return app;
}

/** Before, nobody was here to take its first attempts. */
function happenedSince(time: number, reading: Reading): boolean {
  return 'event' in reading && (reading.event.createdAt ?? 0) >= time;
}

/** The prefix of a signature header that is not ours, if a delivery carries one. */
function alienPrefix(headers: NodeJS.Dict<string | string[]>, prefix: string): string | undefined {
  const name = Object.keys(headers).find((header) => /^x-(?=.{1,40}$)[a-z0-9]+(-[a-z0-9]+)*-signature$/.test(header));
  const found = name?.slice(0, -'signature'.length);
  return found === undefined || found === prefix.toLowerCase() ? undefined : found;
}

function once(say: (prefix: string) => void): (prefix: string | undefined) => void {
  let said = false;
  return (prefix) => {
    if (said || prefix === undefined) return;
    said = true;
    say(prefix);
  };
}
