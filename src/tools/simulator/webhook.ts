// One registered webhook (contract 3.2, 3.3, 6.3). It delivers signed events over HTTP, and retries by the schedule
// until the answer is a 2xx. A webhook delivers nothing while it is disabled or its key may not read events.
import { setTimeout as sleep } from 'node:timers/promises';
import { iso, type Clock } from '../../base/clock.ts';
import type { AddressRules } from './address.ts';
import type { SimulatedEvent } from './history.ts';
import type { Limits } from './limits.ts';
import type { Answer, Post } from './post.ts';
import type { Random } from '../random.ts';
import { Refusal } from './refusal.ts';
import { signedHeaders } from '../../wire/sign.ts';

/** Options that all webhooks of a service share. */
export interface Delivering {
  addresses: AddressRules;
  post: Post;
  limits: Limits;
  random: Random;
  clock: Clock;
  /** Divides the waits between attempts. */
  speed: number;
  /** The prefix of the header names. */
  prefix: string;
  onAttempt?: ((attempt: AttemptRecord) => void) | undefined;
  /** Failures have switched the webhook off. */
  onDisabled?: ((reason: string) => void) | undefined;
}

export interface AttemptRecord {
  event: SimulatedEvent;
  deliveryId: string;
  attempt: number;
  answer: Answer;
  forged: boolean;
}

export interface DeliverOptions {
  /** The number of simultaneous deliveries of the same event. */
  copies?: number;
  /** Signed with a wrong secret, and sent only once. A failed attempt does not count as a failure of the webhook. */
  forged?: boolean;
  /** How many seconds the signing clock is behind. Negative: ahead. */
  ageSeconds?: number;
  /** Milliseconds until the first attempt, divided by `speed`. */
  afterMs?: number;
}

export interface Delivered {
  event: SimulatedEvent;
  /**
   * The worst outcome of all copies. `refused`: a forged delivery was not answered with 2xx. `abandoned`: every attempt
   * failed. `stopped`: the webhook was disabled, or its key may no longer read.
   */
  outcome: 'delivered' | 'dropped' | 'refused' | 'abandoned' | 'stopped';
  attempts: number;
  statuses: Answer[];
}

/** A line of the delivery log: HTTP status, time, attempts and failure reason (contract 6.3). */
export interface LogEntry {
  deliveryId: string;
  type: string;
  at: string;
  attempts: number;
  answer: Answer | null;
  outcome: Delivered['outcome'] | 'under way';
}

export interface Webhook {
  readonly id: string;
  readonly url: string;
  readonly events: readonly string[];
  secret(): string;
  state(): 'enabled' | 'disabled' | 'disabled by failures';
  deliver(event: SimulatedEvent, options?: DeliverOptions): Promise<Delivered>;
  /** Sends a test event. Throws Refusal 409 WEBHOOK_DISABLED, 429 WEBHOOK_TEST_RATE_LIMITED. */
  ping(event: SimulatedEvent): Promise<Delivered>;
  disable(): void;
  /** Events that happened while the webhook was disabled are not delivered later. */
  enable(): void;
  /** Returns the new secret. With `grace`, deliveries carry both signatures for 24 h. */
  rotate(options?: { grace?: boolean }): string;
  /** At most 100 entries, newest first. */
  log(): LogEntry[];
}

export interface WebhookOptions extends Delivering {
  id: string;
  url: string;
  events: string[];
  secret: string;
  /** Whether the webhook's key is valid and may read this event. */
  allowed: (event: SimulatedEvent) => boolean;
  onDisabled: (reason: string) => void;
}

/** The wait before each attempt (contract 3.3). */
export const WAITS_MS = [0, 30_000, 120_000, 600_000, 1_800_000, 3_600_000, 7_200_000, 14_400_000];
/** Contract 3.2: "consecutive delivery failures". Failed attempts are counted, which is the stricter reading. */
const FAILURES_ALLOWED = 15;
const GRACE_MS = 24 * 3_600_000;
const LOGGED = 100;
const WORST_FIRST = ['stopped', 'abandoned', 'refused', 'delivered'] as const;

// oxlint-disable-next-line max-lines-per-function -- failures disable the webhook, and disabling ends deliveries
export function createWebhook(options: WebhookOptions): Webhook {
  const { id, url, events, allowed, onDisabled, addresses, post, limits, random, clock, speed, prefix } = options;
  let state: ReturnType<Webhook['state']> = 'enabled';
  let secret = options.secret;
  let old = { secret: '', until: -Infinity };
  let failureRun = 0;
  /** Aborts the current deliveries when the webhook is disabled. */
  let enabled = new AbortController();
  const log: LogEntry[] = [];

  function end(next: typeof state): void {
    state = next;
    enabled.abort();
  }

  async function deliverOnce(event: SimulatedEvent, how: DeliverOptions): Promise<Delivered> {
    const { forged = false, ageSeconds = 0, afterMs = 0 } = how;
    const { signal } = enabled;
    const body = bodyOf(event, id);
    const deliveryId = random.uuid();
    const statuses: Answer[] = [];
    const entry: LogEntry = {
      deliveryId,
      type: event.type,
      at: iso(clock.now()) ?? '',
      attempts: 0,
      answer: null,
      outcome: 'under way',
    };
    if (!forged) log.unshift(entry);
    log.length = Math.min(log.length, LOGGED);
    const ended = (outcome: Delivered['outcome']): Delivered => {
      entry.outcome = outcome;
      return { event, outcome, attempts: statuses.length, statuses };
    };

    for (const [failed, wait] of WAITS_MS.entries()) {
      const pause = (wait + (failed === 0 ? afterMs : 0)) / speed;
      if (pause > 0) await sleep(pause, undefined, { signal }).catch(() => {});
      if (signal.aborted || !(forged || allowed(event))) return ended('stopped');
      const attempt = failed + 1;
      const answer = await send(body, {
        // Every attempt is signed again, because the timestamp is the time of signing.
        timestampSeconds: Math.floor(clock.now() / 1000) - ageSeconds,
        secrets: forged ? [`whsec_of_a_stranger_${random.uuid()}`] : secrets(),
        type: event.type,
        id: event.id,
        deliveryId,
        attempt,
      });
      statuses.push(answer);
      Object.assign(entry, { attempts: attempt, answer });
      options.onAttempt?.({ event, deliveryId, attempt, answer, forged });
      const success = typeof answer === 'number' && answer >= 200 && answer < 300;
      if (forged) return ended(success ? 'delivered' : typeof answer === 'number' ? 'refused' : 'abandoned');
      if (!signal.aborted) count(success);
      if (success) return ended('delivered');
    }
    return ended('abandoned');
  }

  async function send(body: Buffer, signing: Omit<Parameters<typeof signedHeaders>[0], 'body'>): Promise<Answer> {
    try {
      const to = await addresses.check(url);
      return await post.send(to, body, signedHeaders({ ...signing, body, prefix }));
    } catch (error) {
      if (error instanceof Refusal) return 'address refused';
      throw error;
    }
  }

  function count(success: boolean): void {
    failureRun = success ? 0 : failureRun + 1;
    if (failureRun < FAILURES_ALLOWED) return;
    end('disabled by failures');
    onDisabled(`webhook ${id} disabled: ${FAILURES_ALLOWED} consecutive failures`);
  }

  function secrets(): string[] {
    return clock.now() < old.until ? [secret, old.secret] : [secret];
  }

  async function deliver(event: SimulatedEvent, { copies = 1, ...how }: DeliverOptions = {}): Promise<Delivered> {
    const delivered = await Promise.all(Array.from({ length: copies }, () => deliverOnce(event, how)));
    const statuses = delivered.flatMap((copy) => copy.statuses);
    const outcome = WORST_FIRST.find((worst) => delivered.some((copy) => copy.outcome === worst)) ?? 'dropped';
    return { event, outcome, attempts: statuses.length, statuses };
  }

  return {
    id,
    url,
    events,
    secret: () => secret,
    state: () => state,
    deliver,
    ping(event) {
      if (state !== 'enabled') throw new Refusal(409, 'WEBHOOK_DISABLED', `the webhook is ${state}: enable it first`);
      if (!limits.take(`ping ${id}`, 1))
        throw new Refusal(429, 'WEBHOOK_TEST_RATE_LIMITED', 'one test per minute is allowed');
      return deliver(event);
    },
    disable: () => end('disabled'),
    enable() {
      if (state === 'enabled') return;
      state = 'enabled';
      failureRun = 0;
      enabled = new AbortController();
    },
    rotate({ grace = true } = {}) {
      old = { secret, until: grace ? clock.now() + GRACE_MS : -Infinity };
      secret = newSecret(random);
      return secret;
    },
    log: () => log.map((entry) => ({ ...entry })),
  };
}

export function newSecret(random: Random): string {
  return `whsec_${random.uuid().replaceAll('-', '')}`;
}

/** The body of a delivery (contract 6.3). Only a ping's fields are not wrapped in an object named after the type. */
function bodyOf({ id, type, createdAt, cursor, sessionId, bare, data }: SimulatedEvent, webhookId: string): Buffer {
  const named = type === 'webhook.ping' ? data : { [type]: data };
  const envelope = {
    id,
    type,
    created_at: createdAt,
    cursor,
    session_id: bare === 'all' ? null : sessionId,
    webhook_id: webhookId,
    data: named,
  };
  return Buffer.from(JSON.stringify(envelope));
}
